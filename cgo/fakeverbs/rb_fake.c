#include "rb_fake.h"
#include "rb_fake_wr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct rb_fake_qp *to_qp(struct ibv_qp *qp)
{
	return (struct rb_fake_qp *)qp;
}

static struct rb_fake_cq *to_cq(struct ibv_cq *cq)
{
	return (struct rb_fake_cq *)cq;
}

/* The outcome of the oldest request that has none. */
static void complete(struct rb_fake_qp *q, int recv, uint32_t status, uint32_t imm, uint32_t len)
{
	struct rb_fake_queue *w = recv ? &q->rq : &q->sq;
	uint32_t index = w->done++ & w->mask;
	const struct rb_fake_wqe *e = &w->ring[index];
	static const uint8_t opcode[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
		[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
		[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
		[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
		[IBV_WR_TSO] = IBV_WC_TSO,
		[RB_FAKE_WR_FLUSH] = RB_FAKE_WC_FLUSH,
		[IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
	};

	if (!recv && status == IBV_WC_SUCCESS && !(e->flags & IBV_SEND_SIGNALED))
		return;

	struct rb_fake_cq *c = to_cq(recv ? q->qp.recv_cq : q->qp.send_cq);
	if (c->head - c->tail > c->mask) {
		c->overrun = 1;
		return;
	}
	struct rb_fake_cqe *v = &c->ring[c->head++ & c->mask];
	v->index = index;
	v->qpn = q->qp.qp_num;
	v->byte_len = len;
	v->imm = imm;
	v->status = status;
	/* Hardware leaves the opcode of an error undefined. */
	v->opcode = status ? 0 : recv ? IBV_WC_RECV : opcode[e->op_index >> 24];
	v->vendor_err = 0;
	v->flags = recv && imm ? IBV_WC_WITH_IMM : 0;
	v->qp = (uintptr_t)q;
	v->pad[0] = v->pad[1] = 0;
	v->recv = recv;
	v->owner = 1;
}

static inline int injected(struct rb_fake_queue *w)
{
	return w->fail_in >= 0 && w->fail_in-- == 0;
}

/* A TSO, a bind, an atomic write, or a request with an SRQ to go to. */
static void note(struct rb_fake_qp *q, const struct ibv_send_wr *wr)
{
	q->odd = *wr;
	if (wr->opcode == IBV_WR_TSO && wr->tso.hdr_sz <= sizeof(q->header))
		memcpy(q->header, wr->tso.hdr, wr->tso.hdr_sz);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rb_fake_qp *q = to_qp(qp);
	struct rb_fake_queue *w = &q->sq;

	for (; wr; wr = wr->next) {
		if (__builtin_expect(injected(w), 0)) {
			*bad = w->fail_silent ? NULL : wr;
			return w->fail_errno;
		}
		if (w->posted - w->polled > w->mask) {
			*bad = wr;
			return ENOMEM;
		}
		uint32_t index = w->posted & w->mask;
		struct rb_fake_wqe *e = &w->ring[index];

		e->op_index = wr->opcode << 24 | index;
		e->qpn_size = qp->qp_num << 8 | wr->num_sge;
		e->flags = wr->send_flags;
		e->imm = wr->imm_data;
		e->raddr = wr->wr.rdma.remote_addr;
		e->rkey = wr->wr.rdma.rkey;
		for (int i = 0; i < wr->num_sge && i < 2; i++) {
			e->data[i].length = wr->sg_list[i].length;
			e->data[i].lkey = wr->sg_list[i].lkey;
			e->data[i].addr = wr->sg_list[i].addr;
		}
		if (__builtin_expect(wr->opcode >= IBV_WR_BIND_MW || q->qp.qp_type > IBV_QPT_UC, 0))
			note(q, wr);
		w->ids[index] = wr->wr_id;
		w->posted++;
		if (!q->hold)
			complete(q, 0, IBV_WC_SUCCESS, 0, 0);
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rb_fake_queue *w = &to_qp(qp)->rq;

	for (; wr; wr = wr->next) {
		if (__builtin_expect(injected(w), 0)) {
			*bad = w->fail_silent ? NULL : wr;
			return w->fail_errno;
		}
		if (w->posted - w->polled > w->mask) {
			*bad = wr;
			return ENOMEM;
		}
		uint32_t index = w->posted & w->mask;
		struct rb_fake_wqe *e = &w->ring[index];

		e->op_index = index;
		e->qpn_size = wr->num_sge;
		for (int i = 0; i < wr->num_sge && i < 2; i++) {
			e->data[i].length = wr->sg_list[i].length;
			e->data[i].lkey = wr->sg_list[i].lkey;
			e->data[i].addr = wr->sg_list[i].addr;
		}
		w->ids[index] = wr->wr_id;
		w->posted++;
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct rb_fake_cq *c = to_cq(cq);
	int i = 0;

	if (__builtin_expect(c->poll_result < 0, 0))
		return c->poll_result;
	for (; i < n && c->tail != c->head; i++, wc++) {
		struct rb_fake_cqe *e = &c->ring[c->tail & c->mask];

		if (!e->owner)
			break;
		struct rb_fake_qp *q = (struct rb_fake_qp *)(uintptr_t)e->qp;
		struct rb_fake_queue *w = e->recv ? &q->rq : &q->sq;

		wc->wr_id = w->ids[e->index];
		wc->status = e->status;
		wc->opcode = e->opcode;
		wc->vendor_err = e->vendor_err;
		wc->byte_len = e->byte_len;
		wc->imm_data = e->imm;
		wc->qp_num = e->qpn;
		wc->src_qp = 0;
		wc->wc_flags = e->flags;
		wc->pkey_index = 0;
		wc->slid = 0;
		wc->sl = 0;
		wc->dlid_path_bits = 0;
		/* A completion frees its request and all before it. */
		w->polled += ((e->index - w->polled) & w->mask) + 1;
		e->owner = 0;
		c->tail++;
	}
	return i;
}

/* Completes the n oldest requests of a queue; returns how many there were. */
int rb_fake_complete(struct rb_fake_qp *q, int recv, int n, int status, uint32_t imm, uint32_t len)
{
	struct rb_fake_queue *w = recv ? &q->rq : &q->sq;
	int i = 0;

	for (; i < n && w->done != w->posted; i++)
		complete(q, recv, status, imm, len);
	return i;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	struct rb_fake_cq *c = to_cq(cq);

	/* What comes in just before arming raises no event. */
	if (c->late)
		rb_fake_complete(c->late, 0, 1, IBV_WC_SUCCESS, 0, 0);
	c->late = NULL;
	c->armed = 1 + solicited;
	return c->notify_result;
}

struct rb_fake_device *rb_fake_open(void)
{
	struct rb_fake_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	strcpy(d->dev.name, "fake0");
	d->dev.transport_type = IBV_TRANSPORT_IB;
	d->vctx.sz = sizeof(d->vctx);
	d->vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	d->vctx.context.device = &d->dev;
	d->vctx.context.ops.post_send = post_send;
	d->vctx.context.ops.post_recv = post_recv;
	d->vctx.context.ops.poll_cq = poll_cq;
	d->vctx.context.ops.req_notify_cq = req_notify_cq;
	d->pd.context = &d->vctx.context;
	rb_fake_memory_ops(&d->vctx);
	rb_fake_queues_ops(&d->vctx);
	return d;
}

static uint32_t ring_size(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

struct rb_fake_cq *rb_fake_cq_new(struct rb_fake_device *d, int cqe)
{
	struct rb_fake_cq *c = calloc(1, sizeof(*c));
	uint32_t size = ring_size(cqe);

	if (!c)
		return NULL;
	c->ring = aligned_alloc(64, size * sizeof(*c->ring));
	if (!c->ring) {
		free(c);
		return NULL;
	}
	memset(c->ring, 0, size * sizeof(*c->ring));
	c->mask = size - 1;
	c->cq.context = &d->vctx.context;
	c->cq.cqe = size;
	return c;
}

static int queue_init(struct rb_fake_queue *w, uint32_t depth)
{
	uint32_t size = ring_size(depth);

	w->mask = size - 1;
	w->fail_in = -1;
	w->ids = calloc(size, sizeof(*w->ids));
	w->ring = aligned_alloc(64, size * sizeof(*w->ring));
	if (!w->ids || !w->ring)
		return -1;
	memset(w->ring, 0, size * sizeof(*w->ring));
	return 0;
}

struct rb_fake_qp *rb_fake_qp_new(struct rb_fake_device *d, struct rb_fake_cq *send_cq,
				  struct rb_fake_cq *recv_cq, uint32_t qpn, uint32_t depth)
{
	struct rb_fake_qp *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	if (queue_init(&q->sq, depth) || queue_init(&q->rq, depth)) {
		rb_fake_qp_free(q);
		return NULL;
	}
	q->qp.context = &d->vctx.context;
	q->qp.pd = &d->pd;
	q->qp.send_cq = &send_cq->cq;
	q->qp.recv_cq = &recv_cq->cq;
	q->qp.qp_num = qpn;
	return q;
}

void rb_fake_device_free(struct rb_fake_device *d)
{
	free(d);
}

void rb_fake_cq_free(struct rb_fake_cq *c)
{
	free(c->ring);
	free(c);
}

void rb_fake_qp_free(struct rb_fake_qp *q)
{
	free(q->sq.ring);
	free(q->sq.ids);
	free(q->rq.ring);
	free(q->rq.ids);
	free(q);
}

/* An empty crossing. */
void rb_fake_nop(void)
{
}

/* The reference: what a C program does that prepared a chain, sets the fields
 * that change, posts it and polls its completions, rounds times. Returns the sum
 * of the ids that came back, so that nothing is optimised away. */
uint64_t rb_fake_loop(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_send_wr *wr, struct ibv_sge *sge,
		      uint64_t base, uint32_t length, int batch, int rounds)
{
	struct ibv_wc *wc = malloc(batch * sizeof(*wc));
	uint64_t sum = 0, id = 0;

	if (!wc)
		return 0;
	for (int r = 0; r < rounds; r++) {
		struct ibv_send_wr *bad;

		for (int i = 0; i < batch; i++) {
			wr[i].wr_id = id++;
			sge[i].addr = base + (uint64_t)i * length;
		}
		if (ibv_post_send(qp, wr, &bad))
			break;
		for (int got = 0; got < batch;) {
			int n = ibv_poll_cq(cq, batch - got, wc);

			if (n < 0)
				goto out;
			for (int i = 0; i < n; i++) {
				if (wc[i].status != IBV_WC_SUCCESS)
					goto out;
				sum += wc[i].wr_id;
			}
			got += n;
		}
	}
out:
	free(wc);
	return sum;
}

/* The same for a long list: posted in chunks of which the last request is
 * signalled, with at most window in flight. Returns how many were done. */
uint64_t rb_fake_run(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_send_wr *wr, uint32_t n, uint32_t window,
		     uint32_t chunk)
{
	struct ibv_wc wc[16];
	struct ibv_send_wr *bad;
	uint32_t posted = 0, done = 0;

	while (done < n) {
		while (posted < n) {
			uint32_t k = n - posted < chunk ? n - posted : chunk;

			if (posted + k - done > window)
				break;
			for (uint32_t i = posted; i < posted + k; i++) {
				wr[i].wr_id = i;
				wr[i].send_flags &= ~IBV_SEND_SIGNALED;
			}
			struct ibv_send_wr *last = &wr[posted + k - 1], *next = last->next;
			last->send_flags |= IBV_SEND_SIGNALED;
			last->next = NULL;
			int e = ibv_post_send(qp, &wr[posted], &bad);
			last->next = next;
			if (e)
				return done;
			posted += k;
		}
		int got = ibv_poll_cq(cq, 16, wc);
		if (got < 0)
			return done;
		for (int i = 0; i < got; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				return done;
			done = wc[i].wr_id + 1;
		}
	}
	return done;
}
