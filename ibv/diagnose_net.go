package ibv

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// rails are the network devices that carry RDMA here.
func (d *diagnosis) rails() (out []netdev) {
	seen := map[int]bool{}
	for _, dev := range d.devices {
		for _, n := range dev.rails {
			if !seen[n.Index] {
				seen[n.Index] = true
				out = append(out, n)
			}
		}
	}
	return out
}

// ipv4 is a setting of a network device: the larger of its own and that of all.
func (d *diagnosis) ipv4(netdev, name string) int {
	own, _ := strconv.Atoi(d.read("/proc/sys/net/ipv4/conf", netdev, name))
	all, _ := strconv.Atoi(d.read("/proc/sys/net/ipv4/conf/all", name))
	return max(own, all)
}

// subnets looks at rails that share one of IPv4: the host answers and filters by
// rules that know nothing of rails.
func (d *diagnosis) subnets() {
	rails := d.rails()
	for _, n := range rails {
		subnet, others := n.shares(rails)
		if others != nil {
			d.shared(n, subnet, strings.Join(others, ", "))
		}
	}
}

// shares names the rails that have a subnet of this one.
func (n netdev) shares(rails []netdev) (subnet netip.Prefix, others []string) {
	for _, p := range n.prefixes {
		for _, o := range rails {
			for _, q := range o.prefixes {
				if o.Index != n.Index && p.Addr().Is4() && q.Addr().Is4() && p.Overlaps(q) {
					subnet, others = p.Masked(), append(others, o.Name)
				}
			}
		}
	}
	return subnet, others
}

func (d *diagnosis) shared(n netdev, subnet netip.Prefix, others string) {
	s := SeverityOK
	var wrong, do []string
	want := func(bad Severity, name string, value int, fine bool, why string) {
		if fine {
			return
		}
		s = max(s, bad)
		wrong = append(wrong, fmt.Sprintf("%s is %d: %s", name, d.ipv4(n.Name, name), why))
		do = append(do, fmt.Sprintf("sysctl -w net/ipv4/conf/%s/%s=%d", n.Name, name, value))
	}
	want(SeverityWarning, "arp_ignore", 1, d.ipv4(n.Name, "arp_ignore") >= 1, "answers for the other rail's address, so that peers send to the wrong device")
	want(SeverityWarning, "arp_announce", 2, d.ipv4(n.Name, "arp_announce") >= 2, "asks peers in the other rail's name")
	want(SeverityWarning, "rp_filter", 2, d.ipv4(n.Name, "rp_filter") != 1, "drops what arrives here and would be answered through the other rail")
	want(SeverityNote, "accept_local", 1, d.ipv4(n.Name, "accept_local") >= 1, "the rails of this host cannot talk to each other through the switch, if that is wanted")
	what := fmt.Sprintf("shares %v with %s", subnet, others)
	if wrong != nil {
		what += "; " + strings.Join(wrong, "; ")
	}
	d.add(s, "shared-subnet", n.Name, do, "%s", what)
}

// routing looks at where IPv6 leaves a rail, and packets a VRF.
func (d *diagnosis) routing() {
	rails := d.rails()
	used := map[string]bool{}
	for _, n := range rails {
		used[d.master(n.Name)] = true
	}
	for _, v := range d.vrfs() {
		if !used[v.name] {
			continue
		}
		d.leak(v, "IPv4", "", v.v4)
		d.leak(v, "IPv6", "-6 ", v.v6)
		if d.kernelBefore(6, 18) {
			d.add(SeverityNote, "kernel", v.name, nil, "before kernel 6.18, connections to an address of this host inside a VRF do not come about, but for addresses of the VRF's own device")
		}
	}
	d.ipv6(rails)
}

// master is the device that a network device belongs to.
func (d *diagnosis) master(netdev string) string {
	for line := range strings.Lines(d.read("/sys/class/net", netdev, "master/uevent")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "INTERFACE="); ok {
			return name
		}
	}
	return ""
}

func (d *diagnosis) leak(v vrf, family, flag string, closed bool) {
	if closed {
		d.add(SeverityOK, "vrf", v.name, nil, "table %d answers every destination of %s", v.table, family)
		return
	}
	d.add(SeverityWarning, "vrf", v.name, []string{fmt.Sprintf("ip %sroute add unreachable default metric 4278198272 table %d", flag, v.table)},
		"table %d has no default route of %s: a destination that it does not know is looked for in the main table, outside the VRF", v.table, family)
}

// ipv6 looks for rules by source where several rails have global addresses.
func (d *diagnosis) ipv6(rails []netdev) {
	type lack struct {
		netdev
		netip.Prefix
	}
	var open []lack
	with := 0
	sources := d.sources()
	for _, n := range rails {
		global := false
		for _, p := range n.prefixes {
			if !p.Addr().Is6() || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			global = true
			if !covered(sources, p.Addr()) && d.master(n.Name) == "" {
				open = append(open, lack{n, p})
			}
		}
		if global {
			with++
		}
	}
	if with < 2 {
		return
	}
	for _, l := range open {
		table := 1000 + l.Index
		d.add(SeverityNote, "ipv6", l.Name, []string{
			fmt.Sprintf("ip -6 rule add from %v lookup %d", l.Addr(), table),
			fmt.Sprintf("ip -6 route replace %v dev %s table %d", l.Masked(), l.Name, table),
		}, "no rule by source for %v: to IPv6 a bound device is only a preference, so a connection whose route leads through another rail is refused (ErrRouteMismatch)", l.Addr())
	}
}

func covered(sources []netip.Prefix, a netip.Addr) bool {
	for _, s := range sources {
		if s.Contains(a) {
			return true
		}
	}
	return false
}
