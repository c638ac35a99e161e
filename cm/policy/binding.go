package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Binding says to what an id is bound. The zero value is an unbound id.
type Binding struct {
	State       BindState
	Addr        netip.AddrPort // local address with its zone, and port
	Device      string         // RDMA device, "" unless State is BoundDevice
	DeviceIndex int
	Port        uint8 // of the device, from 1
	Transport   Transport
	Netdev      string // network device that owns the address
	Ifindex     int
	MTU         int // of the network device, bytes
	GID         GID
	GIDIndex    int // at the time of the look-up: rows move, never store it
	GIDType     GIDType
	PKey        uint16 // InfiniBand: partition of the IPoIB device, else 0
	VRF         string // the VRF that the network device belongs to, or ""

	// Since is when an id came to be bound so; the rule itself sets and reads it
	// nowhere.
	Since time.Time
}

// ResolveBinding says what binding local would bind: the network device that
// owns the address, the RDMA port behind it and its GID. A wildcard address
// gives a wildcard binding. It makes no kernel call but look-ups.
//
// Errors: ErrNotLocal, ErrNotRDMA (the text says at which step), ErrAmbiguousDevice
// (listing the candidates), ErrScope, ErrLookup.
func ResolveBinding(h Host, local netip.AddrPort) (Binding, error) {
	v := &view{h: h}
	b, err := v.resolve(unmap(local))
	if err != nil {
		err.Op, err.Src = "bind", unmap(local)
		return Binding{}, err
	}
	return b, nil
}

// resolve finds the one binding of a local address.
func (v *view) resolve(local netip.AddrPort) (Binding, *Error) {
	b, owners, err := v.candidate(local)
	if err == nil && len(owners) > 1 {
		// The kernel looks for the network device by the address alone: for IPv4
		// it finds the one that got the address last, for IPv6 the oldest one.
		return Binding{}, refuse(ErrAmbiguousDevice,
			fmt.Sprintf("%s is an address of %s, and the kernel may take another than %s", local.Addr(), names(owners), b.Netdev),
			"take the address away from all but one of them (ip address delete)")
	}
	return b, err
}

// candidate finds the one place where a local address has RDMA, and the network
// devices that have the address.
func (v *view) candidate(local netip.AddrPort) (b Binding, owners []Interface, _ *Error) {
	addr := local.Addr()
	switch {
	case !addr.IsValid():
		return b, nil, refuse(ErrNotLocal, "no local address was given",
			"give an address of a rail, or 0.0.0.0 or :: for all of them")
	case addr.IsUnspecified():
		return Binding{State: BoundWildcard, Addr: local}, nil, nil
	case addr.IsLoopback():
		return b, nil, refuse(ErrNotRDMA, "the kernel accepts a loopback address here and binds no device",
			"bind an address of a rail; "+v.devices())
	}
	owners, err := v.ownersInZone(addr)
	if err != nil {
		return b, nil, err
	}
	var all []Binding
	for _, i := range owners {
		list, err := v.behind(i, addr)
		if err != nil {
			return b, nil, err
		}
		all = append(all, list...)
	}
	switch len(all) {
	case 0:
		if err := v.shutBehind(fmt.Sprintf("%s is on %s", addr, names(owners)), owners); err != nil {
			return b, nil, err
		}
		return b, nil, refuse(ErrNotRDMA, fmt.Sprintf("%s is on %s, and no RDMA port has it there", addr, names(owners)),
			"bind an address of a rail; "+v.devices())
	case 1:
		all[0].Addr = local
		return all[0], owners, v.usable(all[0])
	}
	return b, nil, refuse(ErrAmbiguousDevice,
		fmt.Sprintf("%s is behind %s; the kernel would take the one registered first", addr, places(all)),
		"give each RDMA device an address of its own, or remove all but one of them from that network device (rdma link delete)")
}

// ownersInZone returns the network devices that have addr, for a link-local one
// only that of its zone.
func (v *view) ownersInZone(addr netip.Addr) ([]Interface, *Error) {
	if err := checkZone(addr, "the local address"); err != nil {
		return nil, err
	}
	owners, err := v.owners(addr)
	if err != nil {
		return nil, err
	}
	if len(owners) == 0 {
		return nil, refuse(ErrNotLocal, fmt.Sprintf("no network device here has %s (or it is still tentative)", addr.WithZone("")),
			"bind an address that `ip address` shows in this network namespace")
	}
	if addr.Zone() == "" {
		return owners, nil
	}
	zone, err := v.zoneIndex(addr.Zone())
	if err != nil {
		return nil, err
	}
	owners = slices.DeleteFunc(slices.Clone(owners), func(i Interface) bool { return i.Index != zone })
	if len(owners) == 0 {
		return nil, refuse(ErrNotRDMA, fmt.Sprintf("%s is not an address of %s", addr.WithZone(""), addr.Zone()),
			"give the zone of the link that has the address")
	}
	return owners, nil
}

// behind returns the RDMA ports behind an address of a network device, one
// binding each.
func (v *view) behind(i Interface, addr netip.Addr) ([]Binding, *Error) {
	ports, err := v.ports()
	if err != nil {
		return nil, err
	}
	vrf, err := v.vrf(i)
	if err != nil {
		return nil, err
	}
	var out []Binding
	for _, p := range ports {
		if row, ok := proof(p, i, addr); ok {
			out = append(out, bindingOf(p, i, row, vrf))
		}
	}
	return out, nil
}

// proof says whether an RDMA port is behind an address of a network device, and
// by which row of its GID table. What proves it differs by transport.
func proof(p RDMAPort, i Interface, addr netip.Addr) (GIDRow, bool) {
	switch p.Transport {
	case IWARP:
		// The GID is made of the MAC: only the port's network device counts.
		row := GIDRow{Port: p.Port}
		if len(p.GIDs) > 0 {
			row = p.GIDs[0]
		}
		return row, p.Netdev != 0 && p.Netdev == i.Index
	case InfiniBand:
		// The GID is the port's own and stands in the IPoIB hardware address.
		if len(i.HWAddr) != 20 {
			return GIDRow{}, false
		}
		gid := GID(i.HWAddr[4:])
		return pick(p.GIDs, func(r GIDRow) bool { return r.GID == gid })
	default:
		gid := GIDOf(addr)
		return pick(p.GIDs, func(r GIDRow) bool { return r.GID == gid && r.Netdev != 0 && r.Netdev == i.Index })
	}
}

// pick returns a matching row, that of RoCE v2 where v1 matches as well.
func pick(rows []GIDRow, match func(GIDRow) bool) (best GIDRow, ok bool) {
	for _, r := range rows {
		if match(r) && (!ok || r.Type > best.Type) {
			best, ok = r, true
		}
	}
	return best, ok
}

func bindingOf(p RDMAPort, i Interface, row GIDRow, vrf string) Binding {
	b := Binding{
		State: BoundDevice, Device: p.Device, DeviceIndex: p.DeviceIndex, Port: p.Port, Transport: p.Transport,
		Netdev: i.Name, Ifindex: i.Index, MTU: i.MTU,
		GID: row.GID, GIDIndex: row.Index, GIDType: row.Type, VRF: vrf,
	}
	if p.Transport == InfiniBand && len(i.Broadcast) == 20 {
		b.PKey = uint16(i.Broadcast[8])<<8 | uint16(i.Broadcast[9])
	}
	return b
}

// usable refuses a device that librdmacm cannot use.
func (v *view) usable(b Binding) *Error {
	for _, p := range v.all {
		if p.Device == b.Device && p.Port == b.Port && p.GUID == 0 {
			return refuse(ErrNotRDMA, b.Device+" has node GUID 0, and librdmacm before version 56 crashes on it",
				"give the device a GUID; for a virtual function, on its host: ip link set PF vf N node_guid 00:11:22:33:44:55:66:77")
		}
	}
	return nil
}

// PickLocal returns the address, with its zone if link-local, of a local device
// that fits the destination. The device is the name of an RDMA device or of a
// network device. The destination itself, if the device has it, fits best, then
// an address whose subnet holds the destination, or else the gateway to it, the
// longest prefix first. An unspecified destination stands for any of its family.
//
// Errors: ErrNotRDMA, ErrNotLocal (no address of that family), ErrAmbiguousDevice
// (several fit equally; the text lists them), ErrScope, ErrLookup.
func PickLocal(h Host, device string, dst netip.Addr) (netip.Addr, error) {
	v := &view{h: h}
	dst = dst.Unmap()
	addr, err := v.pickLocal(device, dst)
	if err != nil {
		err.Op, err.Dst = "pick an address of "+device, netip.AddrPortFrom(dst, 0)
		return netip.Addr{}, err
	}
	return addr, nil
}

// local is an address of a network device with an RDMA port behind it.
type local struct {
	prefix netip.Prefix
	netdev Interface
}

func (l local) addr() netip.Addr {
	if a := l.prefix.Addr(); a.Is4() || !a.IsLinkLocalUnicast() {
		return a
	}
	return l.prefix.Addr().WithZone(l.netdev.Name)
}

func (v *view) pickLocal(device string, dst netip.Addr) (netip.Addr, *Error) {
	if !dst.IsValid() {
		return netip.Addr{}, refuse(ErrFamilyMismatch, "no destination was given, so the family is open",
			"give a destination, or 0.0.0.0 or :: for any")
	}
	if err := checkZone(dst, "the destination"); err != nil {
		return netip.Addr{}, err
	}
	list, err := v.locals(device)
	if err != nil {
		return netip.Addr{}, err
	}
	zone := 0
	if dst.Zone() != "" {
		if zone, err = v.zoneIndex(dst.Zone()); err != nil {
			return netip.Addr{}, err
		}
	}
	linkLocal := needsZone(dst)
	list = slices.DeleteFunc(list, func(l local) bool {
		a := l.prefix.Addr()
		return a.Is4() != dst.Is4() || a.Is6() && a.IsLinkLocalUnicast() != linkLocal || zone != 0 && l.netdev.Index != zone
	})
	if len(list) == 0 {
		return netip.Addr{}, refuse(ErrNotLocal, fmt.Sprintf("%s has no address that fits %s", device, dst),
			"add an address of that family and scope to the device, or name another device")
	}
	list, err = v.fittest(list, dst)
	if err != nil {
		return netip.Addr{}, err
	}
	if len(list) > 1 {
		var texts []string
		for _, l := range list {
			texts = append(texts, fmt.Sprintf("%s on %s", l.prefix, l.netdev.Name))
		}
		return netip.Addr{}, refuse(ErrAmbiguousDevice,
			fmt.Sprintf("%d addresses of %s fit %s equally: %s", len(list), device, dst, strings.Join(texts, ", ")),
			"give the local address instead of the device")
	}
	return list[0].addr(), nil
}

// locals lists the addresses of a device that an RDMA port is behind.
func (v *view) locals(device string) ([]local, *Error) {
	ports, err := v.ports()
	if err != nil {
		return nil, err
	}
	isRDMA := slices.ContainsFunc(ports, func(p RDMAPort) bool { return p.Device == device })
	var netdevs []Interface
	if isRDMA {
		netdevs, err = v.interfaces()
	} else {
		var i Interface
		var ok bool
		if i, ok, err = v.named(device); ok {
			netdevs = []Interface{i}
		} else if err == nil {
			if err = v.shut(device+" is there", func(p RDMAPort) bool { return p.Device == device }); err != nil {
				return nil, err
			}
			err = refuse(ErrNotRDMA, fmt.Sprintf("there is no RDMA device and no network device %q", device),
				"name one of them; "+v.devices())
		}
	}
	if err != nil {
		return nil, err
	}
	var out []local
	for _, i := range netdevs {
		if isRDMA && !slices.ContainsFunc(ports, func(p RDMAPort) bool { return p.Device == device && touches(p, i) }) {
			continue
		}
		addrs, err := v.addrs(i.Index)
		if err != nil {
			return nil, err
		}
		for _, prefix := range addrs {
			behind := func(p RDMAPort) bool {
				_, ok := proof(p, i, prefix.Addr())
				return ok && (!isRDMA || p.Device == device)
			}
			if slices.ContainsFunc(ports, behind) {
				out = append(out, local{prefix, i})
			}
		}
	}
	if len(out) == 0 {
		if err := v.shutBehind(device+" is there", netdevs); err != nil {
			return nil, err
		}
		return nil, refuse(ErrNotRDMA, fmt.Sprintf("no address of %s has an RDMA port behind it", device), "name another device; "+v.devices())
	}
	return out, nil
}

// touches says whether a port may be behind some address of a network device.
func touches(p RDMAPort, i Interface) bool {
	return p.Netdev == i.Index || slices.ContainsFunc(p.GIDs, func(r GIDRow) bool {
		return r.Netdev == i.Index || len(i.HWAddr) == 20 && r.GID == GID(i.HWAddr[4:])
	})
}

// fittest keeps the addresses that fit the destination best.
func (v *view) fittest(list []local, dst netip.Addr) ([]local, *Error) {
	if len(list) == 1 || dst.IsUnspecified() {
		return list, nil
	}
	for _, l := range list {
		if l.addr() == dst || l.prefix.Addr() == dst.WithZone("") {
			return []local{l}, nil
		}
	}
	if best := longest(list, func(local) netip.Addr { return dst.WithZone("") }); len(best) > 0 {
		return best, nil
	}
	gateways := map[int]netip.Addr{}
	for _, l := range list {
		if _, ok := gateways[l.netdev.Index]; ok {
			continue
		}
		r, err := v.route(Query{Dst: dst.WithZone(""), Oif: l.netdev.Index})
		if err != nil {
			return nil, err
		}
		gateways[l.netdev.Index] = netip.Addr{}
		if r.Kind == RouteUnicast && r.Ifindex == l.netdev.Index {
			gateways[l.netdev.Index] = r.Gateway
		}
	}
	if best := longest(list, func(l local) netip.Addr { return gateways[l.netdev.Index] }); len(best) > 0 {
		return best, nil
	}
	return list, nil
}

// longest keeps the addresses of the longest prefix that holds the target.
func longest(list []local, target func(local) netip.Addr) (best []local) {
	bits := -1
	for _, l := range list {
		t := target(l)
		if !t.IsValid() || !l.prefix.Contains(t) {
			continue
		}
		if l.prefix.Bits() > bits {
			best, bits = nil, l.prefix.Bits()
		}
		if l.prefix.Bits() == bits {
			best = append(best, l)
		}
	}
	return best
}

// place returns device/port and network device.
func (b Binding) place() string { return fmt.Sprintf("%s/%d on %s", b.Device, b.Port, b.Netdev) }

func places(list []Binding) string {
	var out []string
	for _, b := range list {
		out = append(out, b.place())
	}
	return strings.Join(out, " and ")
}

// String returns the binding on one line.
func (b Binding) String() string {
	switch b.State {
	case Unbound:
		return "not bound"
	case BoundWildcard:
		return "bound to " + b.Addr.String() + ", no device"
	case BoundUnknown:
		return "perhaps bound: a step failed on it"
	}
	s := fmt.Sprintf("bound to %s = %s (ifindex %d, MTU %d)", addrText(b.Addr), b.place(), b.Ifindex, b.MTU)
	if b.VRF != "" {
		s += ", VRF " + b.VRF
	}
	if !b.GID.IsZero() {
		s += fmt.Sprintf(", GID %s [%d] %s", b.GID, b.GIDIndex, b.GIDType)
	}
	return s
}

// addrText leaves out a port of 0 and the port of no address.
func addrText(a netip.AddrPort) string {
	switch {
	case !a.Addr().IsValid():
		return "none"
	case a.Port() == 0:
		return a.Addr().String()
	}
	return a.String()
}

// unmap makes IPv4 of an IPv4-mapped address: the kernel takes the mapped form
// for an IPv6 address that nobody has.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// needsZone says whether an address means nothing without its link.
func needsZone(a netip.Addr) bool {
	return a.Is6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast())
}

// checkZone wants a zone where it is needed and only there: the kernel would
// take any link, or drop the zone.
func checkZone(a netip.Addr, what string) *Error {
	switch {
	case needsZone(a) && a.Zone() == "":
		return refuse(ErrScope, fmt.Sprintf("%s %s is link-local and has no zone", what, a),
			"add the link, as in "+a.String()+"%eth0")
	case !needsZone(a) && a.Zone() != "":
		return refuse(ErrScope, fmt.Sprintf("%s %s is not link-local, so the kernel drops its zone", what, a),
			"leave the zone out, and bind an address of that link instead")
	}
	return nil
}

// zoneIs says whether a zone names the network device of a binding.
func zoneIs(zone string, b Binding) bool {
	return zone == b.Addr.Addr().Zone() || zone == b.Netdev || zone == strconv.Itoa(b.Ifindex)
}

// sameAddr says whether an address is the bound one, zones compared by link.
func sameAddr(a netip.Addr, b Binding) bool {
	bound := b.Addr.Addr()
	if a.Unmap().WithZone("") != bound.WithZone("") {
		return false
	}
	return !needsZone(bound) || zoneIs(a.Zone(), b)
}
