//go:build linux && cgo

package cgo

// #include <stdlib.h>
// #include "rb_newer.h"
// #include "rb_wr.h"
import "C"

import "unsafe"

// QPEx is a queue pair as the extended way of posting knows it; the zero value
// stands for the QP's own.
type QPEx struct{ p *C.struct_ibv_qp_ex }

// QPExAt makes a handle of a struct ibv_qp_ex; for package fakeverbs.
func QPExAt(p unsafe.Pointer) QPEx { return QPEx{(*C.struct_ibv_qp_ex)(p)} }

// Extend lets PostSend post by ibv_wr_*, which the queue pair was made for
// (QPInitAttr.SendOps).
//
// Implements: struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
// and void ibv_wr_start(struct ibv_qp_ex *qp)
// and int ibv_wr_complete(struct ibv_qp_ex *qp)
// and void ibv_wr_abort(struct ibv_qp_ex *qp)
// and void ibv_wr_send(struct ibv_qp_ex *qp)
// and void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
// and void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
// and void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
// and void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
// and void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
// and void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap)
// and void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
// and void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr)
// and static inline void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level)
// and void ibv_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
// and void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
// and void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *bind_info)
// and void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
// and void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
// and void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
// and void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf, const struct ibv_data_buf *buf_list)
// and void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
// and void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
func (r *QPRecord) Extend(x QPEx) error {
	return check("ibv_qp_to_qp_ex", int(C.rb_qp_extend(r.p, x.p)))
}

// ExtendedPostsRight tells whether Soft-RoCE's provider counts the bytes of an
// extended post right, as it does since rdma-core 64: told by a function of the
// same age.
func ExtendedPostsRight() bool {
	name := [...]C.char{'i', 'b', 'v', '_', 'a', 'l', 'l', 'o', 'c', '_', 'b', 'u', 'f', 0}
	return C.rb_symbol(&name[0]) != nil
}
