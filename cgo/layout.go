//go:build linux && cgo

package cgo

/*
#include "rb_verbs.h"
#include "rb_fast.h"
#include "rb_cq.h"

// cgo has no offsetof.
#define RB_OFFSET(name, type, field) enum { RB_OFF_##name = offsetof(struct type, field) }
RB_OFFSET(WC_STATUS, ibv_wc, status);
RB_OFFSET(WC_OPCODE, ibv_wc, opcode);
RB_OFFSET(WC_VENDOR, ibv_wc, vendor_err);
RB_OFFSET(WC_LEN, ibv_wc, byte_len);
RB_OFFSET(WC_IMM, ibv_wc, imm_data);
RB_OFFSET(WC_QPN, ibv_wc, qp_num);
RB_OFFSET(WC_SRCQP, ibv_wc, src_qp);
RB_OFFSET(WC_FLAGS, ibv_wc, wc_flags);
RB_OFFSET(WC_PKEY, ibv_wc, pkey_index);
RB_OFFSET(WC_SLID, ibv_wc, slid);
RB_OFFSET(WC_SL, ibv_wc, sl);
RB_OFFSET(WC_PATH, ibv_wc, dlid_path_bits);
RB_OFFSET(SEND_NEXT, ibv_send_wr, next);
RB_OFFSET(SEND_SGE, ibv_send_wr, sg_list);
RB_OFFSET(SEND_NUM, ibv_send_wr, num_sge);
RB_OFFSET(SEND_OP, ibv_send_wr, opcode);
RB_OFFSET(SEND_FLAGS, ibv_send_wr, send_flags);
RB_OFFSET(SEND_IMM, ibv_send_wr, imm_data);
RB_OFFSET(SEND_UNION, ibv_send_wr, wr);
RB_OFFSET(SEND_TYPE, ibv_send_wr, qp_type);
RB_OFFSET(SEND_BIND, ibv_send_wr, bind_mw);
RB_OFFSET(RECV_NEXT, ibv_recv_wr, next);
RB_OFFSET(RECV_SGE, ibv_recv_wr, sg_list);
RB_OFFSET(RECV_NUM, ibv_recv_wr, num_sge);
RB_OFFSET(BATCH_FIRST, rb_batch, first);
RB_OFFSET(BATCH_USES, rb_batch, uses);
RB_OFFSET(BATCH_N, rb_batch, n);
RB_OFFSET(BATCH_NUSES, rb_batch, nuses);
RB_OFFSET(BATCH_POLLED, rb_batch, polled);
RB_OFFSET(RUN_N, rb_run, n);
RB_OFFSET(RUN_DONE, rb_run, done);
RB_OFFSET(RUN_DRAINED, rb_run, drained);

_Static_assert(offsetof(struct ibv_send_wr, wr.rdma.remote_addr) == offsetof(struct ibv_send_wr, wr), "rdma.remote_addr");
_Static_assert(offsetof(struct ibv_send_wr, wr.rdma.rkey) == offsetof(struct ibv_send_wr, wr) + 8, "rdma.rkey");
_Static_assert(offsetof(struct ibv_send_wr, wr.atomic.remote_addr) == offsetof(struct ibv_send_wr, wr), "atomic.remote_addr");
_Static_assert(offsetof(struct ibv_send_wr, wr.atomic.compare_add) == offsetof(struct ibv_send_wr, wr) + 8, "atomic.compare_add");
_Static_assert(offsetof(struct ibv_send_wr, wr.atomic.swap) == offsetof(struct ibv_send_wr, wr) + 16, "atomic.swap");
_Static_assert(offsetof(struct ibv_send_wr, wr.atomic.rkey) == offsetof(struct ibv_send_wr, wr) + 24, "atomic.rkey");
_Static_assert(offsetof(struct ibv_send_wr, wr.ud.ah) == offsetof(struct ibv_send_wr, wr), "ud.ah");
_Static_assert(offsetof(struct ibv_send_wr, wr.ud.remote_qpn) == offsetof(struct ibv_send_wr, wr) + 8, "ud.remote_qpn");
_Static_assert(offsetof(struct ibv_send_wr, wr.ud.remote_qkey) == offsetof(struct ibv_send_wr, wr) + 12, "ud.remote_qkey");
_Static_assert(offsetof(struct ibv_send_wr, invalidate_rkey) == offsetof(struct ibv_send_wr, imm_data), "invalidate_rkey");
_Static_assert(offsetof(struct ibv_send_wr, bind_mw.rkey) == offsetof(struct ibv_send_wr, bind_mw) + 8, "bind_mw.rkey");
_Static_assert(offsetof(struct ibv_send_wr, bind_mw.bind_info) == offsetof(struct ibv_send_wr, bind_mw) + 16, "bind_mw.bind_info");
_Static_assert(offsetof(struct ibv_mw_bind_info, addr) == 8 && offsetof(struct ibv_mw_bind_info, length) == 16 &&
	offsetof(struct ibv_mw_bind_info, mw_access_flags) == 24, "bind_info");
_Static_assert((int)IBV_WR_RDMA_WRITE == 0 && (int)IBV_WR_RDMA_WRITE_WITH_IMM == 1 && (int)IBV_WR_SEND == 2 &&
	(int)IBV_WR_SEND_WITH_IMM == 3 && (int)IBV_WR_RDMA_READ == 4 && (int)IBV_WR_ATOMIC_CMP_AND_SWP == 5 &&
	(int)IBV_WR_ATOMIC_FETCH_AND_ADD == 6 && (int)IBV_WR_LOCAL_INV == 7 && (int)IBV_WR_BIND_MW == 8 &&
	(int)IBV_WR_SEND_WITH_INV == 9, "opcodes");
_Static_assert((int)IBV_SEND_FENCE == 1 && (int)IBV_SEND_SIGNALED == 2 && (int)IBV_SEND_SOLICITED == 4 &&
	(int)IBV_SEND_INLINE == 8, "send flags");
_Static_assert((int)IBV_QPS_RESET == 0 && (int)IBV_QPS_INIT == 1 && (int)IBV_QPS_RTR == 2 && (int)IBV_QPS_RTS == 3 &&
	(int)IBV_QPS_SQD == 4 && (int)IBV_QPS_SQE == 5 && (int)IBV_QPS_ERR == 6, "QP states");
_Static_assert((int)IBV_WC_SEND == 0 && (int)IBV_WC_RECV == 128, "completion opcodes");
*/
import "C"

import "unsafe"

// The build fails here where a mirrored structure differs from the header's:
// arrays of different length have different types.

var (
	_ [C.sizeof_struct_ibv_sge]byte       = [unsafe.Sizeof(SGE{})]byte{}
	_ [C.sizeof_struct_ibv_wc]byte        = [unsafe.Sizeof(WC{})]byte{}
	_ [C.sizeof_struct_ibv_send_wr]byte   = [unsafe.Sizeof(SendWR{})]byte{}
	_ [C.sizeof_struct_ibv_recv_wr]byte   = [unsafe.Sizeof(RecvWR{})]byte{}
	_ [C.sizeof_struct_ibv_gid_entry]byte = [unsafe.Sizeof(GIDEntry{})]byte{}
	_ [C.sizeof_struct_rb_batch]byte      = [unsafe.Sizeof(Batch{})]byte{}
	_ [C.sizeof_struct_rb_batch_use]byte  = [unsafe.Sizeof(BatchUse{})]byte{}

	_ [C.sizeof_struct_rb_wc_extra]byte = [unsafe.Sizeof(WCExtra{})]byte{}

	_ [C.RB_OFF_WC_STATUS]byte     = [unsafe.Offsetof(WC{}.Status)]byte{}
	_ [C.RB_OFF_WC_OPCODE]byte     = [unsafe.Offsetof(WC{}.Opcode)]byte{}
	_ [C.RB_OFF_WC_VENDOR]byte     = [unsafe.Offsetof(WC{}.VendorErr)]byte{}
	_ [C.RB_OFF_WC_LEN]byte        = [unsafe.Offsetof(WC{}.ByteLen)]byte{}
	_ [C.RB_OFF_WC_IMM]byte        = [unsafe.Offsetof(WC{}.Imm)]byte{}
	_ [C.RB_OFF_WC_QPN]byte        = [unsafe.Offsetof(WC{}.QPNum)]byte{}
	_ [C.RB_OFF_WC_SRCQP]byte      = [unsafe.Offsetof(WC{}.SrcQP)]byte{}
	_ [C.RB_OFF_WC_FLAGS]byte      = [unsafe.Offsetof(WC{}.Flags)]byte{}
	_ [C.RB_OFF_WC_PKEY]byte       = [unsafe.Offsetof(WC{}.PKeyIndex)]byte{}
	_ [C.RB_OFF_WC_SLID]byte       = [unsafe.Offsetof(WC{}.SLID)]byte{}
	_ [C.RB_OFF_WC_SL]byte         = [unsafe.Offsetof(WC{}.SL)]byte{}
	_ [C.RB_OFF_WC_PATH]byte       = [unsafe.Offsetof(WC{}.DLIDPathBits)]byte{}
	_ [C.RB_OFF_SEND_NEXT]byte     = [unsafe.Offsetof(SendWR{}.Next)]byte{}
	_ [C.RB_OFF_SEND_SGE]byte      = [unsafe.Offsetof(SendWR{}.SGList)]byte{}
	_ [C.RB_OFF_SEND_NUM]byte      = [unsafe.Offsetof(SendWR{}.NumSGE)]byte{}
	_ [C.RB_OFF_SEND_OP]byte       = [unsafe.Offsetof(SendWR{}.Opcode)]byte{}
	_ [C.RB_OFF_SEND_FLAGS]byte    = [unsafe.Offsetof(SendWR{}.Flags)]byte{}
	_ [C.RB_OFF_SEND_IMM]byte      = [unsafe.Offsetof(SendWR{}.Imm)]byte{}
	_ [C.RB_OFF_SEND_UNION]byte    = [unsafe.Offsetof(SendWR{}.union)]byte{}
	_ [C.RB_OFF_SEND_TYPE]byte     = [unsafe.Offsetof(SendWR{}.qpType)]byte{}
	_ [C.RB_OFF_SEND_BIND]byte     = [unsafe.Offsetof(SendWR{}.bind)]byte{}
	_ [C.RB_OFF_RECV_NEXT]byte     = [unsafe.Offsetof(RecvWR{}.Next)]byte{}
	_ [C.RB_OFF_RECV_SGE]byte      = [unsafe.Offsetof(RecvWR{}.SGList)]byte{}
	_ [C.RB_OFF_RECV_NUM]byte      = [unsafe.Offsetof(RecvWR{}.NumSGE)]byte{}
	_ [C.RB_OFF_BATCH_FIRST]byte   = [unsafe.Offsetof(Batch{}.First)]byte{}
	_ [C.RB_OFF_BATCH_USES]byte    = [unsafe.Offsetof(Batch{}.Uses)]byte{}
	_ [C.RB_OFF_BATCH_N]byte       = [unsafe.Offsetof(Batch{}.N)]byte{}
	_ [C.RB_OFF_BATCH_NUSES]byte   = [unsafe.Offsetof(Batch{}.NumUses)]byte{}
	_ [C.RB_OFF_BATCH_POLLED]byte  = [unsafe.Offsetof(Batch{}.Polled)]byte{}
	_ [C.sizeof_struct_rb_run]byte = [unsafe.Sizeof(Run{})]byte{}
	_ [C.RB_OFF_RUN_N]byte         = [unsafe.Offsetof(Run{}.N)]byte{}
	_ [C.RB_OFF_RUN_DONE]byte      = [unsafe.Offsetof(Run{}.Done)]byte{}
	_ [C.RB_OFF_RUN_DRAINED]byte   = [unsafe.Offsetof(Run{}.Drained)]byte{}
)

// The refusals of both sides are the same.
var _ = [1]struct{}{}[int(AcceptedUnknown)-int(C.RB_UNKNOWN)|
	int(ProviderRefused)-int(C.RB_PROVIDER)|
	int(RefusedMRClosed)-int(C.RB_MR_CLOSED)|
	int(RefusedFull)-int(C.RB_QUEUE_FULL)|
	int(RefusedDepth)-int(C.RB_READ_DEPTH)|
	int(RefusedState)-int(C.RB_STATE)|
	int(RefusedClosed)-int(C.RB_CLOSED)]
