package ibv

import (
	"runtime"

	"github.com/railbind/railbind/cgo"
)

// SendInv makes request i a SEND of the given memory that also makes a key of the
// peer's invalid, of a memory window or region that it gave away before; see
// WC.Invalidated.
func (b *SendBatch) SendInv(i int, rkey uint32, sges ...SGE) error {
	if err := b.local("SEND with invalidate", i, cgo.WRSendInv, 0, sges); err != nil {
		return err
	}
	b.wrs[i].SetInv(rkey)
	runtime.KeepAlive(b.mem)
	return nil
}

// LocalInv makes request i one that makes a key of this side's invalid: no peer
// can use the memory window any more once it has completed.
func (b *SendBatch) LocalInv(i int, rkey uint32) error {
	if err := b.local("LOCAL INVALIDATE", i, cgo.WRLocalInv, 0, nil); err != nil {
		return err
	}
	b.wrs[i].SetInv(rkey)
	runtime.KeepAlive(b.mem)
	return nil
}

// SendImmInline makes request i a SEND of data with immediate data, given in host
// order; see SendInline.
func (b *SendBatch) SendImmInline(i int, imm uint32, data ...[]byte) error {
	if err := b.inlined("SEND with immediate", i, cgo.WRSendImm, data); err != nil {
		return err
	}
	b.SetImm(i, imm)
	return nil
}

// SendInvInline makes request i a SEND of data that also makes a key of the peer's
// invalid; see SendInv and SendInline.
func (b *SendBatch) SendInvInline(i int, rkey uint32, data ...[]byte) error {
	if err := b.inlined("SEND with invalidate", i, cgo.WRSendInv, data); err != nil {
		return err
	}
	b.wrs[i].SetInv(rkey)
	runtime.KeepAlive(b.mem)
	return nil
}

// WriteImmInline makes request i an RDMA WRITE of data to r with immediate data,
// given in host order; see WriteImm and SendInline.
func (b *SendBatch) WriteImmInline(i int, r Remote, imm uint32, data ...[]byte) error {
	if err := b.inlined("WRITE with immediate", i, cgo.WRWriteImm, data); err != nil {
		return err
	}
	b.wrs[i].SetRDMA(r.Addr, r.RKey)
	b.SetImm(i, imm)
	return nil
}

// Bind is what a memory window shows of a region: Length bytes from Offset on, with
// the rights of Access. A zero Length shows nothing: it unbinds a window of type 1.
type Bind struct {
	MR             *MR // registered with MWBind, and LocalWrite where the window lets the peer write
	Offset, Length int
	Access         Access
	// RKey is the key to be, for a window of type 2: its last byte is the
	// program's choice. Default NextRKey of the window's.
	RKey uint32
}

// BindMW makes request i one that binds a window of type 2. The peer may use the
// window's RKey, which changes when the request is posted, once it has completed.
// Neither window nor region can be closed while it is in flight. A window must be
// invalid to be bound: LocalInv it, or let the peer SendInv.
func (b *SendBatch) BindMW(i int, w *MW, v Bind) error { return b.bindMW(i, w, v, MWType2) }

func (b *SendBatch) bindMW(i int, w *MW, v Bind, typ MWType) error {
	const op = "BIND"
	if err := b.base().check(op, i); err != nil {
		return err
	}
	if w.life() == nil {
		return &Error{Op: op, Object: "nil MW", Kind: ErrClosed}
	}
	if w.typ != typ {
		return invalid(op, b.q.node.name, ErrInvalid, "the window is of %v: SendBatch binds those of type 2, QP.BindMW those of type 1", w.typ)
	}
	if err := b.local(op, i, cgo.WRBindMW, 0, nil); err != nil {
		return err
	}
	b.clear(i) // until all is known to be right
	var mr uintptr
	var addr uint64
	if v.MR != nil || v.Length != 0 {
		// The SGE holds the region, and is none of the request's.
		if err := b.setSGE(op, i, i*b.per, SGE{v.MR, v.Offset, v.Length}, MWBind); err != nil {
			b.clear(i)
			return err
		}
		mr, addr = v.MR.h.Addr(), v.MR.addr+uint64(v.Offset)
	}
	if err := b.hold(op, i, &w.held); err != nil {
		return err
	}
	b.binds = true
	b.wrs[i].SetBind(w.h.Addr(), mr, or(v.RKey, NextRKey(w.RKey())), addr, uint64(v.Length), uint32(v.Access))
	if b.windows == nil {
		b.windows = make([]*MW, b.n)
	}
	b.windows[i] = w
	b.wrs[i].Opcode = cgo.WRBindMW
	runtime.KeepAlive(b.mem)
	return nil
}

// bound notes the keys of the windows that n requests from index from on bind.
func (b *SendBatch) bound(from, n int) {
	for i := from; i < from+n; i++ {
		if b.wrs[i].Opcode == cgo.WRBindMW {
			rkey := b.wrs[i].BindRKey()
			b.windows[i].h.SetRKey(rkey)
			b.windows[i].rkey.Store(rkey)
		}
	}
}

// BindMW binds a window of type 1, which makes a new RKey of it. The call takes a
// place in the send queue and completes there with id, as flags say; the peer may
// use the key then. Completion in error leaves the window as it was, but for its
// key.
//
// Implements: int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
func (q *QP) BindMW(id uint64, flags SendFlags, w *MW, v Bind) error {
	const op = "bind memory window"
	if err := q.life().enter(op); err != nil {
		return err
	}
	defer q.node.leave()
	b, err := q.NewSendBatch(BatchConfig{})
	if err != nil {
		return err
	}
	if err := b.bindMW(0, w, v, MWType1); err != nil {
		return err
	}
	b.SetID(0, id)
	b.SetFlags(0, flags)
	if err := b.aim(op, 0, 1); err != nil {
		return err
	}
	p := cgo.BindMW(b.hdr)
	b.alive()
	if p.Why != cgo.Accepted {
		return q.postError(op, p, 1)
	}
	w.rkey.Store(w.h.RKey())
	return nil
}
