package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ChangeKind says what changed.
type ChangeKind uint8

// The kinds of changes. ChangesLost: there were more than the kernel kept for
// this process, so anything may have changed.
const (
	ChangesLost ChangeKind = iota
	RouteChange
	RuleChange
	NexthopChange // of a nexthop object, which routes name
	AddressChange
	LinkChange
)

// Change is one change of the network, as the kernel told of it.
type Change struct {
	Kind    ChangeKind
	Deleted bool
	IPv6    bool
	Prefix  netip.Prefix // a route's destination, or the address
	Route   RouteKind    // a route's kind
	Gateway netip.Addr   // a route's
	From    netip.Prefix // a rule's source, invalid: any
	To      netip.Prefix // a rule's destination, invalid: any
	Ifindex int          // of the route, the address or the link; 0: unknown
	Netdev  string       // its name, "" where it is gone
	Table   int          // a route's or a rule's
	Number  int          // a rule's priority, a nexthop object's id
	Up      bool         // a link is, and has a carrier
	MTU     int          // a link's
}

// String is the change in a few words.
func (c Change) String() string {
	verb := "added"
	switch {
	case c.Deleted:
		verb = "deleted"
	case c.Kind == LinkChange:
		verb = "changed"
	}
	dev := c.Netdev
	if dev == "" {
		dev = fmt.Sprintf("ifindex %d", c.Ifindex)
	}
	switch c.Kind {
	case RouteChange:
		s := "route " + c.Prefix.String()
		if c.Route.negative() {
			s, dev = fmt.Sprintf("route %s %s", c.Route, c.Prefix), "" // IPv6 names lo there
		}
		if c.Gateway.IsValid() {
			s += " via " + c.Gateway.String()
		}
		if c.Ifindex != 0 && dev != "" {
			s += " dev " + dev
		}
		return fmt.Sprintf("%s table %d %s", s, c.Table, verb)
	case RuleChange:
		s := fmt.Sprintf("rule %d", c.Number)
		if c.From.IsValid() {
			s += " from " + c.From.String()
		}
		if c.To.IsValid() {
			s += " to " + c.To.String()
		}
		if c.Table != 0 {
			s += fmt.Sprintf(" table %d", c.Table)
		}
		return s + " " + verb
	case NexthopChange:
		return fmt.Sprintf("nexthop object %d %s", c.Number, verb)
	case AddressChange:
		return fmt.Sprintf("address %s of %s %s", c.Prefix.Addr(), dev, verb)
	case LinkChange:
		if c.Deleted {
			return fmt.Sprintf("link %s %s", dev, verb)
		}
		state := "down"
		if c.Up {
			state = "up"
		}
		return fmt.Sprintf("link %s %s (%s, MTU %d)", dev, verb, state, c.MTU)
	}
	return "more than the kernel could tell"
}

// moves says whether the change may have led the kernel's look-up elsewhere.
func (c Change) moves(dst netip.Addr) bool {
	switch c.Kind {
	case RouteChange:
		return c.IPv6 == dst.Is6() && c.Prefix.Contains(dst)
	case RuleChange:
		return c.IPv6 == dst.Is6()
	case NexthopChange, ChangesLost:
		return true
	}
	return false
}

// concerns says whether the change touches what a decision rests on.
func (c Change) concerns(d Decision) bool {
	switch c.Kind {
	case AddressChange:
		a := c.Prefix.Addr()
		return a == d.Binding.Addr.Addr().WithZone("") || a == d.Request.Src.Addr().Unmap().WithZone("") || a == d.peer()
	case LinkChange:
		return c.Ifindex == d.Binding.Ifindex || slices.ContainsFunc(d.Predicted, func(t Target) bool { return t.Ifindex == c.Ifindex })
	}
	return c.moves(d.peer())
}

func (d Decision) peer() netip.Addr { return d.Request.Dst.Addr().Unmap().WithZone("") }

// preferred says whether the kernel merely prefers the bound network device, or
// does not heed it at all: beyond the link, for IPv6, and on iWARP. Only there can
// what it made be split.
func (d Decision) preferred() bool {
	dst := d.peer()
	if d.Binding.State != BoundDevice || needsZone(dst) {
		return false
	}
	return d.Binding.Transport == RoCE && dst.Is6() || d.Binding.Transport == IWARP
}

// CheckPath repeats the look-up that the kernel makes for itself when it moves
// the QP of a connection (on iWARP: when TCP connects), and wants it to lead
// through the bound network device still. Where the kernel cannot leave that one
// (IPv4 on RoCE, link-local, InfiniBand) it asks nothing.
//
// Errors: ErrRouteMismatch, ErrBindingLost, ErrLookup.
func CheckPath(h Host, d Decision) error {
	v := &view{h: h}
	err := d.path(v)
	if err == nil {
		return nil
	}
	err.Op, err.Src, err.Dst, err.Binding, err.Routes = "check the path of", d.Binding.Addr, d.Request.Dst, d.Binding, v.routes
	return err
}

func (d Decision) path(v *view) (err *Error) {
	if !d.preferred() {
		return nil
	}
	if d.Binding.Transport == IWARP {
		return d.tcpPath(v)
	}
	q := Query{Dst: d.peer(), Src: d.Binding.Addr.Addr().WithZone(""), Oif: d.Binding.Ifindex}
	if d.Effective, err = v.route(q); err != nil {
		return err
	}
	q.FIBMatch = true
	if d.FIB, err = v.route(q); err != nil {
		return err
	}
	d.HostRoute = Route{} // not asked for here
	owners, err := d.owners(v)
	if err != nil {
		return err
	}
	if err = d.judgeEffective(v, owners); err != nil {
		err.Reason = "the routing has changed since the look-up: " + err.Reason
	}
	return err
}

// CheckUnchanged wants none of the changes, those between the look-up before a
// step and the one after it, to have led the kernel elsewhere for a moment
// between: no query tells afterwards which route a path was made of.
//
// Errors: ErrChanged.
func CheckUnchanged(d Decision, changes []Change) error {
	if !d.preferred() {
		return nil
	}
	moved := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !c.moves(d.peer()) })
	if len(moved) == 0 {
		return nil
	}
	why := fmt.Sprintf("for IPv6 the bound %s is only a preference", d.Binding.Netdev)
	if d.Binding.Transport == IWARP {
		why = "iWARP's TCP connection follows the host's route"
	}
	e := refuse(ErrChanged, fmt.Sprintf("meanwhile: %s; %s, and which route the kernel took in that moment cannot be told", changesText(moved), why),
		"close this id and try again on a new one")
	e.Op, e.Src, e.Dst, e.Binding = "check the path of", d.Binding.Addr, d.Request.Dst, d.Binding
	return e
}

// Explain says of a step that failed after an accepted decision what has
// changed since: as the rule would judge now, and by the changes since. It is
// nil where neither tells anything.
//
// Errors: those of Decide, ErrChanged.
func Explain(h Host, d Decision, changes []Change) error {
	if d.Verdict != Accepted || d.Binding.State != BoundDevice {
		return nil
	}
	v, now := &view{h: h}, d
	err := now.refresh(v)
	if err == nil && d.Request.Dst.Addr().IsValid() && d.Policy != FollowRoute && d.Effective.Kind != RouteNotAsked {
		err = now.judge(v)
	}
	if text := Meanwhile(d, changes); err == nil && text != "" {
		err = refuse(ErrChanged, text, "close this id and try again on a new one")
	}
	if err == nil {
		return nil
	}
	err.Op, err.Src, err.Dst, err.Binding, err.Routes = "look again at", d.Binding.Addr, d.Request.Dst, d.Binding, v.routes
	return err
}

// Meanwhile names those of the changes that touch what a decision rests on, ""
// where none does.
func Meanwhile(d Decision, changes []Change) string {
	mine := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !c.concerns(d) })
	if d.Verdict == Undecided || len(mine) == 0 {
		return ""
	}
	return "meanwhile: " + changesText(mine)
}

// changesText lists the changes, the latest ones where there are many.
func changesText(changes []Change) string {
	const most = 8
	var text []string
	if n := len(changes) - most; n > 0 {
		text, changes = append(text, fmt.Sprintf("%d changes", n)), changes[n:]
	}
	for _, c := range changes {
		text = append(text, c.String())
	}
	return strings.Join(text, ", ")
}
