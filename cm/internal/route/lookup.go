//go:build linux

package route

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/policy"
)

// Route replays the kernel's output route look-up, as root's (RTA_UID 0), as the
// connection manager makes it in the kernel's own name.
//
// A refusal of the kernel is a Route of a negative kind with its errno.
func (h *Handle) Route(q policy.Query) (policy.Route, error) {
	r, err := remember(h, q, func() (policy.Route, error) { return h.lookUp(q) }, direct)
	r.Netdev = h.name(r.Ifindex)
	for i := range r.Hops {
		r.Hops[i].Netdev = h.name(r.Hops[i].Ifindex)
	}
	return r, err
}

// direct reports whether the kernel tells of all that changes a route: it does not
// of a gateway's health, by which it may choose among several.
func direct(r policy.Route) bool { return !r.Gateway.IsValid() && r.Hops == nil }

// lookUp is Route without a memory, and without names.
func (h *Handle) lookUp(q policy.Query) (policy.Route, error) {
	if !q.Dst.IsValid() || q.Src.IsValid() && q.Src.Is4() != q.Dst.Is4() {
		return policy.Route{}, fmt.Errorf("look up the route %s: %w", q, unix.EINVAL)
	}
	bits := uint8(q.Dst.BitLen())
	header := make([]byte, unix.SizeofRtMsg)
	header[0] = unix.AF_INET
	if q.Dst.Is6() {
		header[0] = unix.AF_INET6
	}
	header[1] = bits
	flags := uint32(unix.RTM_F_LOOKUP_TABLE)
	if q.FIBMatch {
		flags |= unix.RTM_F_FIB_MATCH
	}
	binary.NativeEndian.PutUint32(header[8:], flags)
	attrs := []attr{{unix.RTA_DST, q.Dst.AsSlice()}, attr32(unix.RTA_UID, 0)}
	if q.Dst.Is4() {
		// The connection manager looks up without a protocol, which cannot be asked
		// for; by default IPv4 is asked as for UDP, and meets the rules for that.
		attrs = append(attrs, attr{unix.RTA_IP_PROTO, []byte{unix.IPPROTO_ICMP}})
	}
	if q.Src.IsValid() {
		header[2] = bits
		attrs = append(attrs, attr{unix.RTA_SRC, q.Src.AsSlice()})
	}
	if q.Oif != 0 && !isIndex(q.Oif) {
		return policy.Route{}, fmt.Errorf("look up the route %s: %w", q, unix.ENODEV)
	}
	if q.Oif != 0 {
		attrs = append(attrs, attr32(unix.RTA_OIF, uint32(q.Oif)))
	}
	msgs, err := h.request(unix.NETLINK_ROUTE, unix.RTM_GETROUTE, 0, unix.RTM_NEWROUTE, header, attrs...)
	if kind, ok := refusals[errnoOf(err)]; ok {
		return policy.Route{Query: q, Kind: kind, Errno: errnoOf(err)}, nil
	}
	if err != nil {
		return policy.Route{}, fmt.Errorf("look up the route %s: %w", q, err)
	}
	if len(msgs) == 0 || len(msgs[0]) < unix.SizeofRtMsg {
		return policy.Route{}, fmt.Errorf("look up the route %s: the kernel answered nothing: %w", q, unix.EPROTO)
	}
	return h.parse(q, msgs[0])
}

// refusals are the errnos by which a look-up says which kind of route it met.
var refusals = map[syscall.Errno]policy.RouteKind{
	unix.ENETUNREACH:  policy.RouteNone,
	unix.EHOSTUNREACH: policy.RouteUnreachable,
	unix.EINVAL:       policy.RouteBlackhole,
	unix.EACCES:       policy.RouteProhibit,
}

var kinds = map[uint8]policy.RouteKind{
	unix.RTN_UNICAST:     policy.RouteUnicast,
	unix.RTN_LOCAL:       policy.RouteLocal,
	unix.RTN_BROADCAST:   policy.RouteBroadcast,
	unix.RTN_ANYCAST:     policy.RouteAnycast,
	unix.RTN_MULTICAST:   policy.RouteMulticast,
	unix.RTN_BLACKHOLE:   policy.RouteBlackhole,
	unix.RTN_UNREACHABLE: policy.RouteUnreachable,
	unix.RTN_PROHIBIT:    policy.RouteProhibit,
}

func (h *Handle) parse(q policy.Query, m []byte) (policy.Route, error) {
	a := parse(m, unix.SizeofRtMsg)
	r := policy.Route{Query: q, Kind: policy.RouteOther, Ifindex: int(u32(a[unix.RTA_OIF])), Gateway: gateway(a), Table: int(m[4])}
	if kind, ok := kinds[m[7]]; ok {
		r.Kind = kind
	}
	if t, ok := a[unix.RTA_TABLE]; ok {
		r.Table = int(u32(t))
	}
	r.PrefSrc, _ = netip.AddrFromSlice(a[unix.RTA_PREFSRC])
	// IPv6 may describe a refusing route instead of refusing.
	if info := a[unix.RTA_CACHEINFO]; len(info) >= 16 {
		if errno := int32(u32(info[12:])); errno < 0 {
			r.Errno = syscall.Errno(-errno)
		}
	}
	for errno, kind := range refusals {
		if r.Kind == kind && r.Errno == 0 {
			r.Errno = errno
		} else if r.Errno == errno && r.Kind == policy.RouteUnicast {
			r.Kind = kind
		}
	}
	var err error
	switch {
	case a[unix.RTA_MULTIPATH] != nil:
		r.Hops = hops(a[unix.RTA_MULTIPATH])
	case a[rtaNHID] != nil && r.Ifindex == 0 && r.Kind == policy.RouteUnicast:
		// With nexthop_compat_mode off, a route only names its nexthop object.
		r.Hops, err = h.nexthop(u32(a[rtaNHID]), 1, 0)
	}
	if err != nil {
		return r, fmt.Errorf("look up the route %s: %w", q, err)
	}
	if len(r.Hops) > 0 && r.Ifindex == 0 {
		r.Ifindex, r.Gateway = r.Hops[0].Ifindex, r.Hops[0].Gateway
	}
	if len(r.Hops) == 1 {
		r.Hops = nil
	}
	return r, nil
}

// name returns the name of a network device, "" where there is none.
func (h *Handle) name(index int) string {
	i, _ := h.Interface(index)
	return i.Name
}

// gateway reads RTA_GATEWAY, or RTA_VIA where the gateway is of another family.
func gateway(a map[uint16][]byte) netip.Addr {
	raw := a[unix.RTA_GATEWAY]
	if via := a[unix.RTA_VIA]; raw == nil && len(via) > 2 {
		raw = via[2:]
	}
	addr, _ := netip.AddrFromSlice(raw)
	return addr
}

// hops reads the struct rtnexthop list of RTA_MULTIPATH, dead ones left out.
func hops(b []byte) (out []policy.Hop) {
	for len(b) >= unix.SizeofRtNexthop {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			break
		}
		if flags := b[2]; flags&unix.RTNH_F_DEAD == 0 {
			out = append(out, policy.Hop{
				Ifindex: int(binary.NativeEndian.Uint32(b[4:])),
				Gateway: gateway(parse(b[:n], unix.SizeofRtNexthop)),
				Weight:  int(b[3]) + 1,
			})
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return out
}

// rtaNHID is RTA_NH_ID.
const rtaNHID = 30

// nexthop returns the next hops of a nexthop object; a group has members, which
// cannot be groups of their own.
func (h *Handle) nexthop(id uint32, weight, depth int) ([]policy.Hop, error) {
	header := make([]byte, unix.SizeofNhmsg)
	msgs, err := h.request(unix.NETLINK_ROUTE, unix.RTM_GETNEXTHOP, 0, unix.RTM_NEWNEXTHOP, header, attr32(unix.NHA_ID, id))
	if err != nil {
		return nil, fmt.Errorf("look up nexthop object %d: %w", id, err)
	}
	var out []policy.Hop
	for _, m := range msgs {
		a := parse(m, unix.SizeofNhmsg)
		if oif, ok := a[unix.NHA_OIF]; ok {
			addr, _ := netip.AddrFromSlice(a[unix.NHA_GATEWAY])
			out = append(out, policy.Hop{Ifindex: int(u32(oif)), Gateway: addr, Weight: cmp.Or(weight, 1)})
		}
		group := a[unix.NHA_GROUP]
		for ; depth == 0 && len(group) >= unix.SizeofNexthopGrp; group = group[unix.SizeofNexthopGrp:] {
			more, err := h.nexthop(u32(group), int(group[4])+1, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}
