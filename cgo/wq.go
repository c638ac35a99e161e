//go:build linux && cgo

package cgo

// #include <errno.h>
// #include <stdlib.h>
// #include "rb_wq.h"
import "C"

import (
	"runtime"
	"unsafe"
)

type (
	// WQ is a receive queue that hashing spreads frames over; the zero value is none.
	WQ struct{ p *C.struct_ibv_wq }
	// IndTable is a table of such queues; the zero value is none.
	IndTable struct{ p *C.struct_ibv_rwq_ind_table }
)

// IsNil reports whether the handle names no object.
func (h IndTable) IsNil() bool { return h.p == nil }

// CreateWQ creates a receive queue, and returns its size as granted.
//
// Implements: struct ibv_wq *ibv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr)
func (p PD) CreateWQ(cq CQ, wr, sge uint32) (h WQ, gotWR, gotSGE uint32, err error) {
	enter()
	defer leave()
	a := C.struct_ibv_wq_init_attr{wq_type: C.IBV_WQT_RQ, max_wr: C.uint32_t(wr), max_sge: C.uint32_t(sge), pd: p.p, cq: cq.p}
	r := C.rb_create_wq(p.p.context, &a)
	return WQ{r.p}, uint32(a.max_wr), uint32(a.max_sge), check("ibv_create_wq", int(r.err))
}

// Modify moves the queue to a state (enum ibv_wq_state).
//
// Implements: int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
func (h WQ) Modify(state uint32) error {
	enter()
	defer leave()
	return check("ibv_modify_wq", int(C.rb_modify_wq(h.p, C.uint32_t(state))))
}

// Destroy destroys the queue.
//
// Implements: int ibv_destroy_wq(struct ibv_wq *wq)
func (h WQ) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_wq", int(C.rb_destroy_wq(h.p)))
}

// NewWQRecord makes the record of h, to which PostSRQ posts.
//
// Implements: int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr, struct ibv_recv_wr **bad_recv_wr)
func NewWQRecord(h WQ) (*SRQRecord, error) {
	p := C.rb_wq_new(h.p)
	if p == nil {
		return nil, check("malloc", -int(C.ENOMEM))
	}
	r := &SRQRecord{p}
	runtime.AddCleanup(r, func(p *C.struct_rb_srq) { C.free(unsafe.Pointer(p)) }, p)
	return r, nil
}

// CreateIndTable creates a table of 1<<log queues.
//
// Implements: struct ibv_rwq_ind_table *ibv_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
func (h Context) CreateIndTable(log int, wqs []WQ) (IndTable, error) {
	enter()
	defer leave()
	p := make([]C.uintptr_t, len(wqs))
	for i, w := range wqs {
		p[i] = C.uintptr_t(uintptr(unsafe.Pointer(w.p)))
	}
	r := C.rb_create_ind_table(h.p, C.uint32_t(log), unsafe.SliceData(p))
	return IndTable{r.p}, check("ibv_create_rwq_ind_table", int(r.err))
}

// Destroy destroys the table.
//
// Implements: int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
func (h IndTable) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_rwq_ind_table", int(C.rb_destroy_ind_table(h.p)))
}

// CreateRSS creates a queue pair that spreads what it receives over a table.
//
// Implements: struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_init_attr_ex)
func (p PD) CreateRSS(a *QPInitAttr, t IndTable, function uint8, key []byte, fields uint64) (QP, error) {
	enter()
	defer leave()
	c := C.struct_ibv_qp_init_attr_ex{qp_type: a.Type, comp_mask: C.IBV_QP_INIT_ATTR_PD, pd: p.p}
	r := C.rb_create_rss(p.p.context, &c, t.p, C.uint8_t(function),
		(*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(key))), C.uint8_t(len(key)), C.uint64_t(fields))
	a.Cap = QPCap{}
	return QP{r.p}, check("ibv_create_qp_ex", int(r.err))
}
