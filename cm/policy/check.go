package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Kernel is what the kernel's id says about itself.
type Kernel struct {
	Device      string // "" where id->verbs is nil
	DeviceIndex int
	Port        uint8
	Transport   Transport
	Local       netip.AddrPort
	Peer        netip.AddrPort
	SGID        GID // of the address or the path record
	DGID        GID
	PKey        uint16 // InfiniBand, 0: unknown
	PathMTU     int    // bytes, 0 before ROUTE_RESOLVED
}

// PathMTU returns the path MTU, in bytes, that the kernel derives for RoCE from
// a network device's MTU: the largest of 256, 512, 1024, 2048 and 4096 that fits
// beside 96 bytes of headers, or 0.
func PathMTU(netdev int) int {
	for mtu := 4096; mtu >= 256; mtu /= 2 {
		if netdev-96 >= mtu {
			return mtu
		}
	}
	return 0
}

// CheckBound proves, after a successful bind of want, what the id is bound to.
// On an error the id must not be used.
//
// Errors: ErrDeviceSplit (another address, port or device), ErrAmbiguousDevice,
// ErrNotRDMA, ErrNotLocal, ErrScope, ErrLookup.
func CheckBound(h Host, want netip.AddrPort, got Kernel) (Binding, error) {
	v := &view{h: h}
	b, err := v.checkBound(unmap(want), got.unmapped())
	if err != nil {
		err.Op, err.Src = "check the bind of", unmap(want)
		return Binding{}, err
	}
	return b, nil
}

func (v *view) checkBound(want netip.AddrPort, got Kernel) (Binding, *Error) {
	b, _, err := v.candidate(want)
	if err != nil {
		return Binding{}, err
	}
	if want.Port() != 0 && got.Local.Port() != want.Port() || got.Local.Port() == 0 {
		return Binding{}, split("port %d was asked for, and the kernel bound %s", want.Port(), addrText(got.Local))
	}
	if b.State == BoundWildcard {
		if got.Device != "" || got.Local.Addr() != want.Addr() {
			return Binding{}, split("a wildcard was asked for, and the kernel bound %s on device %q", addrText(got.Local), got.Device)
		}
		b.Addr = got.Local
		return b, nil
	}
	b.Addr = netip.AddrPortFrom(want.Addr(), got.Local.Port())
	return b, got.at(b)
}

// at compares device, port, local address and GID with a binding.
func (k Kernel) at(b Binding) *Error {
	switch {
	case k.Device == "":
		return split("the kernel's id has no device, expected %s", b.place())
	case k.Device != b.Device || k.DeviceIndex != b.DeviceIndex || k.Port != b.Port:
		return split("the kernel's id is on %s/%d (device index %d), expected %s (device index %d)",
			k.Device, k.Port, k.DeviceIndex, b.place(), b.DeviceIndex)
	case !sameAddr(k.Local.Addr(), b) || b.Addr.Port() != 0 && k.Local.Port() != b.Addr.Port():
		return split("the kernel's local address is %s, expected %s", addrText(k.Local), addrText(b.Addr))
	case b.Transport != IWARP && !k.SGID.IsZero() && k.SGID != b.GID:
		return split("the kernel's source GID is %s, expected %s", k.SGID, b.GID)
	case b.Transport == InfiniBand && k.PKey != 0 && b.PKey != 0 && (k.PKey^b.PKey)&0x7fff != 0:
		return split("the kernel's partition key is %#x, that of %s is %#x", k.PKey, b.Netdev, b.PKey)
	}
	return nil
}

func split(format string, args ...any) *Error {
	return refuse(ErrDeviceSplit, fmt.Sprintf(format, args...),
		"close this id and try again on a new one; an address, a route or a device may have changed meanwhile (ip monitor)")
}

func (k Kernel) unmapped() Kernel {
	k.Local, k.Peer = unmap(k.Local), unmap(k.Peer)
	return k
}

// CheckResolved compares the id after ADDR_RESOLVED with the decision, and
// repeats the route look-ups, since a route can change in between. The decision
// it returns has Resolved set and, for FollowRoute, the binding that the kernel
// chose; on an error it is refused.
//
// Errors: ErrDeviceSplit, ErrKernelBindRegression, ErrBindingLost,
// ErrRouteMismatch (the route changed), ErrLookup; for a decision that was not
// an acceptance, its own error.
func CheckResolved(h Host, d Decision, got Kernel) (Decision, error) {
	if err := d.unfit(); err != nil {
		return d, err
	}
	got = got.unmapped()
	v := &view{h: h}
	d.Resolved = &got
	err := d.checkPeer(got)
	switch {
	case err != nil:
	case d.Policy == FollowRoute:
		err = d.checkFollowed(v, got)
	default:
		if err = got.at(d.Binding); err == nil {
			err = d.route(v)
		}
	}
	d.finish(v, err)
	d.as("check the resolved id")
	return d, d.Err
}

// unfit returns an error for a decision that was not an acceptance.
func (d Decision) unfit() error {
	switch {
	case d.Verdict == Accepted:
		return nil
	case d.Err != nil:
		return d.Err
	}
	e := refuse(ErrNotBound, "no decision was made for this id", "call Decide first")
	e.Op = "check"
	return e
}

// as names the operation in the decision's own error.
func (d *Decision) as(op string) {
	var e *Error
	if errors.As(d.Err, &e) {
		e.Op = op
	}
}

// checkPeer wants the destination that was asked for.
func (d *Decision) checkPeer(got Kernel) *Error {
	want, peer := d.Request.Dst, got.Peer
	if (!peer.Addr().IsValid() || peer.Addr().IsUnspecified()) && d.Policy != FollowRoute {
		return refuse(ErrKernelBindRegression,
			"the kernel's destination is zero: it loses the destination of an id that was bound first",
			`use a kernel with commit 0e15863015d9 ("RDMA/core: Update CMA destination address on rdma_resolve_addr"), or one without commit 8d037973d48c`)
	}
	if peer.Addr().WithZone("") != want.Addr().WithZone("") || want.Port() != 0 && peer.Port() != want.Port() {
		return split("the kernel's destination is %s, %s was asked for", addrText(peer), addrText(want))
	}
	return nil
}

// checkFollowed wants one of the predicted places, and makes it the binding.
func (d *Decision) checkFollowed(v *view, got Kernel) *Error {
	owners, err := v.owners(got.Local.Addr())
	if err != nil {
		return err
	}
	for _, t := range d.Predicted {
		n := slices.IndexFunc(owners, func(i Interface) bool { return i.Index == t.Ifindex })
		if n < 0 || got.Device != t.Device || got.DeviceIndex != t.DeviceIndex || got.Port != t.Port {
			continue
		}
		here, err := v.behind(owners[n], got.Local.Addr())
		if err != nil {
			return err
		}
		for _, b := range here {
			b.Addr = got.Local
			if b.Device == t.Device && b.Port == t.Port {
				d.Binding = b
				return got.at(b)
			}
		}
	}
	return split("the kernel chose %s/%d with local address %s, the route led to %s", got.Device, got.Port, addrText(got.Local), d.where())
}

// CheckRouted compares the path record after ROUTE_RESOLVED with the decision
// that CheckResolved returned: GIDs, and for RoCE the path MTU, which shows the
// network device that the kernel really used.
//
// Errors: ErrDeviceSplit, ErrBindingLost, ErrLookup.
func CheckRouted(h Host, d Decision, got Kernel) error {
	return d.check(h, "check the resolved route", got, func(v *view, got Kernel) *Error {
		b, dst := d.Binding, d.Request.Dst.Addr()
		if b.Transport != RoCE {
			return nil // only RoCE's path is made from the network device
		}
		if got.SGID != b.GID {
			return split("the path's source GID is %s, expected %s", got.SGID, b.GID)
		}
		if want := GIDOf(dst.WithZone("")); !dst.IsMulticast() && got.DGID != want {
			return split("the path's destination GID is %s, expected %s", got.DGID, want)
		}
		now, ok, err := v.iface(b.Ifindex)
		if err != nil {
			return err
		}
		if !ok {
			return lost("network device %s (ifindex %d) is gone", b.Netdev, b.Ifindex)
		}
		// The MTU may have been changed since the decision: both are its own.
		if got.PathMTU != PathMTU(b.MTU) && got.PathMTU != PathMTU(now.MTU) {
			return split("the path MTU is %d, and %s with MTU %d gives %d: the path uses another network device, unless that MTU changed meanwhile",
				got.PathMTU, now.Name, now.MTU, PathMTU(now.MTU))
		}
		return nil
	})
}

// CheckEstablished compares the connected QP with the decision that
// CheckResolved returned: got.Port is the QP's port, row the GID table row of
// its sgid_index (RoCE; ignored otherwise).
//
// For IPv6, and on iWARP, the route is looked up once more (see CheckPath), since
// the kernel did so when it moved the QP: that, not the resolved route, is where
// the QP sends.
//
// Errors: ErrDeviceSplit, ErrRouteMismatch, ErrBindingLost, ErrLookup.
func CheckEstablished(h Host, d Decision, got Kernel, row GIDRow) error {
	return d.check(h, "check the connected QP", got, func(v *view, _ Kernel) *Error {
		b := d.Binding
		if b.Transport != RoCE {
			return d.path(v)
		}
		if row.GID != b.GID || row.Netdev != b.Ifindex || row.Port != b.Port {
			return split("the QP's GID is %s [%d] of port %d on network device %d, expected %s of port %d on %d (%s)",
				row.GID, row.Index, row.Port, row.Netdev, b.GID, b.Port, b.Ifindex, b.Netdev)
		}
		return d.path(v)
	})
}

// check is what the later checks share: device, port and local address are
// still those of the binding, then more.
func (d Decision) check(h Host, op string, got Kernel, more func(*view, Kernel) *Error) error {
	if err := d.unfit(); err != nil {
		return err
	}
	got = got.unmapped()
	v := &view{h: h}
	var err *Error
	if d.Binding.State != BoundDevice {
		err = refuse(ErrNotBound, "the decision names no device yet", "call CheckResolved first and keep what it returns")
	} else if err = got.at(d.Binding); err == nil {
		err = more(v, got)
	}
	if err == nil {
		return nil
	}
	err.Op, err.Src, err.Dst, err.Binding, err.Routes = op, d.Binding.Addr, d.Request.Dst, d.Binding, v.routes
	return err
}

// CheckRequest says where a CONNECT_REQUEST landed, and compares it with the
// listener's binding: a wildcard listener's requests land on different devices,
// those of a bound one only on its own. The zero Binding is any listener.
//
// Errors: ErrDeviceSplit, ErrLookup.
func CheckRequest(h Host, listener Binding, got Kernel) (Binding, error) {
	got, v := got.unmapped(), &view{h: h}
	b, err := v.checkRequest(listener, got)
	if err != nil {
		err.Op, err.Src, err.Dst, err.Binding = "check the request", got.Local, got.Peer, listener
		return Binding{}, err
	}
	return b, nil
}

func (v *view) checkRequest(listener Binding, got Kernel) (Binding, *Error) {
	owners, err := v.owners(got.Local.Addr())
	if err != nil {
		return Binding{}, err
	}
	var found []Binding
	for _, i := range owners {
		here, err := v.behind(i, got.Local.Addr())
		if err != nil {
			return Binding{}, err
		}
		for _, b := range here {
			b.Addr = got.Local
			if needsZone(b.Addr.Addr()) {
				// It may be on several links: the zone tells. The kernel leaves the
				// zone of a request out, and then the device tells.
				if zone := b.Addr.Addr().Zone(); zone != "" && !zoneIs(zone, Binding{Netdev: b.Netdev, Ifindex: b.Ifindex}) {
					continue
				}
				b.Addr = netip.AddrPortFrom(b.Addr.Addr().WithZone(strconv.Itoa(b.Ifindex)), b.Addr.Port())
			}
			here := got
			here.Local = b.Addr
			if here.at(b) == nil && (listener.State != BoundDevice || listener.Ifindex == b.Ifindex) {
				found = append(found, b)
			}
		}
	}
	if len(found) == 0 {
		return Binding{}, split("the request landed on %s/%d at %s, and no such address is behind that device%s",
			got.Device, got.Port, addrText(got.Local), onListener(listener))
	}
	b := found[0]
	got.Local = b.Addr
	if listener.State == BoundDevice {
		if err := got.at(listener); err != nil {
			return Binding{}, err
		}
	}
	return b, nil
}

func onListener(b Binding) string {
	if b.State != BoundDevice {
		return ""
	}
	return " on " + b.Netdev
}
