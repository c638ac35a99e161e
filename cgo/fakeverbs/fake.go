//go:build linux && cgo

package fakeverbs

/*
#cgo !rdma_dlopen pkg-config: libibverbs
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter
#include <stdlib.h>
#include <string.h>
#include "rb_fake.h"
#cgo noescape rb_fake_nop
#cgo nocallback rb_fake_nop
*/
import "C"

import (
	"syscall"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// Device is a fake device.
type Device struct{ p *C.struct_rb_fake_device }

// Open makes a device called fake0.
func Open() *Device { return &Device{C.rb_fake_open()} }

// Context and PD are the handles that package ibv takes.
func (d *Device) Context() cgo.Context { return cgo.ContextAt(unsafe.Pointer(&d.p.vctx.context)) }

// PD is the device's only protection domain.
func (d *Device) PD() cgo.PD { return cgo.PDAt(unsafe.Pointer(&d.p.pd)) }

// Free frees the device.
func (d *Device) Free() { C.rb_fake_device_free(d.p) }

// CQ is a fake completion queue.
type CQ struct{ p *C.struct_rb_fake_cq }

// NewCQ makes a CQ with room for size completions, rounded up to a power of two.
func (d *Device) NewCQ(size int) *CQ { return &CQ{C.rb_fake_cq_new(d.p, C.int(size))} }

// Handle is what package ibv takes.
func (c *CQ) Handle() cgo.CQ { return cgo.CQAt(unsafe.Pointer(&c.p.cq)) }

// FailPoll makes polling return the negative number n; 0 ends that.
func (c *CQ) FailPoll(n int) { c.p.poll_result = C.int(n) }

// FailNotify makes arming return n.
func (c *CQ) FailNotify(n syscall.Errno) { c.p.notify_result = C.int(n) }

// CompleteOnArm lets q's oldest send complete the next time the CQ is armed, just
// before it is.
func (c *CQ) CompleteOnArm(q *QP) { c.p.late = q.p }

// Armed reports whether the CQ was ever armed.
func (c *CQ) Armed() bool { return c.p.armed != 0 }

// Overrun reports whether a completion found no room.
func (c *CQ) Overrun() bool { return c.p.overrun != 0 }

// Free frees the CQ.
func (c *CQ) Free() { C.rb_fake_cq_free(c.p) }

// QP is a fake queue pair.
type QP struct{ p *C.struct_rb_fake_qp }

// NewQP makes a queue pair with room for depth requests on each queue. Sends
// complete at once, unless held.
func (d *Device) NewQP(send, recv *CQ, number uint32, depth int) *QP {
	return &QP{C.rb_fake_qp_new(d.p, send.p, recv.p, C.uint32_t(number), C.uint32_t(depth))}
}

// Handle is what package ibv takes.
func (q *QP) Handle() cgo.QP { return cgo.QPAt(unsafe.Pointer(&q.p.qp)) }

// Hold lets sends wait for Complete, or not.
func (q *QP) Hold(on bool) {
	q.p.hold = 0
	if on {
		q.p.hold = 1
	}
}

func (q *QP) queue(recv bool) *C.struct_rb_fake_queue {
	if recv {
		return &q.p.rq
	}
	return &q.p.sq
}

// Fail makes the n-th request from now on fail with errno. Silently, the
// provider does not say which request it was.
func (q *QP) Fail(recv bool, n int, errno syscall.Errno, silently bool) {
	w := q.queue(recv)
	w.fail_in, w.fail_errno, w.fail_silent = C.int64_t(n), C.int(errno), 0
	if silently {
		w.fail_silent = 1
	}
}

// Complete completes the n oldest sends or receives with a status, and returns
// how many there were. A receive carries length bytes, and imm unless it is 0.
func (q *QP) Complete(recv bool, n, status int, imm uint32, length int) int {
	r := C.int(0)
	if recv {
		r = 1
	}
	return int(C.rb_fake_complete(q.p, r, C.int(n), C.int(status), C.uint32_t(imm), C.uint32_t(length)))
}

// Request is what a work queue's ring says of a request.
type Request struct {
	Opcode, SGEs, Flags, Imm int
	RemoteAddr               uint64
	RKey                     uint32
	Addr                     [2]uint64
	Length, LKey             [2]uint32
}

// Posted is how many requests a queue took.
func (q *QP) Posted(recv bool) int { return int(q.queue(recv).posted) }

// Request returns the n-th request that the queue took.
func (q *QP) Request(recv bool, n int) Request {
	w := q.queue(recv)
	e := unsafe.Slice(w.ring, w.mask+1)[uint32(n)&uint32(w.mask)]
	r := Request{
		Opcode: int(e.op_index >> 24), SGEs: int(e.qpn_size & 0xff), Flags: int(e.flags), Imm: int(e.imm),
		RemoteAddr: uint64(e.raddr), RKey: uint32(e.rkey),
	}
	for i := range r.Addr {
		r.Addr[i], r.Length[i], r.LKey[i] = uint64(e.data[i].addr), uint32(e.data[i].length), uint32(e.data[i].lkey)
	}
	return r
}

// Free frees the queue pair.
func (q *QP) Free() { C.rb_fake_qp_free(q.p) }

// Nop is an empty crossing.
func Nop() { C.rb_fake_nop() }

// Loop is the reference in C for a batch of sends of length bytes each, prepared
// once: post, poll, rounds times.
type Loop struct {
	qp     *QP
	cq     *CQ
	wrs    []C.struct_ibv_send_wr
	sges   []C.struct_ibv_sge
	mem    unsafe.Pointer
	base   uint64
	length int
}

// NewLoop prepares the chain. The memory at base is only named.
func NewLoop(qp *QP, cq *CQ, batch int, base uint64, length int) *Loop {
	size := C.size_t(batch) * (C.sizeof_struct_ibv_send_wr + C.sizeof_struct_ibv_sge)
	l := &Loop{qp: qp, cq: cq, mem: C.aligned_alloc(64, (size+63)&^63), base: base, length: length}
	C.memset(l.mem, 0, size)
	l.wrs = unsafe.Slice((*C.struct_ibv_send_wr)(l.mem), batch)
	l.sges = unsafe.Slice((*C.struct_ibv_sge)(unsafe.Add(l.mem, batch*C.sizeof_struct_ibv_send_wr)), batch)
	for i := range l.wrs {
		w := &l.wrs[i]
		w.opcode = C.IBV_WR_SEND
		w.send_flags = C.IBV_SEND_SIGNALED
		w.sg_list = &l.sges[i]
		w.num_sge = 1
		l.sges[i].lkey = 1
		l.sges[i].addr = C.uint64_t(base)
		l.sges[i].length = C.uint32_t(length)
		if i+1 < batch {
			w.next = &l.wrs[i+1]
		}
	}
	return l
}

// Run returns the sum of the ids that came back.
func (l *Loop) Run(rounds int) uint64 {
	return uint64(C.rb_fake_loop(&l.qp.p.qp, &l.cq.p.cq, &l.wrs[0], &l.sges[0], C.uint64_t(l.base), C.uint32_t(l.length),
		C.int(len(l.wrs)), C.int(rounds)))
}

// RunList works the chain off once as a long list, in chunks, within a window.
func (l *Loop) RunList(window, chunk int) int {
	return int(C.rb_fake_run(&l.qp.p.qp, &l.cq.p.cq, &l.wrs[0], C.uint32_t(len(l.wrs)), C.uint32_t(window), C.uint32_t(chunk)))
}

// Free frees the chain.
func (l *Loop) Free() { C.free(l.mem) }
