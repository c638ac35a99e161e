package policy

import (
	"cmp"
	"fmt"
	"slices"
)

// tcp is what an id that is not bound needs on iWARP: its connection is TCP from
// the address that the first look-up chose, and TCP looks the route up again, now
// with that source, for which there may be a rule, and with a hash of its own
// among several next hops. Where that leads elsewhere, the device is not the one
// that the packets leave by.
func (d *Decision) tcp(v *view) *Error {
	r, dst := d.HostRoute, d.Request.Dst.Addr()
	iwarp := slices.ContainsFunc(d.Predicted, func(t Target) bool { return t.Transport == IWARP })
	if !iwarp || r.Kind == RouteLocal || dst.Zone() != "" {
		return nil // the zone is the route
	}
	if err := d.tcpSource(v); err != nil {
		return err
	}
	q := Query{Dst: dst, Src: r.PrefSrc}
	again, err := v.route(q)
	if err != nil {
		return err
	}
	q.FIBMatch = true
	fib, err := v.route(q)
	if err != nil {
		return err
	}
	if again.Kind == r.Kind && again.Ifindex == r.Ifindex && within(fib, r.Ifindex) && within(d.HostFIB, r.Ifindex) {
		return nil
	}
	if hops := cmp.Or(fib.hops(), d.HostFIB.hops()); hops != "" {
		return refuse(ErrRouteMismatch,
			fmt.Sprintf("the route has several next hops (%s), and iWARP's TCP connection may take another one than %s, which gives the device", hops, r.dev()), "").
			by(remedy{commands: []string{hostRoute(dst, r.Gateway, r.Netdev)}, instead: "leave one rail among the next hops"})
	}
	return refuse(ErrRouteMismatch,
		fmt.Sprintf("iWARP's TCP connection looks the route up again with its source %s, and then the host answers %s, where the device is that of %s",
			r.PrefSrc, again.answer(), r.dev()),
		"make the rule for that source lead through "+r.Netdev+" too (ip rule), or bind the address of the rail that it leads through")
}

// tcpSource wants the source that the kernel chooses to be an address of the
// network device that the route leads to. RoCE has no GID for another; iWARP's
// GID is that of the device, and proves nothing about addresses.
func (d *Decision) tcpSource(v *view) *Error {
	r := d.HostRoute
	if !isSpecific(r.PrefSrc) {
		return refuse(ErrNotRDMA, fmt.Sprintf("the route leads to %s, and there is no source address for it", r.dev()),
			"give "+r.Netdev+" an address (ip address add), or bind an address of a rail")
	}
	owners, err := v.owners(r.PrefSrc)
	if err != nil || hasIndex(owners, r.Ifindex) {
		return err
	}
	return refuse(ErrNotRDMA, fmt.Sprintf("the route leads to %s, and the source that the kernel chooses for it, %s, is an address of %s", r.dev(), r.PrefSrc, names(owners)),
		"give "+r.Netdev+" an address of that family (ip address add), or bind an address of a rail")
}

// tcpPath wants the host to lead a TCP connection from the bound address through
// the bound network device.
func (d *Decision) tcpPath(v *view) *Error {
	if err := d.askHost(v, Query{Dst: d.peer(), Src: d.Binding.Addr.Addr().WithZone("")}); err != nil {
		return err
	}
	d.Effective, d.FIB = d.HostRoute, d.HostFIB
	owners, err := d.owners(v)
	if err != nil || d.leads(d.HostRoute, owners) && within(d.HostFIB, d.Binding.Ifindex) {
		return err
	}
	return refuse(ErrRouteMismatch, fmt.Sprintf("the routing has changed since the look-up: iWARP's TCP connection follows the host's route whatever the binding says, and it is: %s", d.hostAnswer(owners)), "").
		by(d.sourceRule())
}
