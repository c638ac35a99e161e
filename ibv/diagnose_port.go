package ibv

import (
	"fmt"
	"strings"
)

// overhead is what RoCE v2 takes of a network device's MTU, as the kernel counts:
// IPv6 or GRH, UDP, BTH, the longest extended headers, ICRC.
const overhead = 40 + 8 + 12 + 4 + 28 + 4

// mtuIn is the largest MTU of RDMA that fits into a network device's; 0 for none.
func mtuIn(netdev int) (fits MTU) {
	for m := MTU256; m <= MTU4096 && m.Bytes() <= netdev-overhead; m++ {
		fits = m
	}
	return fits
}

// ports looks at the ports of the devices that can be opened.
func (d *diagnosis) ports() {
	ports, active, reachable := 0, 0, 0
	for _, dev := range d.devices {
		if dev.err != nil {
			continue
		}
		for i, p := range dev.ports {
			object := fmt.Sprintf("%s/%d", dev.name, i+1)
			ports++
			if d.link(dev, object, p) {
				active++
			}
			if p.LinkLayer != LinkEthernet {
				reachable++ // InfiniBand is addressed otherwise
				continue
			}
			if d.gids(dev, object, uint8(i+1)) {
				reachable++
			}
			if dev.transport != TransportIWARP {
				d.mtu(dev, object, p)
			}
		}
	}
	if ports > 0 && active == 0 {
		d.add(SeverityError, "link", "all devices", nil, "no port is active")
	}
	if ports > 0 && reachable == 0 {
		d.add(SeverityError, "gid", "all devices", nil, "none has an address that this network namespace has")
	}
}

// link tells whether a port is active.
func (d *diagnosis) link(dev diagnosed, object string, p PortAttr) bool {
	if p.State == PortActive {
		d.add(SeverityOK, "link", object, nil, "%v", p.State)
		return true
	}
	what := "no traffic until it is ACTIVE"
	var do []string
	switch {
	case p.LinkLayer == LinkInfiniBand && p.State == PortInit:
		what = "no subnet manager has configured it; run one on a host or switch of the fabric"
		do = []string{"systemctl start opensm"}
	default:
		for _, name := range d.below(dev) {
			do = append(do, "ip link set "+name+" up")
		}
	}
	d.add(SeverityWarning, "link", object, do, "%v: %s", p.State, what)
	return false
}

// below names the network device of a device, from what the kernel shows of it:
// an adapter's own, rxe's parent.
func (d *diagnosis) below(dev diagnosed) []string {
	if parent := d.read("/sys/class/infiniband", dev.name, "parent"); parent != "" {
		return []string{parent}
	}
	if names := d.names("/sys/class/infiniband", dev.name, "device/net"); names != nil {
		return names
	}
	var out []string
	for _, n := range dev.rails {
		out = append(out, n.Name)
	}
	return out
}

// gids tells whether a port has an address that this namespace has, too.
func (d *diagnosis) gids(dev diagnosed, object string, port uint8) bool {
	var here []string
	v1, rows := 0, 0
	for _, e := range dev.table {
		if e.Port != port {
			continue
		}
		rows++
		if e.Type != GIDTypeRoCEv2 {
			v1++
			continue
		}
		for _, n := range dev.rails {
			if a := e.GID.Addr(); e.Netdev == n.Index && n.has(a) {
				here = append(here, fmt.Sprintf("%v on %s", a, n.Name))
			}
		}
	}
	iwarp := dev.transport == TransportIWARP
	if iwarp { // its row is the hardware address
		v1 = 0
		for _, n := range dev.rails {
			for _, p := range n.prefixes {
				here = append(here, fmt.Sprintf("%v on %s", p.Addr(), n.Name))
			}
		}
	}
	switch {
	case rows > 0 && v1 == rows:
		d.add(SeverityWarning, "gid", object, nil, "RoCE v1 only, which no router passes on; RoCE v2 is the default of newer adapters and drivers")
	case here == nil:
		d.unaddressed(dev, object)
	case iwarp:
		d.add(SeverityOK, "gid", object, nil, "iWARP: %s", strings.Join(here, ", "))
	default:
		d.add(SeverityOK, "gid", object, nil, "RoCE v2: %s", strings.Join(here, ", "))
	}
	return here != nil
}

func (d *diagnosis) unaddressed(dev diagnosed, object string) {
	what := "no address of its network device is in its GID table"
	var do []string
	if d.ownNamespace() {
		what = "no address of this network namespace is in its GID table: the connection manager cannot bind to it here; use the host's namespace (--network host), or move the network device here (ip link set NETDEV netns NAME)"
	} else {
		for _, name := range d.below(dev) {
			do = append(do, "ip link set "+name+" up", "ip address add ADDRESS/LENGTH dev "+name)
		}
	}
	d.add(SeverityWarning, "gid", object, do, "%s", what)
}

// mtu compares a RoCE port's MTU with those of its network devices.
func (d *diagnosis) mtu(dev diagnosed, object string, p PortAttr) {
	for _, n := range dev.rails {
		fits := mtuIn(n.MTU)
		switch {
		case fits < p.ActiveMTU:
			d.add(SeverityWarning, "mtu", object, nil, "%v, of which the MTU of %s, %d, leaves %d bytes: queue pairs that are connected without the connection manager must use that", p.ActiveMTU, n.Name, n.MTU, fits.Bytes())
		case p.ActiveMTU < p.MaxMTU:
			d.add(SeverityNote, "mtu", object, []string{fmt.Sprintf("ip link set %s mtu %d", n.Name, p.MaxMTU.Bytes()+overhead+8)},
				"%v bytes a packet, which the MTU of %s, %d, leaves; %v is faster, where switches and peers have room for it", p.ActiveMTU, n.Name, n.MTU, p.MaxMTU)
		default:
			d.add(SeverityOK, "mtu", object, nil, "%v, with %d on %s", p.ActiveMTU, n.MTU, n.Name)
		}
	}
}
