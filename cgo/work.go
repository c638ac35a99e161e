//go:build linux && cgo

package cgo

/*
#include <stddef.h>
#include "rb_fast.h"

_Static_assert(offsetof(struct ibv_send_wr, tso.hdr) == offsetof(struct ibv_send_wr, bind_mw) &&
	offsetof(struct ibv_send_wr, tso.hdr_sz) == offsetof(struct ibv_send_wr, bind_mw) + 8 &&
	offsetof(struct ibv_send_wr, tso.mss) == offsetof(struct ibv_send_wr, bind_mw) + 10, "tso");
_Static_assert((int)IBV_WR_TSO == 10 && (int)IBV_WR_ATOMIC_WRITE == 15, "opcodes");
*/
import "C"

import "unsafe"

// Addr is the region's address, for SendWR.SetBind.
func (m MR) Addr() uintptr { return uintptr(unsafe.Pointer(m.p)) }

// Addr is the window's address, for SendWR.SetBind.
func (w MW) Addr() uintptr { return uintptr(unsafe.Pointer(w.p)) }

// SetRKey notes the key that a window of type 2 was bound with, where the
// provider reads it.
func (w MW) SetRKey(rkey uint32) { w.p.rkey = C.uint32_t(rkey) }

// SetRXE tells that the queue is Soft-RoCE's, whose completions need a correction.
func (r *CQRecord) SetRXE() { r.p.rxe = 1 }

// BindMW posts a batch of one request, which binds a window of type 1.
//
// Implements: int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
func BindMW(b *Batch) Posted {
	return posted(C.rb_bind_mw(C.uintptr_t(uintptr(unsafe.Pointer(b)))))
}
