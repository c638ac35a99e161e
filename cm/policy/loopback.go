package policy

import (
	"fmt"
	"slices"
)

// VersionedHost is a Host that also knows the version of its kernel, such as
// 6.12. Of one that does not, the oldest behaviour is expected.
type VersionedHost interface {
	Host
	KernelVersion() (major, minor int)
}

// kernelSince says whether the kernel is at least of that version.
func (v *view) kernelSince(major, minor int) bool {
	h, ok := v.h.(VersionedHost)
	if !ok {
		return false
	}
	have, sub := h.KernelVersion()
	return have > major || have == major && sub >= minor
}

// loopback refuses a destination of this host's own inside a VRF where the
// connection manager loses its way: from a local route it goes on to the network
// device that has the address, but not from that of a VRF's own device.
func (v *view) loopback(r Route, owners []Interface) *Error {
	inVRF := slices.ContainsFunc(owners, func(i Interface) bool { return i.Master != 0 && i.Master == r.Ifindex })
	if inVRF && !v.kernelSince(6, 18) {
		return refuse(ErrRouteMismatch,
			fmt.Sprintf("%s is in VRF %s, where kernels before 6.18 lead an own address through %s, and the connection never comes about", names(owners), r.Netdev, r.Netdev),
			"give an address of "+r.Netdev+" itself to both ends, or use a newer kernel")
	}
	return nil
}

// prefersBound says whether this kernel, for IPv6, keeps to the network device
// that a look-up names where the route has several next hops. Some kernels let
// the hash choose, and others do not; the same look-up through another next hop
// tells: where the hash chooses, it has the same answer.
func (v *view) prefersBound(q Query, fib Route) (bool, *Error) {
	for _, h := range fib.Hops {
		if h.Ifindex != q.Oif {
			other, err := v.route(Query{Dst: q.Dst, Src: q.Src, Oif: h.Ifindex})
			return err == nil && other.Ifindex == h.Ifindex, err
		}
	}
	return true, nil
}
