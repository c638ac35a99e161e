package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// Request is what an id is about to resolve.
type Request struct {
	Policy    Policy
	Binding   Binding        // of the id, from ResolveBinding or CheckBound
	Src       netip.AddrPort // the source that the caller gives, zero: none
	Dst       netip.AddrPort
	PortSpace PortSpace
	// AllowLocalCrossing accepts, under PinBound, a destination that is a local
	// address of another network device. It only connects on hosts with routing
	// rules made for it; for IPv6 it is refused all the same where the look-up of
	// the bound id calls the destination local too.
	AllowLocalCrossing bool
	// RequireOnLinkRoute refuses a destination that the kernel would merely
	// assume to be on the bound link because no route through it exists.
	RequireOnLinkRoute bool
}

// Decision is the answer to a Request, a plain value.
type Decision struct {
	Request Request // as asked, addresses unmapped

	Policy  Policy // in effect: Auto is replaced by what it means here
	Verdict Verdict
	Err     error  // *Error where refused, else nil
	Reason  string // the verdict in words
	Remedy  string // what to do about a refusal or an override, may be empty
	// Commands are those within Remedy that mend it by themselves, for a shell,
	// in order; nil where no command does.
	Commands []string

	// Overridden: the host's own route would not surely have led through the
	// bound network device; the binding overrides it.
	Overridden bool
	// AssumedOnLink: only the kernel's guess that the destination is on the
	// bound link stands behind the accepted route.
	AssumedOnLink bool
	// Bind: the id is idle and has a specific source; bind that source first
	// (to Binding), then resolve without source.
	Bind bool

	Binding   Binding // refreshed; what Src would bind where Bind is set
	Effective Route   // with the binding (Q1), or without for an unbound id (Q0)
	FIB       Route   // the table entry behind Effective (Q1f, Q0f)
	HostRoute Route   // what the host would do (Q2), or Q0
	HostFIB   Route   // the table entry behind HostRoute, where that is unicast

	Predicted []Target // where the connection may be: one, or more with multipath
	Lookups   int      // calls of Host made for this decision
	Resolved  *Kernel  // what the kernel made of it, set by CheckResolved
}

// Target is one predicted place of a connection.
type Target struct {
	Device      string
	DeviceIndex int
	Port        uint8
	Transport   Transport
	Netdev      string
	Ifindex     int
}

// Netdevs returns the indexes of the predicted network devices.
func (d Decision) Netdevs() []int {
	var out []int
	for _, t := range d.Predicted {
		if !slices.Contains(out, t.Ifindex) {
			out = append(out, t.Ifindex)
		}
	}
	return out
}

// Decide says whether the request may go to the kernel, and where it will be.
// It never panics, whatever the Host answers.
//
// First come the refusals that need no look-up (destination, family, zone,
// source, state of the id), then the binding is looked at again, then the
// routes are compared as the policy asks.
//
// An idle id with a specific source is judged as if bound to that source, and
// the decision has Bind set: the caller binds first, then resolves without.
func Decide(h Host, r Request) Decision {
	r.Src, r.Dst, r.Binding.Addr = unmap(r.Src), unmap(r.Dst), unmap(r.Binding.Addr)
	d := Decision{Request: r, Policy: r.Policy, Binding: r.Binding}
	v := &view{h: h}
	err := d.boundSpace()
	if err == nil {
		err = d.plain()
	}
	if err == nil && d.Bind {
		if d.Binding, err = v.resolve(r.Src); err == nil {
			err = d.boundSpace()
		}
	}
	if err == nil {
		err = d.route(v)
	}
	if err == nil {
		err = d.space()
	}
	d.finish(v, err)
	return d
}

// route asks the machine and judges the answers.
func (d *Decision) route(v *view) *Error {
	if d.Policy == FollowRoute {
		return d.follow(v)
	}
	if err := d.refresh(v); err != nil {
		return err
	}
	return d.judge(v)
}

// finish turns the outcome into the decision's verdict.
func (d *Decision) finish(v *view, err *Error) {
	d.Lookups += v.lookups
	if err == nil {
		d.Verdict = Accepted
		return
	}
	err.Op, err.Src, err.Dst = "resolve", d.Request.Src, d.Request.Dst
	err.Binding, err.Routes = d.Binding, v.routes
	if !err.Src.Addr().IsValid() && d.Binding.State == BoundDevice {
		err.Src = d.Binding.Addr
	}
	d.Verdict, d.Err, d.Reason, d.Remedy, d.Commands = Refused, err, err.Reason, err.Remedy, err.Commands
	d.Overridden, d.AssumedOnLink, d.Predicted = false, false, nil
}

// plain makes the refusals that need no look-up, and settles what Auto means.
func (d *Decision) plain() *Error {
	if d.Binding.State == BoundUnknown {
		return refuse(ErrPoisoned, "a failed step may have left the id bound to something, and the kernel does not tell", "close it and use a new one")
	}
	if d.Binding.State > BoundUnknown {
		return refuse(ErrUnknownPolicy, fmt.Sprintf("bind state %s is unknown", d.Binding.State), "take the binding from the bind's own check")
	}
	if err := d.plainDestination(); err != nil {
		return err
	}
	if err := d.plainSource(); err != nil {
		return err
	}
	state, specific := d.Binding.State, isSpecific(d.Request.Src.Addr())
	if state == BoundWildcard && needsZone(d.Request.Dst.Addr()) {
		return refuse(ErrScope, "the id is bound to a wildcard address, and the kernel would drop the destination's zone",
			"bind an address of that link, or use an id that is not bound")
	}
	d.Bind = state == Unbound && specific
	if d.Policy == Auto {
		d.Policy = FollowRoute
		if state == BoundDevice || d.Bind {
			d.Policy = PinBound
		}
	}
	switch d.Policy {
	case PinBound, RequireRoute:
		if state != BoundDevice && !d.Bind {
			return refuse(ErrNotBound, fmt.Sprintf("policy %q keeps the bound device, and the id is %s", d.Policy, d.Binding),
				"bind an address of a rail first, or use policy follow")
		}
		if state == BoundDevice && (d.Binding.Ifindex <= 0 || !d.Binding.Addr.Addr().IsValid() || d.Binding.Device == "") {
			return refuse(ErrNotBound, "the binding names no address, no network device or no RDMA device",
				"take the binding from the bind's own check")
		}
	case FollowRoute:
		if state == BoundDevice {
			return refuse(ErrAlreadyBound, "policy follow lets the route decide the device, and the id is bound to one",
				"use an id that is not bound, or policy pin or route")
		}
		if d.Bind {
			return refuse(ErrSourceConflict, "policy follow lets the route decide the source, and one is given",
				"leave the source out, or use policy pin or route")
		}
	default:
		return refuse(ErrUnknownPolicy, fmt.Sprintf("policy %s is none of auto, pin, route, follow", d.Policy), "use one of these")
	}
	return nil
}

// plainDestination is rule 1: destinations that the kernel would map to some
// device, or to some link.
func (d *Decision) plainDestination() *Error {
	dst, tcp := d.Request.Dst.Addr(), !d.Request.PortSpace.datagrams()
	remedy := "give the peer's address on a rail"
	switch {
	case !dst.IsValid():
		return refuse(ErrLoopbackDst, "no destination address was given", remedy)
	case dst.IsUnspecified():
		return refuse(ErrLoopbackDst, "the kernel would take an unspecified destination for loopback, on any device", remedy)
	case dst.IsLoopback():
		return refuse(ErrLoopbackDst, "loopback belongs to no rail: the kernel would choose the first active device, or hang",
			"give this host's address on the rail")
	case dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return refuse(ErrLoopbackDst, "the limited broadcast address names no single host", remedy)
	case dst.IsMulticast() && tcp:
		return refuse(ErrLoopbackDst, "a connection cannot have a multicast destination", remedy+", or use the UDP port space")
	}
	if err := checkZone(dst, "the destination"); err != nil {
		return err
	}
	for _, local := range []netip.Addr{d.Binding.Addr.Addr(), d.Request.Src.Addr()} {
		if local.IsValid() && local.Is4() != dst.Is4() {
			return refuse(ErrFamilyMismatch, fmt.Sprintf("the local address is %s and the destination %s", local, dst),
				"use two addresses of one family")
		}
	}
	return nil
}

// plainSource is rules 2 and 3: the kernel ignores a source on a bound id.
func (d *Decision) plainSource() *Error {
	src, b := d.Request.Src, d.Binding
	if !src.Addr().IsValid() {
		return nil
	}
	var same bool
	switch b.State {
	case Unbound:
		return nil
	case BoundWildcard:
		same = src.Addr() == b.Addr.Addr()
	case BoundDevice:
		same = sameAddr(src.Addr(), b)
	}
	if same && (src.Port() == 0 || src.Port() == b.Addr.Port()) {
		return nil
	}
	return refuse(ErrSourceConflict,
		fmt.Sprintf("the source %s is given, the id is %s, and the kernel would ignore the source silently", addrText(src), b),
		"leave the source out, or use a new id")
}

func isSpecific(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() }

// refresh looks at the binding again: address, network device and RDMA port
// must still be there.
func (d *Decision) refresh(v *view) *Error {
	b := &d.Binding
	i, ok, err := v.iface(b.Ifindex)
	if err != nil {
		return err
	}
	if !ok {
		return lost("network device %s (ifindex %d) is gone", b.Netdev, b.Ifindex)
	}
	owners, err := v.owners(b.Addr.Addr())
	if err != nil {
		return err
	}
	if !hasIndex(owners, i.Index) {
		return lost("%s is no longer an address of %s", b.Addr.Addr(), i.Name)
	}
	ports, err := v.ports()
	if err != nil {
		return err
	}
	n := slices.IndexFunc(ports, func(p RDMAPort) bool {
		return p.Device == b.Device && p.DeviceIndex == b.DeviceIndex && p.Port == b.Port
	})
	if n < 0 {
		return lost("RDMA device %s port %d is gone", b.Device, b.Port)
	}
	row, ok := proof(ports[n], i, b.Addr.Addr())
	if !ok {
		return lost("%s port %d no longer stands behind %s on %s", b.Device, b.Port, b.Addr.Addr(), i.Name)
	}
	vrf, err := v.vrf(i)
	if err != nil {
		return err
	}
	fresh := bindingOf(ports[n], i, row, vrf)
	fresh.Addr = b.Addr
	*b = fresh
	if !i.Up {
		return refuse(ErrRouteMismatch, i.Name+" is down, so nothing leads through it", "").by(linkUp(i))
	}
	return v.usable(fresh)
}

func lost(format string, args ...any) *Error {
	return refuse(ErrBindingLost, fmt.Sprintf(format, args...), "close this id, restore the address or bind another one on a new id")
}

// judge compares the routes of a bound id as PinBound and RequireRoute ask.
func (d *Decision) judge(v *view) *Error {
	b, dst := d.Binding, d.Request.Dst.Addr()
	if dst.Zone() != "" {
		if err := d.sameLink(v); err != nil {
			return err
		}
	}
	q := Query{Dst: dst.WithZone(""), Src: b.Addr.Addr().WithZone(""), Oif: b.Ifindex}
	var err *Error
	if d.Effective, err = v.route(q); err != nil { // Q1
		return err
	}
	q.FIBMatch = true
	if d.FIB, err = v.route(q); err != nil { // Q1f
		return err
	}
	if dst.Zone() != "" {
		d.HostRoute, d.HostFIB = d.Effective, d.FIB // the zone is the route
	} else if err := d.askHost(v, Query{Dst: q.Dst, Src: q.Src}); err != nil { // Q2
		return err
	}
	owners, err := d.owners(v)
	if err != nil {
		return err
	}

	if err := d.judgeEffective(v, owners); err != nil {
		return err
	}
	agrees := d.leads(d.HostRoute, owners) && within(d.HostFIB, b.Ifindex)
	crossing := d.HostRoute.Kind == RouteLocal && !agrees
	if crossing && !d.Request.AllowLocalCrossing {
		return d.crossing(v, d.HostRoute, owners)
	}
	d.Overridden = !agrees
	d.AssumedOnLink = d.Effective.Kind == RouteUnicast && d.FIB.Kind.negative()
	if err := d.judgeHost(v, agrees, owners); err != nil {
		return err
	}
	d.Predicted = []Target{targetOf(b)}
	d.explain(owners)
	return nil
}

// sameLink refuses a zone that contradicts the bound one.
func (d *Decision) sameLink(v *view) *Error {
	zone := d.Request.Dst.Addr().Zone()
	if zone == d.Binding.Netdev {
		return nil
	}
	index, err := v.zoneIndex(zone)
	if err != nil {
		return err
	}
	if index != d.Binding.Ifindex {
		return refuse(ErrScope, fmt.Sprintf("the destination is on link %s, the id is bound to %s, and the kernel would ignore the zone", zone, d.Binding.Netdev),
			"bind an address of "+zone+", or give the destination on "+d.Binding.Netdev)
	}
	return nil
}

// askHost asks what the host would do without a binding.
func (d *Decision) askHost(v *view, q Query) (err *Error) {
	if d.HostRoute, err = v.route(q); err != nil {
		return err
	}
	d.HostFIB = Route{}
	if d.HostRoute.Kind == RouteUnicast { // there may be several next hops
		q.FIBMatch = true
		d.HostFIB, err = v.route(q)
	}
	return err
}

// owners asks who has the destination where a route calls it local.
func (d *Decision) owners(v *view) ([]Interface, *Error) {
	if d.Effective.Kind != RouteLocal && d.HostRoute.Kind != RouteLocal {
		return nil, nil
	}
	return v.owners(d.Request.Dst.Addr())
}

// leads says whether a route leads through the bound network device.
func (d *Decision) leads(r Route, owners []Interface) bool {
	switch r.Kind {
	case RouteLocal:
		return hasIndex(owners, d.Binding.Ifindex)
	case RouteUnicast:
		return r.Ifindex == d.Binding.Ifindex
	case RouteMulticast:
		return r.Ifindex == d.Binding.Ifindex && d.Request.Dst.Addr().IsMulticast()
	}
	return false
}

// within says whether every next hop is that network device.
func within(r Route, ifindex int) bool {
	return !slices.ContainsFunc(r.Hops, func(h Hop) bool { return h.Ifindex != ifindex })
}

// judgeEffective wants the kernel's own look-up to stay on the bound network
// device. IPv4 is forced there; for IPv6 the device is only a preference, and
// among the next hops of one route not even that on some kernels (6.18).
func (d *Decision) judgeEffective(v *view, owners []Interface) *Error {
	b, e := d.Binding, d.Effective
	switch {
	case !d.leads(e, owners):
		if e.Kind == RouteLocal {
			return d.crossing(v, e, owners)
		}
		reason := fmt.Sprintf("with the binding the kernel answers %s", e.answer())
		if i, ok, _ := v.iface(b.Ifindex); ok && i.Kind == "vrf" && e.Kind == RouteUnicast {
			return refuse(ErrRouteMismatch, reason+": an address of a VRF's own device leaves through the rails in it", "bind an address of "+e.dev())
		}
		if b.Addr.Addr().Is6() && e.Kind == RouteUnicast {
			reason += fmt.Sprintf(": for IPv6 the bound %s is only a preference, and the connection would be split between %s and %s",
				b.Netdev, b.Netdev, e.dev())
		}
		return refuse(ErrRouteMismatch, reason, "").by(d.keep())
	case e.Kind == RouteLocal:
		return v.loopback(e, owners)
	case b.Addr.Addr().Is6() && !within(d.FIB, b.Ifindex):
		keeps, err := v.prefersBound(e.Query, d.FIB)
		if err != nil || keeps {
			return err
		}
		return refuse(ErrRouteMismatch,
			fmt.Sprintf("the route has several next hops (%s), and for IPv6 this kernel lets a hash choose among them, whatever the binding", d.FIB.hops()), "").by(d.keep())
	}
	return nil
}

// judgeHost refuses an override where it is not allowed or not possible.
func (d *Decision) judgeHost(v *view, agrees bool, owners []Interface) *Error {
	b := d.Binding
	var reason string
	switch {
	case d.Policy == RequireRoute && !agrees:
		reason = fmt.Sprintf("policy route wants the host's own route to lead through %s, and it is: %s", b.Netdev, d.hostAnswer(owners))
	case b.Transport == IWARP && !agrees:
		reason = fmt.Sprintf("iWARP's TCP connection follows the host's route whatever the binding says, and it is: %s", d.hostAnswer(owners))
	case d.Request.RequireOnLinkRoute && d.AssumedOnLink:
		return refuse(ErrRouteMismatch,
			fmt.Sprintf("no route through %s leads to the destination; the kernel would only assume it to be on that link", b.Netdev), "").by(d.sourceRule())
	default:
		return nil
	}
	if d.HostRoute.Kind == RouteLocal { // no rule comes before the local table
		return refuse(ErrRouteMismatch, reason, d.inside(v, owners))
	}
	r := d.sourceRule()
	pinWouldDo := b.Transport != IWARP && (!d.Request.RequireOnLinkRoute || !d.AssumedOnLink)
	if d.Policy == RequireRoute && pinWouldDo {
		r.instead = "use policy pin, which overrides the route"
	}
	return refuse(ErrRouteMismatch, reason, "").by(r)
}

// crossing refuses a destination that is local, but not on the bound device.
func (d *Decision) crossing(v *view, r Route, owners []Interface) *Error {
	who := "no network device of its own"
	if len(owners) > 0 {
		who = names(owners)
	}
	remedy := d.inside(v, owners)
	if r.Query.Oif == 0 && d.Policy == PinBound {
		remedy += "; AllowLocalCrossing lets it through on hosts with rules made for it"
	}
	return refuse(ErrRouteMismatch,
		fmt.Sprintf("the destination is a local address of %s (the route is local, dev lo), which does not lead to %s", who, d.Binding.Netdev),
		remedy)
}

// inside says what to do about a destination within this host.
func (d *Decision) inside(v *view, owners []Interface) string {
	dst := d.Request.Dst.Addr()
	for _, i := range owners {
		if here, err := v.behind(i, dst); err == nil && len(here) == 1 {
			return fmt.Sprintf("for a connection inside this host bind %s itself, or use an unbound id with policy follow", dst)
		}
	}
	return "give the peer's address on the rail"
}

// follow judges an unbound or wildcard-bound id: the route decides, and there
// must be one RDMA port where it leads.
func (d *Decision) follow(v *view) *Error {
	dst := d.Request.Dst.Addr()
	q := Query{Dst: dst.WithZone("")}
	if dst.Zone() != "" {
		index, err := v.zoneIndex(dst.Zone())
		if err != nil {
			return err
		}
		q.Oif = index
	}
	if err := d.askHost(v, q); err != nil { // Q0
		return err
	}
	d.Effective, d.FIB = d.HostRoute, d.HostFIB
	r := d.HostRoute
	var candidates []Interface
	switch {
	case r.Kind == RouteLocal:
		owners, err := v.owners(dst)
		if err != nil {
			return err
		}
		if len(owners) > 1 {
			return refuse(ErrAmbiguousDevice, fmt.Sprintf("%s is an address of %s, and the kernel takes whichever it finds first", dst, names(owners)),
				"take the address away from all but one of them (ip address delete)")
		}
		if err := v.loopback(r, owners); err != nil {
			return err
		}
		candidates = owners
	case r.Kind == RouteUnicast || r.Kind == RouteMulticast && dst.IsMulticast():
		for _, index := range r.netdevs(d.HostFIB) {
			i, ok, err := v.iface(index)
			if err != nil {
				return err
			}
			if ok {
				candidates = append(candidates, i)
			}
		}
	default:
		e := refuse(ErrNoRoute, "the host answers "+r.answer(), "").by(v.routeThrough(dst, q.Oif))
		e.Errno = syscall.ENETUNREACH
		if r.Errno != 0 {
			e.Errno = r.Errno
		}
		return e
	}
	for _, i := range candidates {
		if err := d.predict(v, i); err != nil {
			return err
		}
	}
	if len(d.Predicted) == 0 {
		if err := v.shutBehind("the route leads to "+names(candidates), candidates); err != nil {
			return err
		}
		return refuse(ErrNotRDMA, fmt.Sprintf("the route leads to %s, and no RDMA port stands behind its address there", names(candidates)),
			"bind an address of a rail, or route the destination through one; "+v.devices())
	}
	if first := candidates[0]; !slices.Contains(d.Netdevs(), first.Index) {
		source := "its address there"
		if r.PrefSrc.IsValid() {
			source = r.PrefSrc.String()
		}
		if err := v.shutBehind("of several next hops the kernel chooses "+first.Name, candidates[:1]); err != nil {
			return err
		}
		return refuse(ErrNotRDMA, fmt.Sprintf("of several next hops the kernel chooses %s, and no RDMA port stands behind %s on it", first.Name, source),
			"bind an address of a rail, or leave only rails among the next hops")
	}
	if err := d.tcp(v); err != nil {
		return err
	}
	d.Reason = fmt.Sprintf("the id is %s, so the route decides: %s", d.Binding, d.hostAnswer(candidates))
	return nil
}

// predict adds the RDMA port behind a network device that the route may choose.
func (d *Decision) predict(v *view, i Interface) *Error {
	ports, err := v.ports()
	if err != nil {
		return err
	}
	src := d.HostRoute.PrefSrc
	if d.HostRoute.Kind == RouteLocal {
		src = d.Request.Dst.Addr().WithZone("")
	} else if i.Index != d.HostRoute.Ifindex {
		src = netip.Addr{} // another next hop has a source of its own
	}
	var sources []netip.Prefix
	if !src.IsValid() {
		if sources, err = v.addrs(i.Index); err != nil {
			return err
		}
	}
	// An index alone is no proof: a device of another network namespace shows the
	// indexes of that one.
	isSource := func(r GIDRow) bool {
		return r.Netdev == i.Index && slices.ContainsFunc(sources, func(s netip.Prefix) bool {
			return s.Addr().Is4() == d.HostRoute.Query.Dst.Is4() && GIDOf(s.Addr()) == r.GID
		})
	}
	var here []Binding
	for _, p := range ports {
		row, ok := proof(p, i, src)
		if !src.IsValid() && p.Transport != IWARP && p.Transport != InfiniBand {
			row, ok = pick(p.GIDs, isSource)
		}
		if ok {
			here = append(here, bindingOf(p, i, row, ""))
		}
	}
	if len(here) > 1 {
		return refuse(ErrAmbiguousDevice, fmt.Sprintf("the route leads to %s, behind which are %s", i.Name, places(here)),
			"bind an address that only one of them has, or remove all but one from that network device")
	}
	for _, b := range here {
		if err := v.usable(b); err != nil {
			return err
		}
		d.Predicted = append(d.Predicted, targetOf(b))
	}
	return nil
}

func targetOf(b Binding) Target {
	return Target{Device: b.Device, DeviceIndex: b.DeviceIndex, Port: b.Port, Transport: b.Transport, Netdev: b.Netdev, Ifindex: b.Ifindex}
}
