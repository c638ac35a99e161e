#include "rb_fake_wr.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct rb_fake_ex *to_ex(struct ibv_qp_ex *x)
{
	return (struct rb_fake_ex *)x;
}

static void start(struct ibv_qp_ex *x)
{
	to_ex(x)->n = 0;
}

static struct ibv_send_wr *current(struct ibv_qp_ex *x)
{
	struct rb_fake_ex *e = to_ex(x);

	return &e->wrs[e->n ? e->n - 1 : 0];
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *x, enum ibv_wr_opcode op)
{
	struct rb_fake_ex *e = to_ex(x);
	int i = e->n++ % 16;

	memset(&e->wrs[i], 0, sizeof(e->wrs[i]));
	e->wrs[i].wr_id = x->wr_id;
	e->wrs[i].send_flags = x->wr_flags;
	e->wrs[i].opcode = op;
	e->wrs[i].sg_list = e->sges[i];
	if (i)
		e->wrs[i - 1].next = &e->wrs[i];
	return &e->wrs[i];
}

static void wr_send(struct ibv_qp_ex *x) { begin(x, IBV_WR_SEND); }
static void wr_send_imm(struct ibv_qp_ex *x, __be32 imm) { begin(x, IBV_WR_SEND_WITH_IMM)->imm_data = imm; }
static void wr_send_inv(struct ibv_qp_ex *x, uint32_t key) { begin(x, IBV_WR_SEND_WITH_INV)->invalidate_rkey = key; }
static void wr_local_inv(struct ibv_qp_ex *x, uint32_t key) { begin(x, IBV_WR_LOCAL_INV)->invalidate_rkey = key; }

static struct ibv_send_wr *rdma(struct ibv_qp_ex *x, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *w = begin(x, op);

	w->wr.rdma.rkey = rkey;
	w->wr.rdma.remote_addr = addr;
	return w;
}

static void wr_write(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr) { rdma(x, IBV_WR_RDMA_WRITE, rkey, addr); }
static void wr_read(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr) { rdma(x, IBV_WR_RDMA_READ, rkey, addr); }

static void wr_write_imm(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, __be32 imm)
{
	rdma(x, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

/* The ring shows the first operand of an atomic where a key is, and no more. */
static void wr_cas(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	struct ibv_send_wr *w = begin(x, IBV_WR_ATOMIC_CMP_AND_SWP);

	w->wr.atomic.remote_addr = addr;
	w->wr.atomic.rkey = rkey;
	w->wr.atomic.compare_add = compare;
	w->wr.atomic.swap = swap;
}

static void wr_add(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, uint64_t add)
{
	wr_cas(x, rkey, addr, add, 0);
	current(x)->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void wr_word(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, const void *word)
{
	uint64_t v;

	memcpy(&v, word, sizeof(v));
	wr_cas(x, rkey, addr, v, 0);
	current(x)->opcode = IBV_WR_ATOMIC_WRITE;
}

static void wr_flush(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, size_t length, uint8_t placement,
		     uint8_t selectivity)
{
	wr_cas(x, rkey, addr, length, placement << 8 | selectivity);
	current(x)->opcode = (enum ibv_wr_opcode)RB_FAKE_WR_FLUSH;
}

static void wr_tso(struct ibv_qp_ex *x, void *header, uint16_t size, uint16_t mss)
{
	struct ibv_send_wr *w = begin(x, IBV_WR_TSO);

	w->tso.hdr = header;
	w->tso.hdr_sz = size;
	w->tso.mss = mss;
}

static void wr_bind(struct ibv_qp_ex *x, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *w = begin(x, IBV_WR_BIND_MW);

	w->bind_mw.mw = mw;
	w->bind_mw.rkey = rkey;
	w->bind_mw.bind_info = *info;
}

static void set_ud(struct ibv_qp_ex *x, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *w = current(x);

	w->wr.ud.ah = ah;
	w->wr.ud.remote_qpn = qpn;
	w->wr.ud.remote_qkey = qkey;
}

static void set_xrc(struct ibv_qp_ex *x, uint32_t srqn)
{
	current(x)->qp_type.xrc.remote_srqn = srqn;
}

static void set_sge(struct ibv_qp_ex *x, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_send_wr *w = current(x);

	w->sg_list[0] = (struct ibv_sge){ addr, length, lkey };
	w->num_sge = 1;
}

static void set_sge_list(struct ibv_qp_ex *x, size_t n, const struct ibv_sge *list)
{
	struct ibv_send_wr *w = current(x);

	for (size_t i = 0; i < n && i < 4; i++)
		w->sg_list[i] = list[i];
	w->num_sge = n;
}

static void set_inline(struct ibv_qp_ex *x, void *addr, size_t length)
{
	set_sge(x, 0, (uintptr_t)addr, length);
	current(x)->send_flags |= IBV_SEND_INLINE;
}

static void set_inline_list(struct ibv_qp_ex *x, size_t n, const struct ibv_data_buf *list)
{
	current(x)->send_flags |= IBV_SEND_INLINE;
}

static int complete(struct ibv_qp_ex *x)
{
	struct rb_fake_ex *e = to_ex(x);
	struct ibv_send_wr *bad;

	return e->complete_errno ? e->complete_errno : ibv_post_send(&e->q->qp, e->wrs, &bad);
}

static void wr_abort(struct ibv_qp_ex *x)
{
	to_ex(x)->aborted++;
}

struct rb_fake_odd rb_fake_odd_of(const struct rb_fake_qp *q)
{
	const struct ibv_send_wr *w = &q->odd;
	struct rb_fake_odd o = { .srqn = w->qp_type.xrc.remote_srqn };

	switch ((int)w->opcode) {
	case IBV_WR_TSO:
		o.hdr_sz = w->tso.hdr_sz;
		o.mss = w->tso.mss;
		break;
	case IBV_WR_BIND_MW:
		o.addr = w->bind_mw.bind_info.addr;
		o.length = w->bind_mw.bind_info.length;
		o.access = w->bind_mw.bind_info.mw_access_flags;
		o.rkey = w->bind_mw.rkey;
		break;
	case IBV_WR_ATOMIC_WRITE:
		o.word = w->wr.atomic.compare_add;
		o.rkey = w->wr.atomic.rkey;
		o.addr = w->wr.atomic.remote_addr;
		break;
	case RB_FAKE_WR_FLUSH:
		o.length = w->wr.atomic.compare_add;
		o.placement = w->wr.atomic.swap >> 8;
		o.selectivity = w->wr.atomic.swap;
		o.rkey = w->wr.atomic.rkey;
		o.addr = w->wr.atomic.remote_addr;
		break;
	default:
		o.qpn = w->wr.ud.remote_qpn;
		o.qkey = w->wr.ud.remote_qkey;
	}
	return o;
}

struct rb_fake_ex *rb_fake_ex_new(struct rb_fake_qp *q, int type)
{
	struct rb_fake_ex *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->q = q;
	q->qp.qp_type = type;
	e->ex.qp_base = q->qp;
	e->ex.wr_start = start;
	e->ex.wr_complete = complete;
	e->ex.wr_abort = wr_abort;
	e->ex.wr_send = wr_send;
	e->ex.wr_send_imm = wr_send_imm;
	e->ex.wr_send_inv = wr_send_inv;
	e->ex.wr_local_inv = wr_local_inv;
	e->ex.wr_rdma_write = wr_write;
	e->ex.wr_rdma_write_imm = wr_write_imm;
	e->ex.wr_rdma_read = wr_read;
	e->ex.wr_atomic_cmp_swp = wr_cas;
	e->ex.wr_atomic_fetch_add = wr_add;
	e->ex.wr_atomic_write = wr_word;
	/* Behind it, as of rdma-core 46. */
	*(void **)((char *)e + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *)) = (void *)wr_flush;
	e->ex.wr_send_tso = wr_tso;
	e->ex.wr_bind_mw = wr_bind;
	e->ex.wr_set_ud_addr = set_ud;
	e->ex.wr_set_xrc_srqn = set_xrc;
	e->ex.wr_set_sge = set_sge;
	e->ex.wr_set_sge_list = set_sge_list;
	e->ex.wr_set_inline_data = set_inline;
	e->ex.wr_set_inline_data_list = set_inline_list;
	return e;
}

void rb_fake_ex_free(struct rb_fake_ex *x)
{
	free(x);
}
