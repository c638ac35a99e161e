//go:build linux && cgo

package cgo

// #include "rb_cq.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// CreateCQEx creates an extended completion queue; see CreateCQ.
//
// Implements: struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *cq_attr)
// and struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
func (c Context) CreateCQEx(a *CQInitAttr, cookie uint64, ch CompChannel) (CQ, error) {
	enter()
	defer leave()
	init := C.struct_ibv_cq_init_attr_ex{
		cqe: C.uint32_t(a.CQE), channel: ch.p, comp_vector: C.uint32_t(a.Vector), wc_flags: C.uint64_t(a.Fields),
	}
	if a.Flags != 0 {
		init.comp_mask, init.flags = C.IBV_CQ_INIT_ATTR_MASK_FLAGS, C.uint32_t(a.Flags)
	}
	r := C.rb_create_cq_ex(c.p, &init, C.uint64_t(cookie))
	return CQ{r.p}, check("ibv_create_cq_ex", int(r.err))
}

// SetFields tells that the queue is an extended one, and which fields it has.
func (r *CQRecord) SetFields(fields uint64) { r.p.fields = C.uint64_t(fields) }

// Poison makes every further poll fail with EIO.
func (r *CQRecord) Poison() { C.rb_cq_poison(r.p) }

// PollEx is Poll of an extended queue, with what WC has no room for.
//
// Implements: int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
// and int ibv_next_poll(struct ibv_cq_ex *cq)
// and void ibv_end_poll(struct ibv_cq_ex *cq)
// and enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
// and uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
// and uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
// and __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
// and uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
// and uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
// and uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
// and unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
// and uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
// and uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
// and uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
// and uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
// and uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
// and uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
// and uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
// and void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info)
func (r *CQRecord) PollEx(wc *WC, extra *WCExtra, n int) int {
	k := int(C.rb_poll_ex(C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(n), (*C.struct_ibv_wc)(unsafe.Pointer(wc)),
		(*C.struct_rb_wc_extra)(unsafe.Pointer(extra))))
	runtime.KeepAlive(r)
	return k
}

// Resize changes how many completions the queue has room for.
//
// Implements: int ibv_resize_cq(struct ibv_cq *cq, int cqe)
func (r *CQRecord) Resize(cqe int) error {
	enter()
	defer leave()
	k := int(C.rb_resize_cq(C.uintptr_t(uintptr(unsafe.Pointer(r.p))), C.int(cqe)))
	runtime.KeepAlive(r)
	return check("ibv_resize_cq", k)
}

// Moderate raises an event only after count completions, or period microseconds
// after the first.
//
// Implements: int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
func (q CQ) Moderate(count, period uint16) error {
	enter()
	defer leave()
	return check("ibv_modify_cq", int(C.rb_moderate_cq(q.p, C.uint16_t(count), C.uint16_t(period))))
}
