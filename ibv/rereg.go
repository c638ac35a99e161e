package ibv

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// Change is what Reregister changes of a region.
type Change struct {
	PD     *PD     // its protection domain; nil: none
	Bytes  []byte  // its memory, a Go slice, which is pinned; nil: none
	Buffer *Buffer // its memory, a Buffer; nil: none

	Access    Access // its rights, with SetAccess
	SetAccess bool
}

// What a failed re-registration left, enum ibv_rereg_mr_err_code.
const (
	reregDone    = 0
	reregInput   = -1 // the region is as it was
	reregForkNew = -2 // the region is as it was
	reregForkOld = -3 // it is the new one
	reregMemory  = 1 << 0
	reregPD      = 1 << 1
	reregAccess  = 1 << 2
)

// Reregister changes a region, faster than a new registration where the provider
// knows how to. On success m is closed, and the region that it was turned into
// is returned, with keys that may be others. On an error m stays as it was,
// unless the kernel could not keep it: then m is closed too. It refuses with
// ErrBusy while a request that uses the region is in flight. Where provider or
// kernel cannot, the error matches errors.ErrUnsupported.
//
// Implements: int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
func (m *MR) Reregister(c Change) (*MR, error) {
	const op = "re-register memory"
	if err := m.life().enter(op); err != nil {
		return nil, err
	}
	m.node.leave()
	r, flags := m.region, uint32(0)
	pd, parents := m.pd, []*node(nil)
	if c.PD != nil {
		pd, flags = c.PD, flags|reregPD
	}
	if err := pd.life().enter(op); err != nil {
		return nil, err
	}
	defer pd.node.leave()
	if err := sameContext(op, m.node.name, m.pd.ctx, pd.ctx); err != nil {
		return nil, err
	}
	undo := func() {}
	switch {
	case c.Buffer != nil && c.Bytes != nil:
		return nil, invalid(op, m.node.name, ErrInvalid, "both a slice and a Buffer")
	case c.Buffer != nil:
		if err := c.Buffer.life().enter(op); err != nil {
			return nil, err
		}
		defer c.Buffer.node.leave()
		r.mem, r.free, parents = c.Buffer.mem, nil, []*node{c.Buffer.node}
		flags |= reregMemory
	case len(c.Bytes) > 0:
		pin := new(runtime.Pinner)
		pin.Pin(unsafe.SliceData(c.Bytes))
		undo = pin.Unpin
		r.mem, r.free = c.Bytes, func() error { pin.Unpin(); return nil }
		flags |= reregMemory
	default: // the memory goes over, and what it hangs on
		for _, p := range m.node.parents {
			if p != m.pd.node {
				parents = append(parents, p)
			}
		}
	}
	if flags&reregMemory != 0 {
		r.size, r.addr = len(r.mem), uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.mem))))
	}
	if c.SetAccess {
		r.access, flags = c.Access.full(), flags|reregAccess
	}
	if flags == 0 {
		return nil, invalid(op, m.node.name, ErrInvalid, "nothing to change")
	}
	next, err := m.turn(op, flags, pd, r, parents)
	if err != nil && next == nil {
		undo()
	}
	return next, err
}

// turn closes m and makes of it a region of r.
func (m *MR) turn(op string, flags uint32, pd *PD, r region, parents []*node) (next *MR, err error) {
	var failed error
	closed := m.node.close(func() error {
		var code int
		err := m.closeWith(op, func() error {
			var err error
			r.lkey, r.rkey, code, err = m.reregister(flags, pd, r)
			if code == reregInput || code == reregForkNew || errors.Is(err, errors.ErrUnsupported) {
				return err // libibverbs cannot tell that nobody has touched it
			}
			failed = err
			return nil
		})
		if err != nil {
			return err
		}
		old := m.free
		if code == reregDone || code == reregForkOld {
			next = makeMR(pd, r, parents...)
			if flags&reregMemory == 0 {
				old = nil
			}
		} else if err := m.destroy(); err != nil {
			failed = err
		}
		if old != nil {
			return old()
		}
		return nil
	})
	if closed != nil {
		return nil, closed
	}
	switch {
	case failed != nil:
		failed = fail(op, m.node.name, failed)
	case next == nil: // somebody else closed it meanwhile
		failed = &Error{Op: op, Object: m.node.name, Kind: ErrClosed}
	}
	return next, failed
}

// reregister is the call below, which no software provider has.
func (m *MR) reregister(flags uint32, pd *PD, r region) (lkey, rkey uint32, code int, err error) {
	if m.pd.ctx.fakeRereg != nil {
		return m.pd.ctx.fakeRereg(flags, r)
	}
	var to cgo.PD
	if flags&reregPD != 0 {
		to = pd.h
	}
	return m.h.Rereg(flags, to, uintptr(r.addr), uintptr(r.size), uint32(r.access))
}
