package cm

import (
	"context"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/internal/route"
	"github.com/railbind/railbind/cm/policy"
)

// A resolve that has to wait for a neighbour's first answer takes its *whole*
// timeout on Linux: the kernel loses the wake-up. So a cold neighbour is warmed
// before: a scratch id, bound as the real one is, resolves the same address
// with short timeouts until the neighbour is known. That needs no privilege and
// asks exactly as the kernel will ask.
const (
	warmFirst = 20 * time.Millisecond
	warmMost  = 500 * time.Millisecond
)

// warmNeighbour returns nil when the neighbour is known, or when it gave up and
// the real resolve shall have the last word; an error only when ctx was
// cancelled or the id closed.
func (id *ID) warmNeighbour(ctx context.Context, d Decision, to netip.AddrPort) error {
	if !neighbourIsCold(id.host, d, to.Addr()) {
		return nil
	}
	deadline, _ := ctx.Deadline()
	for slice := warmFirst; ; slice = min(2*slice, warmMost) {
		// The last part of the time is the real resolve's, so that it is the
		// kernel's own word that the caller hears.
		if left := time.Until(deadline); left < 2*slice {
			return nil
		}
		ok, err := id.probe(ctx, to, slice)
		if err != nil || ok {
			return err
		}
	}
}

// neighbourIsCold looks the next hop up; what cannot be told counts as warm,
// because warming only saves time.
func neighbourIsCold(h *host, d Decision, dst netip.Addr) bool {
	if d.Effective.Kind != policy.RouteUnicast {
		return false
	}
	hops := d.Effective.Hops
	if len(hops) == 0 {
		hops = d.FIB.Hops
	}
	if len(hops) == 0 {
		hops = []policy.Hop{{Ifindex: d.Effective.Ifindex, Gateway: d.Effective.Gateway}}
	}
	for _, hop := range hops {
		next := hop.Gateway
		if !next.IsValid() {
			next = dst
		}
		if n, err := h.Neighbour(hop.Ifindex, next); err == nil && n.State != route.NeighbourValid {
			return true
		}
	}
	return false
}

// probe resolves to on a scratch id within slice; ok means that the neighbour
// answered.
func (id *ID) probe(ctx context.Context, to netip.AddrPort, slice time.Duration) (ok bool, err error) {
	id.mu.Lock()
	if id.closing {
		id.mu.Unlock()
		return false, ErrClosed
	}
	id.acks.Add(1) // whoever closes the id waits for its scratch id
	id.mu.Unlock()
	defer id.acks.Done()
	s, err := id.scratch()
	if err != nil {
		return false, nil // the real resolve will tell
	}
	defer s.Close()
	if b := id.Binding(); b.State == policy.BoundDevice {
		from := netip.AddrPortFrom(b.Addr.Addr(), 0)
		if err := s.call(func(h cgo.ID) error { return h.Bind(cgo.ToSockAddr(from)) }); err != nil {
			return true, nil
		}
	}
	// A lost wake-up makes the kernel answer at its timeout; ours is far behind
	// it, and only bounds a kernel that does not answer at all.
	type result struct {
		ev  cgo.Event
		err error
	}
	done := make(chan result, 1)
	go func() {
		ev, err := s.await(ctx, "warm neighbour", slice+5*time.Second, func(h cgo.ID, _ time.Duration) error {
			return h.ResolveAddr(cgo.SockAddr{}, cgo.ToSockAddr(to), millis(slice))
		})
		done <- result{ev, err}
	}()
	select {
	case r := <-done:
		if ctx.Err() != nil {
			return false, &TimeoutError{Phase: "resolve address", cause: ctx.Err()}
		}
		if r.err != nil {
			return true, nil // an immediate refusal: the real resolve will repeat it
		}
		return r.ev.Type == cgo.EventAddrResolved, nil
	case <-id.over:
		return false, id.Err()
	}
}

// scratch makes an id beside id, on the same channel and in the same network
// namespace, or fails: the kernel takes the namespace from the OS thread, and
// this goroutine may be on a thread of another one.
func (id *ID) scratch() (*ID, error) {
	s, err := NewID(IDConfig{Channel: id.ch})
	if err != nil {
		return nil, err
	}
	if s.host.ns != id.host.ns {
		s.Close()
		return nil, ErrState
	}
	return s, nil
}
