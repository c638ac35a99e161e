package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// report is what the program found out.
type report struct {
	decision policy.Decision
	unknown  error   // why nothing could be decided, else nil
	kernel   *answer // of -resolve, else nil
}

// answer is what became of the steps on a real id.
type answer struct {
	decision policy.Decision // the id's own
	err      error           // of the step that failed, else nil
	differs  string          // how it contradicts the decision, "" where it does not
}

func (r report) status() int {
	switch {
	case r.unknown != nil, r.kernel != nil && r.kernel.differs != "":
		return statusUnknown
	case r.decision.Verdict == policy.Accepted:
		return statusAccepted
	}
	return statusRefused
}

func explain(ctx context.Context, o options) report {
	r := report{decision: policy.Decision{
		Policy:  o.policy,
		Request: policy.Request{Policy: o.policy, Src: o.src, Dst: o.dst},
	}}
	h, err := cm.OpenHost()
	if err != nil {
		r.unknown = noRDMA(err)
		return r
	}
	defer h.Close()
	if ports, err := h.RDMAPorts(); err != nil || len(ports) == 0 {
		r.unknown = noRDMA(err)
		r.routesOnly(h, o)
		return r
	}
	r.decide(h, &o)
	if errors.Is(r.decision.Err, policy.ErrLookup) {
		r.unknown = r.decision.Err
		return r
	}
	if o.resolve {
		r.kernel = ask(ctx, o)
		r.kernel.differs = r.compare()
	}
	return r
}

// decide asks the policy; o.bind becomes the address that a device name means.
func (r *report) decide(h policy.Host, o *options) {
	if o.device != "" {
		a, err := policy.PickLocal(h, o.device, o.dst.Addr())
		if err != nil {
			r.refuse(err)
			return
		}
		o.bind = netip.AddrPortFrom(a, 0)
	}
	var b policy.Binding
	if o.bind.IsValid() {
		var err error
		if b, err = policy.ResolveBinding(h, o.bind); err != nil {
			r.refuse(err)
			return
		}
	}
	r.decision = policy.Decide(h, policy.Request{Policy: o.policy, Binding: b, Src: o.src, Dst: o.dst})
}

// refuse records that the bind itself, before any decision, would fail.
func (r *report) refuse(err error) {
	d := &r.decision
	d.Verdict, d.Err, d.Reason = policy.Refused, err, err.Error()
	var e *policy.Error
	if errors.As(err, &e) {
		d.Reason, d.Remedy = e.Reason, e.Remedy
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

const noRDMARemedy = "load the driver of the adapter and ib_uverbs and rdma_ucm (modprobe); in a container pass /dev/infiniband; " +
	"without hardware: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV"

// routesOnly fills in what can be told without RDMA: the routes with and
// without the bound address.
func (r *report) routesOnly(h policy.Host, o options) {
	d := &r.decision
	d.Reason = r.unknown.Error()
	var none *noRDMAError
	if errors.As(r.unknown, &none) {
		d.Remedy = noRDMARemedy
	}
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
	dst := o.dst.Addr().Unmap()
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
func ask(ctx context.Context, o options) *answer {
	id, err := cm.NewID(cm.IDConfig{Policy: o.policy})
	if err != nil {
		return &answer{err: err}
	}
	defer id.Close()
	if o.bind.IsValid() {
		err = id.Bind(o.bind)
	}
	if err == nil {
		err = id.ResolveAddr(ctx, o.src, o.dst)
	}
	if err == nil {
		err = id.ResolveRoute(ctx)
	}
	return &answer{decision: id.Decision(), err: err}
}

// compare holds the kernel's answer against the decision. The same refusal is
// agreement: the library's id makes it before it asks the kernel.
func (r *report) compare() string {
	d, k := r.decision, r.kernel
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
