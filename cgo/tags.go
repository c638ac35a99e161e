//go:build linux && cgo

package cgo

// #include "rb_tags.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// AddTag adds a receive to the list, and returns its handle.
//
// Implements: int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
func (r *SRQRecord) AddTag(op *TagOp) (handle uint32, err error) {
	h := int64(C.rb_srq_add(r.p, C.int(op.Flags), C.uint64_t(op.ID), C.uint32_t(op.Unexpected), C.uint64_t(op.RecvID),
		(*C.struct_ibv_sge)(unsafe.Pointer(unsafe.SliceData(op.SGEs))), C.int(len(op.SGEs)), C.uint64_t(op.Tag), C.uint64_t(op.Mask)))
	runtime.KeepAlive(r)
	return uint32(h), check("ibv_post_srq_ops", int(h))
}

// DeleteTag takes a receive off the list.
//
// Implements: int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
func (r *SRQRecord) DeleteTag(op *TagOp) error { return r.tagOp(C.IBV_WR_TAG_DEL, op) }

// SyncTags tells the device how many unexpected messages were seen.
//
// Implements: int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
func (r *SRQRecord) SyncTags(op *TagOp) error { return r.tagOp(C.IBV_WR_TAG_SYNC, op) }

func (r *SRQRecord) tagOp(opcode C.int, op *TagOp) error {
	n := int64(C.rb_srq_op(r.p, opcode, C.int(op.Flags), C.uint64_t(op.ID), C.uint32_t(op.Unexpected), C.uint32_t(op.Handle)))
	runtime.KeepAlive(r)
	return check("ibv_post_srq_ops", int(n))
}
