#include "rb_wr.h"

#include <errno.h>
#include <stddef.h>

/* Posts go by ibv_wr_* from now on; x is NULL but for the fake provider's. */
int rb_qp_extend(struct rb_qp *q, struct ibv_qp_ex *x)
{
	q->ex = x ? x : ibv_qp_to_qp_ex(q->qp);
	return q->ex ? 0 : -EOPNOTSUPP;
}

static void data(struct ibv_qp_ex *x, const struct ibv_send_wr *w)
{
	if (w->send_flags & IBV_SEND_INLINE) {
		if (w->num_sge)
			ibv_wr_set_inline_data(x, (void *)(uintptr_t)w->sg_list[0].addr, w->sg_list[0].length);
		else
			ibv_wr_set_inline_data_list(x, 0, NULL);
	} else if (w->num_sge == 1) {
		ibv_wr_set_sge(x, w->sg_list[0].lkey, w->sg_list[0].addr, w->sg_list[0].length);
	} else {
		ibv_wr_set_sge_list(x, w->num_sge, w->sg_list);
	}
}

/* FLUSH is newer than the headers of rdma-core 44: its call is the one behind the
 * last of theirs. A provider that does not know it makes no queue pair for it. */
enum { WR_FLUSH = 14 };

typedef void flush_call(struct ibv_qp_ex *, uint32_t rkey, uint64_t addr, size_t length, uint8_t placement,
			uint8_t selectivity);

static flush_call *flush_of(struct ibv_qp_ex *x)
{
	return *(flush_call **)((char *)x + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *));
}

/* A chain of requests by the extended way of posting: all of it is taken, or
 * nothing. */
int rb_wr_post(struct ibv_qp_ex *x, struct ibv_send_wr *first, struct ibv_send_wr **bad)
{
	ibv_wr_start(x);
	for (struct ibv_send_wr *w = first; w; w = w->next) {
		x->wr_id = w->wr_id;
		x->wr_flags = w->send_flags & ~IBV_SEND_INLINE;
		switch ((int)w->opcode) {
		case IBV_WR_SEND:
			ibv_wr_send(x);
			break;
		case IBV_WR_SEND_WITH_IMM:
			ibv_wr_send_imm(x, w->imm_data);
			break;
		case IBV_WR_SEND_WITH_INV:
			ibv_wr_send_inv(x, w->invalidate_rkey);
			break;
		case IBV_WR_RDMA_WRITE:
			ibv_wr_rdma_write(x, w->wr.rdma.rkey, w->wr.rdma.remote_addr);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			ibv_wr_rdma_write_imm(x, w->wr.rdma.rkey, w->wr.rdma.remote_addr, w->imm_data);
			break;
		case IBV_WR_RDMA_READ:
			ibv_wr_rdma_read(x, w->wr.rdma.rkey, w->wr.rdma.remote_addr);
			break;
		case IBV_WR_ATOMIC_CMP_AND_SWP:
			ibv_wr_atomic_cmp_swp(x, w->wr.atomic.rkey, w->wr.atomic.remote_addr, w->wr.atomic.compare_add,
					      w->wr.atomic.swap);
			break;
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			ibv_wr_atomic_fetch_add(x, w->wr.atomic.rkey, w->wr.atomic.remote_addr, w->wr.atomic.compare_add);
			break;
		case IBV_WR_ATOMIC_WRITE:
			/* The word is the request's own, where an atomic has its operand. */
			ibv_wr_atomic_write(x, w->wr.atomic.rkey, w->wr.atomic.remote_addr, &w->wr.atomic.compare_add);
			break;
		case IBV_WR_TSO:
			ibv_wr_send_tso(x, w->tso.hdr, w->tso.hdr_sz, w->tso.mss);
			break;
		case IBV_WR_LOCAL_INV:
			ibv_wr_local_inv(x, w->invalidate_rkey);
			continue;
		case WR_FLUSH: /* packed by SetFlush */
			flush_of(x)(x, w->wr.atomic.rkey, w->wr.atomic.remote_addr, w->wr.atomic.compare_add,
				    w->wr.atomic.swap >> 8, w->wr.atomic.swap);
			continue;
		case IBV_WR_BIND_MW:
			ibv_wr_bind_mw(x, w->bind_mw.mw, w->bind_mw.rkey, &w->bind_mw.bind_info);
			continue;
		default:
			ibv_wr_abort(x);
			*bad = first;
			return EINVAL;
		}
		if (x->qp_base.qp_type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(x, w->wr.ud.ah, w->wr.ud.remote_qpn, w->wr.ud.remote_qkey);
		else if (x->qp_base.qp_type == IBV_QPT_XRC_SEND)
			ibv_wr_set_xrc_srqn(x, w->qp_type.xrc.remote_srqn);
		if (w->opcode != IBV_WR_ATOMIC_WRITE)
			data(x, w);
	}
	int r = ibv_wr_complete(x);
	if (r)
		*bad = first;
	return r;
}
