package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// report is what the program found out.
type report struct {
	options
	at       time.Time
	findings []finding    // one for each address that a dial would try, in order
	taken    int          // the first accepted one, else 0
	skipped  []netip.Addr // of the name, not tried
	rails    []rail       // of this host, for the picture
}

// finding is what was found out about one destination.
type finding struct {
	decision policy.Decision
	unbound  *policy.Decision // the host's own choice; nil where that was asked
	unknown  error            // why nothing could be decided, else nil
	kernel   *answer          // of -resolve, else nil
}

// answer is what became of the steps on a real id.
type answer struct {
	decision policy.Decision // the id's own
	err      error           // of the step that failed, else nil
	differs  string          // how it contradicts the decision, "" where it does not
}

func (r report) status() int { return r.findings[r.taken].status() }

func (f finding) status() int {
	switch {
	case f.unknown != nil, f.kernel != nil && f.kernel.differs != "":
		return statusUnknown
	case f.decision.Verdict == policy.Accepted:
		return statusAccepted
	}
	return statusRefused
}

// explain asks this host.
func explain(ctx context.Context, o options) report {
	h, err := cm.OpenHost()
	if err != nil {
		return explainOn(ctx, nil, err, o)
	}
	defer h.Close()
	return explainOn(ctx, h, nil, o)
}

// explainOn asks a host, or says why there is none to ask.
func explainOn(ctx context.Context, h policy.Host, none error, o options) report {
	r := report{options: o, at: time.Now()}
	try, skipped, err := o.destinations(ctx)
	if err != nil {
		r.findings = []finding{{decision: o.undecided(o.dst), unknown: fmt.Errorf("%w: %w", policy.ErrLookup, err)}}
		return r
	}
	r.skipped = skipped
	var ports []policy.RDMAPort
	if none == nil {
		ports, err = h.RDMAPorts()
	}
	for _, dst := range try {
		f := finding{decision: o.undecided(dst)}
		switch {
		case none != nil:
			f.unknown = noRDMA(none)
		case err != nil || len(ports) == 0:
			f.unknown = noRDMA(err)
			f.routesOnly(h, o)
		default:
			f.look(ctx, h, o)
		}
		r.findings = append(r.findings, f)
	}
	r.taken = max(0, slices.IndexFunc(r.findings, func(f finding) bool { return f.status() == statusAccepted }))
	if o.svg != "" && none == nil {
		r.rails = railsOf(h)
	}
	return r
}

// undecided is the request, without an answer.
func (o options) undecided(dst netip.AddrPort) policy.Decision {
	r := policy.Request{Policy: o.policy, Src: o.src, Dst: dst, PortSpace: o.space, AllowLocalCrossing: o.localCrossing, RequireOnLinkRoute: o.onLinkRoute}
	return policy.Decision{Policy: o.policy, Request: r}
}

// look decides, and asks the kernel where that is wanted.
func (f *finding) look(ctx context.Context, h policy.Host, o options) {
	bind := f.decide(h, o)
	if errors.Is(f.decision.Err, policy.ErrLookup) {
		f.unknown = f.decision.Err
		return
	}
	if f.decision.Policy != policy.FollowRoute {
		u := policy.Decide(h, policy.Request{Policy: policy.FollowRoute, Dst: f.decision.Request.Dst, PortSpace: o.space})
		if u.HostRoute.Kind != policy.RouteNotAsked {
			f.unbound = &u
		}
	}
	if o.resolve {
		f.kernel = &answer{err: f.decision.Err} // no address of the device to bind
		if o.device == "" || bind.IsValid() {
			f.kernel = ask(ctx, o, bind, f.decision.Request.Dst)
		}
		f.kernel.differs = f.compare()
	}
}

// decide asks the policy, and returns the address that is bound first.
func (f *finding) decide(h policy.Host, o options) (bind netip.AddrPort) {
	bind = o.bind
	r := f.decision.Request
	if o.device != "" {
		a, err := policy.PickLocal(h, o.device, r.Dst.Addr())
		if err != nil {
			f.refuse(err)
			return bind
		}
		bind = netip.AddrPortFrom(a, 0)
	}
	if bind.IsValid() {
		var err error
		if r.Binding, err = policy.ResolveBinding(h, bind); err != nil {
			f.refuse(err)
			return bind
		}
	}
	f.decision = policy.Decide(h, r)
	return bind
}

// refuse records that the bind itself, before any decision, would fail.
func (f *finding) refuse(err error) {
	d := &f.decision
	d.Verdict, d.Err, d.Reason = policy.Refused, err, err.Error()
	var e *policy.Error
	if errors.As(err, &e) {
		d.Reason, d.Remedy, d.Commands = e.Reason, e.Remedy, e.Commands
	}
}

// noRDMAError says that there is no RDMA device to decide about.
type noRDMAError struct{ cause error }

// noRDMA tells a machine without RDMA from one that could not be asked.
func noRDMA(cause error) error {
	if cause == nil || errors.Is(cause, ibv.ErrNoRDMA) || errors.Is(cause, errors.ErrUnsupported) || errors.Is(cause, syscall.ENODEV) {
		return &noRDMAError{cause}
	}
	return fmt.Errorf("%w: %w", policy.ErrLookup, cause)
}

func (e *noRDMAError) Error() string {
	if e.cause == nil {
		return "there is no RDMA device in this network namespace"
	}
	if errors.Is(e.cause, ibv.ErrNoRDMA) {
		return e.cause.Error()
	}
	return fmt.Sprintf("no RDMA here: %v", e.cause)
}

// Unwrap gives the cause, and the errno that a bind would fail with.
func (e *noRDMAError) Unwrap() []error {
	if e.cause == nil {
		return []error{syscall.ENODEV}
	}
	return []error{e.cause, syscall.ENODEV}
}

// noRDMARemedy names the network device that the connection would use.
func noRDMARemedy(netdev string) string {
	return "load the driver of the adapter and ib_uverbs and rdma_ucm (modprobe); in a container pass /dev/infiniband; " +
		"without hardware: modprobe -a rdma_rxe rdma_ucm && rdma link add rxe0 type rxe netdev " + netdev
}

// routesOnly fills in what can be told without RDMA: the routes with and
// without the bound address.
func (f *finding) routesOnly(h policy.Host, o options) {
	d := &f.decision
	d.Reason = f.unknown.Error()
	netdev := "NETDEV"
	defer func() {
		var none *noRDMAError
		if errors.As(f.unknown, &none) {
			if d.Effective.Kind == policy.RouteUnicast {
				netdev = d.Effective.Netdev
			}
			d.Remedy = noRDMARemedy(netdev)
		}
	}()
	src := o.bind.Addr().Unmap()
	if !src.IsValid() || src.IsUnspecified() {
		src = o.src.Addr().Unmap()
	}
	look := func(q policy.Query) (out policy.Route) {
		if route, err := h.Route(q); err == nil {
			route.Query = q
			return route
		}
		return out
	}
	dst := d.Request.Dst.Addr().Unmap()
	q := policy.Query{Dst: dst.WithZone("")}
	if zone := dst.Zone(); zone != "" {
		i, err := h.InterfaceByName(zone)
		if err != nil {
			return
		}
		q.Oif = i.Index
	}
	if src.IsValid() && src.Is4() == dst.Is4() && !src.IsUnspecified() {
		q.Src = src.WithZone("")
		if owners, err := h.Owners(q.Src); err == nil && len(owners) == 1 {
			netdev = owners[0].Name
			bound := q
			bound.Oif = owners[0].Index
			d.Effective = look(bound)
		}
	}
	d.HostRoute = look(q)
	if d.Effective.Kind == policy.RouteNotAsked {
		d.Effective = d.HostRoute
	}
}

// ask takes the same steps on a real id, up to the resolved route.
func ask(ctx context.Context, o options, bind, dst netip.AddrPort) *answer {
	space := cm.PortSpaceTCP
	if o.space == policy.PortSpaceUDP {
		space = cm.PortSpaceUDP
	}
	id, err := cm.NewID(cm.IDConfig{PortSpace: space, Policy: o.policy, AllowLocalCrossing: o.localCrossing, RequireOnLinkRoute: o.onLinkRoute})
	if err != nil {
		return &answer{err: err}
	}
	defer id.Close()
	if bind.IsValid() {
		err = id.Bind(bind)
	}
	if err == nil {
		err = id.ResolveAddr(ctx, o.src, dst)
	}
	if err == nil {
		err = id.ResolveRoute(ctx)
	}
	return &answer{decision: id.Decision(), err: err}
}

// compare holds the kernel's answer against the decision. The same refusal is
// agreement: the library's id makes it before it asks the kernel.
func (f *finding) compare() string {
	d, k := f.decision, f.kernel
	want, got := policy.SentinelName(d.Err), policy.SentinelName(k.err)
	switch {
	case d.Verdict != policy.Accepted && k.err == nil:
		return "the kernel resolved what the decision refuses"
	case d.Verdict != policy.Accepted && (got != want || got == ""):
		return fmt.Sprintf("expected %s, got: %v", want, k.err)
	case d.Verdict != policy.Accepted:
		return ""
	case k.err != nil:
		return k.err.Error()
	}
	b := k.decision.Binding
	if !slices.ContainsFunc(d.Predicted, func(t policy.Target) bool {
		return t.Device == b.Device && t.Port == b.Port && t.Ifindex == b.Ifindex
	}) {
		return fmt.Sprintf("the kernel resolved on %s/%d, %s", b.Device, b.Port, b.Netdev)
	}
	if k.decision.Overridden != d.Overridden || k.decision.AssumedOnLink != d.AssumedOnLink {
		return "the routes changed in between"
	}
	return ""
}
