//go:build linux && cgo

package cgo

// #include <errno.h>
// #include <stdlib.h>
// #include "rb_queues.h"
// #include "rb_srq.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// SRQ is a shared receive queue; the zero value is none.
type SRQ struct{ p *C.struct_ibv_srq }

// IsNil reports whether the handle names no object.
func (h SRQ) IsNil() bool { return h.p == nil }

// XRCD is a domain of extended reliable connections; the zero value is none.
type XRCD struct{ p *C.struct_ibv_xrcd }

// IsNil reports whether the handle names no object.
func (h XRCD) IsNil() bool { return h.p == nil }

func (a *SRQAttr) toC() C.struct_ibv_srq_attr {
	return C.struct_ibv_srq_attr{
		max_wr: C.uint32_t(a.MaxWR), max_sge: C.uint32_t(a.MaxSGE), srq_limit: C.uint32_t(a.Limit),
	}
}

func srqAttr(c *C.struct_ibv_srq_attr) SRQAttr {
	return SRQAttr{MaxWR: uint32(c.max_wr), MaxSGE: uint32(c.max_sge), Limit: uint32(c.srq_limit)}
}

// CreateSRQ creates a shared receive queue and writes what was granted into a.
//
// Implements: struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
func (p PD) CreateSRQ(a *SRQAttr) (SRQ, error) {
	enter()
	defer leave()
	init := C.struct_ibv_srq_init_attr{attr: a.toC()}
	r := C.rb_create_srq(p.p, &init)
	*a = srqAttr(&init.attr)
	return SRQ{r.p}, check("ibv_create_srq", int(r.err))
}

// ex is a in the form of C.
func (a *SRQInitAttr) ex(p PD) C.struct_ibv_srq_init_attr_ex {
	init := C.struct_ibv_srq_init_attr_ex{
		attr:      a.Attr.toC(),
		comp_mask: C.IBV_SRQ_INIT_ATTR_TYPE | C.IBV_SRQ_INIT_ATTR_PD,
		srq_type:  a.Type,
		pd:        p.p,
		xrcd:      a.XRCD.p,
		cq:        a.CQ.p,
		tm_cap:    C.struct_ibv_tm_cap{max_num_tags: C.uint32_t(a.MaxTags), max_ops: C.uint32_t(a.MaxOps)},
	}
	if a.XRCD.p != nil {
		init.comp_mask |= C.IBV_SRQ_INIT_ATTR_XRCD
	}
	if a.CQ.p != nil {
		init.comp_mask |= C.IBV_SRQ_INIT_ATTR_CQ
	}
	if a.MaxTags != 0 {
		init.comp_mask |= C.IBV_SRQ_INIT_ATTR_TM
	}
	return init
}

// CreateSRQEx creates a shared receive queue of any type.
//
// Implements: struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *srq_init_attr_ex)
func (p PD) CreateSRQEx(a *SRQInitAttr) (SRQ, error) {
	enter()
	defer leave()
	init := a.ex(p)
	r := C.rb_create_srq_ex(p.p.context, &init)
	a.Attr = srqAttr(&init.attr)
	return SRQ{r.p}, check("ibv_create_srq_ex", int(r.err))
}

// Modify changes what mask names (SRQMaxWR, SRQLimit).
//
// Implements: int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
func (h SRQ) Modify(a *SRQAttr, mask uint32) error {
	enter()
	defer leave()
	c := a.toC()
	err := check("ibv_modify_srq", int(C.rb_modify_srq(h.p, &c, C.int(mask))))
	*a = srqAttr(&c)
	return err
}

// Query asks for the queue's size and limit.
//
// Implements: int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
func (h SRQ) Query() (SRQAttr, error) {
	enter()
	defer leave()
	var c C.struct_ibv_srq_attr
	err := check("ibv_query_srq", int(C.rb_query_srq(h.p, &c)))
	return srqAttr(&c), err
}

// Number returns the number by which an XRC initiator names the queue.
//
// Implements: int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
func (h SRQ) Number() (uint32, error) {
	enter()
	defer leave()
	n := int64(C.rb_get_srq_num(h.p))
	return uint32(n), check("ibv_get_srq_num", int(n))
}

// Destroy destroys a shared receive queue that no queue pair uses.
//
// Implements: int ibv_destroy_srq(struct ibv_srq *srq)
func (h SRQ) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_srq", int(C.rb_destroy_srq(h.p)))
}

// OpenXRCD opens a domain; processes that give the same file share it. A
// negative fd makes one of the process's own.
//
// Implements: struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *xrcd_init_attr)
func (h Context) OpenXRCD(fd, flags int) (XRCD, error) {
	enter()
	defer leave()
	a := C.struct_ibv_xrcd_init_attr{
		comp_mask: C.IBV_XRCD_INIT_ATTR_FD | C.IBV_XRCD_INIT_ATTR_OFLAGS,
		fd:        C.int(fd), oflags: C.int(flags),
	}
	r := C.rb_open_xrcd(h.p, &a)
	return XRCD{r.p}, check("ibv_open_xrcd", int(r.err))
}

// Close closes a domain that nothing uses.
//
// Implements: int ibv_close_xrcd(struct ibv_xrcd *xrcd)
func (h XRCD) Close() error {
	enter()
	defer leave()
	return check("ibv_close_xrcd", int(C.rb_close_xrcd(h.p)))
}

// SRQRecord is what the fast path keeps of a shared receive queue. Safe for
// concurrent use.
type SRQRecord struct{ p *C.struct_rb_srq }

// NewSRQRecord makes the record of h.
func NewSRQRecord(h SRQ) (*SRQRecord, error) {
	p := C.rb_srq_new(h.p)
	if p == nil {
		return nil, check("malloc", -int(C.ENOMEM))
	}
	r := &SRQRecord{p}
	runtime.AddCleanup(r, func(p *C.struct_rb_srq) { C.free(unsafe.Pointer(p)) }, p)
	return r, nil
}

// Shut lets no further post reach the queue and waits for those that do.
func (r *SRQRecord) Shut() { C.rb_srq_close(r.p, C.RB_SHUT) }

// Reopen undoes Shut.
func (r *SRQRecord) Reopen() { C.rb_srq_close(r.p, 0) }

// Gone tells that the queue was destroyed.
func (r *SRQRecord) Gone() { C.rb_srq_close(r.p, C.RB_GONE) }

// Left returns how many receives are posted and not known to be complete.
func (r *SRQRecord) Left() uint64 { return uint64(C.rb_srq_left(r.p)) }

// Addr is the record's address, for Batch.QP.
func (r *SRQRecord) Addr() uintptr { return uintptr(unsafe.Pointer(r.p)) }

// NewSRQUseRecord makes the record of r's use of one memory region.
func NewSRQUseRecord(r *SRQRecord) (*UseRecord, error) {
	u, err := newUseRecord()
	if err == nil {
		u.srq = r
	}
	return u, err
}

// SetSRQ tells that the queue pair's receives come from r.
func (r *QPRecord) SetSRQ(s *SRQRecord) {
	r.srq = s
	r.p.srq = s.p
}

// PostSRQ posts a batch of receives to a shared receive queue.
//
// Implements: int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr, struct ibv_recv_wr **bad_recv_wr)
func PostSRQ(b *Batch) Posted {
	return posted(C.rb_post_srq(C.uintptr_t(uintptr(unsafe.Pointer(b)))))
}

// PostPollSRQ is PostSRQ and then r's Poll in one crossing; see PostPollSend.
func PostPollSRQ(b *Batch, r *CQRecord, wc *WC, n int) Posted {
	p := C.rb_post_poll_srq(C.uintptr_t(uintptr(unsafe.Pointer(b))), C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(n),
		(*C.struct_ibv_wc)(unsafe.Pointer(wc)))
	runtime.KeepAlive(r)
	return posted(p)
}
