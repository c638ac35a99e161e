package ibv

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// MWType is a kind of memory window.
type MWType uint32

// Memory windows. Type 1 is bound by a call of its queue pair's and named by a
// new key each time; type 2 by a request, whose rkey the program chooses, and
// may be invalidated, also by the peer.
const (
	MWType1 MWType = 1
	MWType2 MWType = 2
)

func (t MWType) String() string {
	return name("MWType", map[MWType]string{MWType1: "type 1", MWType2: "type 2"}, t)
}

// MW is a memory window: a piece of a region, with rights and a key of its own,
// that is opened to a peer and closed again without a registration. Safe for
// concurrent use.
type MW struct {
	held
	h       cgo.MW
	typ     MWType
	rkey    atomic.Uint32
	destroy func() error
}

func (w *MW) life() *node {
	if w == nil {
		return nil
	}
	return w.node
}

// AllocMW makes a memory window, which is bound to no region yet. Where the
// device has no windows of the type, the error matches errors.ErrUnsupported.
//
// Implements: struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
func (p *PD) AllocMW(t MWType) (*MW, error) {
	const op = "allocate memory window"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	if t != MWType1 && t != MWType2 {
		return nil, invalid(op, p.node.name, ErrInvalid, "%v", t)
	}
	h, err := p.h.AllocMW(uint32(t))
	if err != nil {
		return nil, p.limitError(op, err, "memory windows", func(a *DeviceAttr) int { return a.MaxMW })
	}
	n := newNode(fmt.Sprintf("memory window (%v, rkey %#x) on %s", t, h.RKey(), p.ctx.name), nil, p.node)
	w := &MW{held: newHeld(n, p), h: h, typ: t, destroy: h.Dealloc}
	w.rkey.Store(h.RKey())
	return watch(w, n), nil
}

// limitError adds to ENOMEM how many of a kind the device has.
func (p *PD) limitError(op string, err error, kind string, most func(*DeviceAttr) int) error {
	if lim, lerr := p.ctx.known(); lerr == nil && errors.Is(err, syscall.ENOMEM) {
		return &Error{Op: op, Object: p.node.name, Err: err, Hint: fmt.Sprintf("the device has %d %s", most(&lim.dev), kind)}
	}
	return fail(op, p.node.name, err)
}

// Type is the window's type.
func (w *MW) Type() MWType {
	if w == nil {
		return 0
	}
	return w.typ
}

// RKey is the window's key as of the last bind that was posted. A peer may use
// it once the bind has completed.
func (w *MW) RKey() uint32 {
	if w == nil {
		return 0
	}
	return w.rkey.Load()
}

// NextRKey is the key to bind a window of type 2 with next: the same window, and
// another tag in the lowest byte.
//
// Implements: uint32_t ibv_inc_rkey(uint32_t rkey)
func NextRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// Close frees the window, which ends what the peer may do through it. It refuses
// with ErrBusy while a bind is in flight.
//
// Implements: int ibv_dealloc_mw(struct ibv_mw *mw)
func (w *MW) Close() error {
	return w.life().close(func() error { return w.closeWith("free memory window", w.destroy) })
}
