//go:build linux && cgo

package cgo

// #include <errno.h>
// #include <stdlib.h>
// #include <string.h>
// #include "rb_fast.h"
// #include "rb_srq.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// QPRecord is what the fast path keeps of a queue pair in C memory: its lock,
// its state, and the accounts of what was posted and completed. It outlives the
// queue pair; its memory goes when nothing in Go can reach it. Safe for
// concurrent use.
type QPRecord struct {
	p   *C.struct_rb_qp
	scq *CQRecord
	rcq *CQRecord
	srq *SRQRecord
}

// NewQPRecord makes the record of qp and enters it with its CQs. A record that
// was not shut must be kept reachable: the CQs point to it.
func NewQPRecord(qp QP, send, recv *CQRecord, sendCap, recvCap uint32) (*QPRecord, error) {
	p := C.rb_qp_new(qp.p, send.ptr(), recv.ptr(), C.uint32_t(sendCap), C.uint32_t(recvCap))
	if p == nil {
		return nil, check("malloc", -int(C.ENOMEM))
	}
	r := &QPRecord{p: p, scq: send, rcq: recv}
	runtime.AddCleanup(r, func(p *C.struct_rb_qp) { C.rb_qp_free(p) }, p)
	return r, nil
}

// Shut lets no further post or poll reach the queue pair and waits for those
// that do.
func (r *QPRecord) Shut() { C.rb_qp_shut(r.p) }

// Reopen undoes Shut, where the queue pair could not be destroyed.
func (r *QPRecord) Reopen() error {
	return check("malloc", int(C.rb_qp_reopen(r.p)))
}

// Gone tells that the queue pair was destroyed: the device uses no memory for
// it any more.
func (r *QPRecord) Gone() { C.rb_qp_gone(r.p) }

// Reset tells that the queue pair went to RESET, where whatever was posted is
// forgotten.
func (r *QPRecord) Reset() { C.rb_qp_reset(r.p) }

// State returns the state that was last set, or the error state once a
// completion in error was polled.
func (r *QPRecord) State() uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.p.state)))
}

// SetState notes the state that the queue pair was moved to.
func (r *QPRecord) SetState(s uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.p.state)), s)
}

// SetReadDepth notes how many READs and atomics this side may start.
func (r *QPRecord) SetReadDepth(n uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.p.read_depth)), n)
}

// ReadDepth returns what SetReadDepth set.
func (r *QPRecord) ReadDepth() uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.p.read_depth)))
}

// Addr is the record's address, for Batch.QP.
func (r *QPRecord) Addr() uintptr { return uintptr(unsafe.Pointer(r.p)) }

// CQRecord is the same for a completion queue.
type CQRecord struct{ p *C.struct_rb_cq }

func (r *CQRecord) ptr() *C.struct_rb_cq {
	if r == nil {
		return nil
	}
	return r.p
}

// NewCQRecord makes the record of cq.
func NewCQRecord(cq CQ) (*CQRecord, error) {
	p := C.rb_cq_new(cq.p)
	if p == nil {
		return nil, check("malloc", -int(C.ENOMEM))
	}
	r := &CQRecord{p}
	runtime.AddCleanup(r, func(p *C.struct_rb_cq) { C.rb_cq_free(p) }, p)
	return r, nil
}

// Shut lets no further poll reach the completion queue and waits for those that
// do.
func (r *CQRecord) Shut() { C.rb_cq_shut(r.p) }

// Reopen undoes Shut.
func (r *CQRecord) Reopen() { C.rb_cq_reopen(r.p) }

// UseRecord says up to where a queue pair's requests use a memory region.
type UseRecord struct {
	p   *C.struct_rb_use
	qp  *QPRecord
	srq *SRQRecord // instead of qp
}

// NewUseRecord makes the record of qp's use of one memory region.
func NewUseRecord(qp *QPRecord) (*UseRecord, error) {
	u, err := newUseRecord()
	if err == nil {
		u.qp = qp
	}
	return u, err
}

func newUseRecord() (*UseRecord, error) {
	p := (*C.struct_rb_use)(C.calloc(1, C.sizeof_struct_rb_use))
	if p == nil {
		return nil, check("malloc", -int(C.ENOMEM))
	}
	r := &UseRecord{p: p}
	runtime.AddCleanup(r, func(p *C.struct_rb_use) { C.free(unsafe.Pointer(p)) }, p)
	return r, nil
}

// SetClosed refuses, or allows again, posts that use the region.
func (r *UseRecord) SetClosed(closed bool) {
	c := C.int(0)
	if closed {
		c = 1
	}
	if r.srq != nil {
		C.rb_srq_use_close(r.srq.p, r.p, c)
		return
	}
	C.rb_use_close(r.qp.p, r.p, c)
}

// Busy reports whether a request that uses the region may be in flight.
func (r *UseRecord) Busy() bool {
	if r.srq != nil {
		return C.rb_srq_use_busy(r.srq.p, r.p) != 0
	}
	return C.rb_use_busy(r.qp.p, r.p) != 0
}

// Addr is the record's address, for BatchUse.Use.
func (r *UseRecord) Addr() uintptr { return uintptr(unsafe.Pointer(r.p)) }

// Alloc returns n zeroed bytes of C memory, aligned to a cache line. The memory
// goes when the returned Memory cannot be reached any more, which is soon
// enough for what only the processor reads (work requests, until they are
// posted) and never right for what a device does.
func Alloc(n int) (*Memory, error) {
	size := (C.size_t(n) + 63) &^ 63
	p := C.aligned_alloc(64, size)
	if p == nil {
		return nil, check("malloc", -int(C.ENOMEM))
	}
	C.memset(p, 0, size)
	m := &Memory{p}
	runtime.AddCleanup(m, func(p unsafe.Pointer) { C.free(p) }, p)
	return m, nil
}

// Memory is C memory that Alloc gave.
type Memory struct{ p unsafe.Pointer }

// Pointer is its first byte.
func (m *Memory) Pointer() unsafe.Pointer { return m.p }

// PostSend posts a batch whose records the caller keeps reachable.
//
// Implements: int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
func PostSend(b *Batch) Posted {
	return posted(C.rb_post_send(C.uintptr_t(uintptr(unsafe.Pointer(b)))))
}

// PostRecv posts a batch of receives.
//
// Implements: int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
func PostRecv(b *Batch) Posted {
	return posted(C.rb_post_recv(C.uintptr_t(uintptr(unsafe.Pointer(b)))))
}

// Start checks that the run may begin: EBADF where the queue pair is closed,
// EINVAL where its send CQ serves others too, EBUSY where completions are due.
func (r *Run) Start() int { return int(C.rb_run_start(C.uintptr_t(uintptr(unsafe.Pointer(r))))) }

// Step posts and polls until the list is done or there is reason to return; see
// RunDone. The caller keeps the records reachable.
func (r *Run) Step(spin uint64, arm bool) int {
	a := C.int(0)
	if arm {
		a = 1
	}
	return int(C.rb_run_step(C.uintptr_t(uintptr(unsafe.Pointer(r))), C.uint64_t(spin), a))
}

// Outcome is the outcome of the post that failed, if one did.
func (r *Run) Outcome() Posted { return posted(C.rb_posted(r.Refused)) }

// PostPollSend is PostSend and then r's Poll in one crossing; what Poll returns
// is in b.Polled.
func PostPollSend(b *Batch, r *CQRecord, wc *WC, n int) Posted {
	p := C.rb_post_poll_send(C.uintptr_t(uintptr(unsafe.Pointer(b))), C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(n),
		(*C.struct_ibv_wc)(unsafe.Pointer(wc)))
	runtime.KeepAlive(r)
	return posted(p)
}

// PostPollRecv is the same for receives.
func PostPollRecv(b *Batch, r *CQRecord, wc *WC, n int) Posted {
	p := C.rb_post_poll_recv(C.uintptr_t(uintptr(unsafe.Pointer(b))), C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(n),
		(*C.struct_ibv_wc)(unsafe.Pointer(wc)))
	runtime.KeepAlive(r)
	return posted(p)
}

func posted(r C.rb_posted) Posted {
	return Posted{Accepted: uint32(r), Why: Refusal(r >> 32 & 0xffff), Errno: int32(r >> 48)}
}

// Poll takes up to n completions off the queue, into the array at wc. It
// returns how many, or a negative errno: EBADF once the record is shut, EIO
// where the provider failed.
//
// Implements: int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
func (r *CQRecord) Poll(wc *WC, n int) int {
	k := int(C.rb_poll(C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(n), (*C.struct_ibv_wc)(unsafe.Pointer(wc))))
	runtime.KeepAlive(r)
	return k
}

// PollArm is Poll; where it finds nothing it arms the queue's notification and
// polls again. Only after 0 may the caller sleep until the event.
//
// Implements: int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
func (r *CQRecord) PollArm(wc *WC, n int, solicited bool) int {
	s := C.int(0)
	if solicited {
		s = 1
	}
	k := int(C.rb_poll_arm(C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(n), (*C.struct_ibv_wc)(unsafe.Pointer(wc)), s))
	runtime.KeepAlive(r)
	return k
}

// PollSpin is Poll that looks again until want completions are there or one of
// them failed, for up to spin nanoseconds; took is how long it did, 0 where all was
// there at once.
func (r *CQRecord) PollSpin(wc *WC, n, want int, spin uint64) (k int, took uint64) {
	var ns C.uint64_t
	k = int(C.rb_poll_spin(C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(n), (*C.struct_ibv_wc)(unsafe.Pointer(wc)),
		C.int(want), C.uint64_t(spin), &ns))
	runtime.KeepAlive(r)
	return k, uint64(ns)
}
