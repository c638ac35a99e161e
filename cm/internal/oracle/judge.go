//go:build linux

package oracle

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/railbind/railbind/cm/policy"
)

// Evidence is what the judge knows about a case, none of it from railbind.
type Evidence struct {
	Call
	Owners map[netip.Addr][]string // who has which address
	Member string                  // what is in the VRF
	Kernel Truth
	Habit  Habit // of a socket with the call's local address, on iWARP with the id's
}

// judge says why the rule forbids the call on this host, "" where it allows it.
// It is section 4 of the design, without package policy's code.
func (e Evidence) judge() string {
	for _, rule := range []func(Evidence) string{
		Evidence.destination, Evidence.zones, Evidence.families, Evidence.source, Evidence.state,
		Evidence.kernel, Evidence.split, Evidence.pinned, Evidence.ambiguous,
	} {
		if why := rule(e); why != "" {
			return why
		}
	}
	return ""
}

// destination is rule 1: it must be one host's, and not loopback.
func (e Evidence) destination() string {
	a := e.Dst.Addr().Unmap()
	switch {
	case a.IsUnspecified(), a.IsLoopback():
		return "rule 1: loopback or unspecified destination"
	case a.IsMulticast() && e.PortSpace == policy.PortSpaceTCP, a == netip.MustParseAddr("255.255.255.255"), e.Habit.Broadcast && e.leads(), e.Habit.BroadcastHere:
		return "rule 1: multicast or broadcast destination"
	}
	return ""
}

// leads says whether the host leads the destination to the bound network device
// anyway, if there is one.
func (e Evidence) leads() bool {
	return !specific(e.local()) || slices.Contains(e.Habit.Netdevs, e.netdev())
}

// zones is rules 1 and 3: link-local addresses have zones that agree.
func (e Evidence) zones() string {
	local := e.local().Addr()
	for _, a := range []netip.Addr{e.Dst.Addr(), local} {
		if linkLocal(a) && a.Zone() == "" {
			return "rule 1: link-local without zone"
		}
	}
	switch dst := e.Dst.Addr(); {
	case !linkLocal(dst):
	case e.Bind.IsValid() && local.IsUnspecified():
		return "rule 3: link-local destination of a wildcard"
	case specific(e.local()) && dst.Zone() != e.netdev():
		return "rule 1: zone of another link"
	}
	return ""
}

func linkLocal(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }

func (e Evidence) families() string {
	for _, a := range []netip.AddrPort{e.Bind, e.Src} {
		if a.IsValid() && a.Addr().Unmap().Is4() != e.Dst.Addr().Unmap().Is4() {
			return "rule 1: families differ"
		}
	}
	return ""
}

// source is rules 2 and 3: no source beside a binding that it does not repeat.
func (e Evidence) source() string {
	switch {
	case !e.Src.IsValid() || !e.Bind.IsValid():
		return ""
	case e.Src.Addr() == e.Bind.Addr() && (e.Src.Port() == 0 || e.Src.Port() == e.Bind.Port()):
		return ""
	case e.Bind.Addr().IsUnspecified():
		return "rule 3: source on a wildcard"
	}
	return "rule 2: source beside a binding"
}

// state is what each policy asks of the id. A loopback address binds no device.
func (e Evidence) state() string {
	bound := specific(e.Bind) && !e.Bind.Addr().IsLoopback()
	idle := !e.Bind.IsValid() && specific(e.Src)
	switch {
	case specific(e.local()) && e.local().Addr().IsLoopback():
		return "loopback binds no device"
	case e.Policy == policy.FollowRoute && bound:
		return "policy follow: bound to a device"
	case e.Policy == policy.FollowRoute && idle:
		return "policy follow: a source is given"
	case (e.Policy == policy.PinBound || e.Policy == policy.RequireRoute) && !bound && !idle:
		return "policies pin, route: not bound to a device"
	}
	return ""
}

// kernel is what the raw id fails at.
func (e Evidence) kernel() string {
	if e.Kernel.Failed != "" {
		return "the kernel fails to " + e.Kernel.Failed
	}
	return ""
}

// ambiguous is an address of this host that several network devices have: the
// kernel takes the one that it finds first.
func (e Evidence) ambiguous() string {
	if a := e.local().Addr(); specific(e.local()) && a.Zone() == "" && len(e.Owners[a.Unmap()]) > 1 {
		return "several network devices have the local address"
	}
	if !specific(e.local()) && len(e.Owners[e.Dst.Addr().Unmap().WithZone("")]) > 1 {
		return "several network devices have the destination"
	}
	return ""
}

// split is the hazard itself: a device of one network device, and the path of
// another.
func (e Evidence) split() string {
	k := e.Kernel
	dev := e.netdev()
	if !specific(e.local()) {
		list := e.rdmaOwners(k.Local.Addr())
		dev = ""
		for _, n := range list {
			if e.device(n) == k.Device {
				dev = n
			}
		}
	}
	switch {
	case dev == "" || e.device(dev) != k.Device:
		return "the kernel is on another device"
	case iwarp && (e.PortSpace == policy.PortSpaceUDP || e.PortSpace == policy.PortSpaceIPoIB):
		return "iWARP has no datagrams"
	case iwarp:
		return e.tcp(dev)
	case dev == vrfName && slices.Contains(e.Habit.Netdevs, "c0"): // whose path MTU is the same
		return "the kernel splits device and path"
	case k.PathMTU != pathMTU(dev):
		return "the kernel splits device and path"
	case k.SGID.Addr() != k.Local.Addr().WithZone("") || k.DGID.Addr() != e.Dst.Addr().Unmap().WithZone(""):
		return "the kernel's path has other GIDs"
	}
	return ""
}

// tcp is the hazard on iWARP, whose connection is TCP from the id's address: it
// leaves where the host leads it, whatever the binding.
func (e Evidence) tcp(dev string) string {
	dst := e.Dst.Addr().Unmap()
	switch {
	case !slices.Contains(e.Owners[e.Kernel.Local.Addr().WithZone("")], dev):
		return "TCP cannot use an address that its device does not have"
	case linkLocal(dst), slices.Equal(e.Habit.Netdevs, []string{dev}):
		return ""
	case e.Habit.inside() && slices.Contains(e.Owners[dst], dev):
		return ""
	}
	return "the host leads TCP elsewhere"
}

// inside says whether the host leads to itself.
func (h Habit) inside() bool {
	return slices.Contains(h.Netdevs, "lo") || slices.Contains(h.Netdevs, vrfName)
}

// pinned is what PinBound and RequireRoute ask of the host's routes.
func (e Evidence) pinned() string {
	if !specific(e.local()) {
		return ""
	}
	dev, dst := e.netdev(), e.Dst.Addr().Unmap()
	if linkLocal(dst) {
		return "" // its zone is the route
	}
	local := e.Habit.inside()
	has := slices.Contains(e.Owners[dst], dev)
	own := local && has
	switch {
	case (local || e.insideVRF(dev, dst)) && !has && (dst.Is6() || !e.LocalCrossing || e.Policy == policy.RequireRoute):
		// (IPv6's own look-up says local too, and no option lets that pass.)
		return "an address of another network device"
	case e.Policy == policy.RequireRoute && !own && !slices.Equal(e.Habit.Netdevs, []string{dev}):
		return "policy route: the host's route leads elsewhere"
	case e.RequireOnLink && !has && !e.Habit.OnLink && !dst.IsMulticast(): // which is on every link
		return "no route, and one is required"
	}
	return ""
}

// insideVRF says whether the destination is an address of this host in the VRF
// of the bound network device, where no socket outside of it looks.
func (e Evidence) insideVRF(dev string, dst netip.Addr) bool {
	in := func(name string) bool { return e.Member != "" && (name == e.Member || name == vrfName) }
	return in(dev) && slices.ContainsFunc(e.Owners[dst], in)
}

// netdev is the network device that the local address binds.
func (e Evidence) netdev() string {
	a := e.local().Addr()
	if a.Zone() != "" {
		return a.Zone()
	}
	if list := e.rdmaOwners(a); len(list) > 0 {
		return list[0]
	}
	return ""
}

// rdmaOwners are the network devices with RDMA that have an address.
func (e Evidence) rdmaOwners(a netip.Addr) (out []string) {
	for _, name := range e.Owners[a.Unmap().WithZone("")] {
		if e.device(name) != "" && (a.Zone() == "" || a.Zone() == name || isIndex(a.Zone())) {
			out = append(out, name)
		}
	}
	return out
}

// device names the RDMA device behind a network device, a VRF's own included.
func (e Evidence) device(netdev string) string {
	return deviceInVRF(netdev, e.Member)
}

// deviceInVRF is deviceOf, where the VRF's own addresses are RoCE's of the device
// in it.
func deviceInVRF(netdev, member string) string {
	if netdev == vrfName && !iwarp {
		netdev = member
	}
	return deviceOf(netdev)
}

func isIndex(zone string) bool {
	_, err := strconv.Atoi(zone)
	return err == nil
}

func deviceOf(netdev string) string {
	for _, n := range Netdevs {
		if n.Name == netdev && iwarp {
			return strings.Replace(n.Device, "rxe", "siw", 1)
		}
		if n.Name == netdev {
			return n.Device
		}
	}
	return ""
}

// pathMTU is what RoCE makes of a network device's MTU: a power of two that
// leaves room for the headers.
func pathMTU(netdev string) int {
	return map[string]int{"a0": 4096, "b0": 2048, "c0": 1024, vrfName: 1024}[netdev]
}
