package cm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/internal/route"
	"github.com/railbind/railbind/cm/policy"
)

// resolveCalls counts the rdma_resolve_addr calls made for ids (not those of
// warming a neighbour): tests prove by it that a refusal came before the kernel.
var resolveCalls atomic.Int64

// ResolveAddr finds the device and the neighbour for dst, under the id's
// policy. A src that is given binds an idle id to it first; on a bound id it
// must equal the binding. What the rule refuses is refused before the kernel is
// asked, and the id stays as it was; a failure after that poisons it.
//
// Decision gives the whole verdict afterwards, accepted or refused.
//
// Errors: those of the binding rule (a *PolicyError inside), ErrPoisoned,
// ErrState, a *TimeoutError, the kernel's errno.
//
// Implements: int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms)
func (id *ID) ResolveAddr(ctx context.Context, src, dst netip.AddrPort) error {
	const op = "resolve address"
	if err := id.begin(op, StateIdle, StateBoundWildcard, StateBoundDevice); err != nil {
		return err
	}
	defer id.step.Unlock()
	began := time.Now()
	if ctx.Err() != nil {
		return id.fail(op, id.timedOut(ctx, op, began))
	}

	since := id.host.Mark()
	d := policy.Decide(id.host, policy.Request{
		Policy:             id.cfg.Policy,
		Binding:            id.Binding(),
		Src:                src,
		Dst:                dst,
		PortSpace:          id.cfg.PortSpace.policy(),
		AllowLocalCrossing: id.cfg.AllowLocalCrossing,
		RequireOnLinkRoute: id.cfg.RequireOnLinkRoute,
	})
	id.decide(d, since)
	if d.Err != nil {
		return id.refuse(op, src, dst, d.Err)
	}
	id.at("decided")
	if d.Bind {
		if err := id.bind(src); err != nil {
			return err
		}
		d.Binding = id.Binding()
		id.decide(d, since)
	}
	to, err := kernelAddr(id.host, dst)
	if err != nil {
		return id.refuse(op, src, dst, err)
	}
	id.mu.Lock()
	id.info.Peer = to
	before, over := id.state, id.overErr
	if over == nil {
		id.state = StateResolving
	}
	id.mu.Unlock()
	if over != nil { // closed or removed since the step began
		return id.fail(op, over)
	}

	ctx, cancel := context.WithTimeout(ctx, id.cfg.Timeouts.ResolveAddr)
	defer cancel()
	if err := id.warmNeighbour(ctx, d, to); err != nil {
		id.restore(before)
		return id.fail(op, err)
	}
	ev, err := id.await(ctx, op, id.cfg.Timeouts.ResolveAddr, func(h cgo.ID, left time.Duration) error {
		resolveCalls.Add(1)
		return h.ResolveAddr(cgo.SockAddr{}, cgo.ToSockAddr(to), millis(left))
	})
	if err == nil {
		err = eventError(&ev, cgo.EventAddrResolved)
	}
	id.at("address resolved")
	if late := (*TimeoutError)(nil); errors.As(err, &late) {
		late.After = time.Since(began)
	}
	if errors.Is(err, errNotAsked) {
		id.restore(before)
		return id.fail(op, explainResolve(d, to, err))
	}
	if err != nil {
		return id.poison(op, id.explain(d, since, explainResolve(d, to, err)))
	}
	if err := id.setInfo(ev.Info); err != nil {
		return id.poison(op, err)
	}
	d, err = policy.CheckResolved(id.host, d, id.kernelView(ev.Info))
	if err == nil && d.Policy != FollowRoute { // which is where the kernel says it is
		err = policy.CheckUnchanged(d, id.host.Since(since))
	}
	id.decide(d, since)
	if err != nil {
		return id.poison(op, err)
	}
	id.setBinding(d.Binding)
	if err := id.advance(op, StateResolving, StateAddrResolved); err != nil {
		return err
	}
	id.accepted(d)
	return nil
}

// ResolveRoute finds the path to the resolved address and checks that it leaves
// through the promised device.
//
// Implements: int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
func (id *ID) ResolveRoute(ctx context.Context) error {
	const op = "resolve route"
	if err := id.begin(op, StateAddrResolved); err != nil {
		return err
	}
	defer id.step.Unlock()
	if ctx.Err() != nil {
		return id.fail(op, id.timedOut(ctx, op, time.Now()))
	}
	since := id.host.Mark()
	id.at("before the route")
	ev, err := id.await(ctx, op, id.cfg.Timeouts.ResolveRoute, func(h cgo.ID, left time.Duration) error {
		return h.ResolveRoute(millis(left))
	})
	if err == nil {
		err = eventError(&ev, cgo.EventRouteResolved)
	}
	if err == nil {
		err = id.setInfo(ev.Info)
	}
	id.at("route resolved")
	if err == nil {
		err = policy.CheckRouted(id.host, id.Decision(), id.kernelView(ev.Info))
	}
	if err != nil {
		return id.poison(op, id.explain(id.Decision(), since, err))
	}
	return id.advance(op, StateAddrResolved, StateRouteResolved)
}

// refuse is an error before the kernel was asked: the id stays as it was.
func (id *ID) refuse(op string, src, dst netip.AddrPort, err error) error {
	e := &OpError{Op: op, Local: src, Remote: dst, Err: err}
	if b := id.Binding(); b.Addr.IsValid() {
		e.Local, e.Device = b.Addr, b.Device
	}
	id.refused(e)
	return e
}

// decide keeps a decision that was made of look-ups after since.
func (id *ID) decide(d Decision, since route.Mark) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.decision, id.decided = d, since
}

func (id *ID) setBinding(b Binding) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.bound(b)
}

// bound records a binding; one that was there already keeps its time. id.mu is
// held.
func (id *ID) bound(b Binding) {
	if b.Since = id.binding.Since; id.binding.State != b.State {
		b.Since = time.Now()
	}
	id.binding = b
}

// advance moves the id on, unless it was closed or lost meanwhile.
func (id *ID) advance(op string, from, to State) error {
	id.mu.Lock()
	if id.state == from {
		id.state = to
		id.mu.Unlock()
		return nil
	}
	err := id.overErr
	id.mu.Unlock()
	if err == nil {
		err = ErrState
	}
	return id.fail(op, err)
}

// restore takes a step back that has not reached the kernel.
func (id *ID) restore(to State) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == StateResolving {
		id.state = to
	}
}

// explainResolve adds to a timeout what the decision knows about its cause.
func explainResolve(d Decision, to netip.AddrPort, err error) error {
	if !errors.Is(err, syscall.ETIMEDOUT) || d.Effective.Kind != policy.RouteUnicast {
		return err
	}
	if !d.AssumedOnLink {
		who := to.Addr().String()
		if gw := d.Effective.Gateway; gw.IsValid() {
			who = fmt.Sprintf("the gateway %s to %s", gw, who)
		}
		// What is unbound has the route's netdev only.
		return fmt.Errorf("%w; %s did not answer neighbour discovery on %s", err, who, cmp.Or(d.Binding.Netdev, d.Effective.Netdev))
	}
	return fmt.Errorf("%w; bound to %s (ifindex %d): no route to %s leads through it, so the kernel assumed the address to be on that link, and nobody answered there; if it is behind a gateway, add a route through %s (ip route add %s via GATEWAY dev %s)",
		err, d.Binding.Netdev, d.Binding.Ifindex, to.Addr(), d.Binding.Netdev, to.Addr(), d.Binding.Netdev)
}

// explain adds to a failed step's error what has changed since the mark, and
// what the rule says now. A refusal says so itself, but for the split that an MTU
// shows: the MTU may have come and gone.
func (id *ID) explain(d Decision, since route.Mark, err error) error {
	var refusal *PolicyError
	if errors.As(err, &refusal) && !errors.Is(err, ErrDeviceSplit) || errors.Is(err, ErrClosed) {
		return err
	}
	if why := policy.Explain(id.host, d, id.host.Since(since)); why != nil {
		return fmt.Errorf("%w; %w", err, why)
	}
	return err
}

// millis is a timeout as librdmacm takes it: at least 1 ms.
func millis(d time.Duration) int {
	return int(min(max((d+time.Millisecond-1)/time.Millisecond, 1), math.MaxInt32))
}
