#include "rb_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct rb_fake_queues *queues(struct ibv_context *c)
{
	return &((struct rb_fake_device *)((uint8_t *)c - offsetof(struct rb_fake_device, vctx.context)))->queues;
}

/* NEW makes an object of a context, and counts it; FREE undoes that. */
#define NEW(type, c, alive)                        \
	struct type *o = calloc(1, sizeof(*o));    \
	if (!o)                                    \
		return NULL;                       \
	o->context = (c);                          \
	rb_fake_count(&queues(o->context)->alive, 1);

#define FREE(o, alive)                             \
	rb_fake_count(&queues((o)->context)->alive, -1); \
	free(o);                                   \
	return 0

static struct ibv_xrcd *open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *a)
{
	NEW(ibv_xrcd, c, xrcds);
	return o;
}

static int close_xrcd(struct ibv_xrcd *o) { FREE(o, xrcds); }

static struct ibv_srq *create_srq(struct ibv_context *c, struct ibv_srq_init_attr_ex *a)
{
	NEW(ibv_srq, c, srqs);
	o->pd = a->pd;
	queues(c)->srq = *a;
	return o;
}

void rb_fake_srq_free(struct ibv_srq *srq)
{
	rb_fake_count(&queues(srq->context)->srqs, -1);
	free(srq);
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	*num = 0x99;
	return 0;
}

static int post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad)
{
	struct rb_fake_queues *q = queues(srq->context);

	if (q->op_errno) {
		*bad = op;
		return q->op_errno;
	}
	if (op->opcode == IBV_WR_TAG_ADD) {
		op->tm.handle = q->op.tm.handle + 1;
		if (op->tm.add.num_sge)
			q->op_sge = op->tm.add.sg_list[0];
	}
	q->op = *op;
	return 0;
}

static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a)
{
	queues(cq->context)->moderate = a->moderate;
	return 0;
}

static int rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *a)
{
	queues(qp->context)->rate = *a;
	return 0;
}

static int post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next)
		queues(wq->context)->wq_recvs++;
	return 0;
}

static struct ibv_wq *create_wq(struct ibv_context *c, struct ibv_wq_init_attr *a)
{
	NEW(ibv_wq, c, wqs);
	o->pd = a->pd;
	o->cq = a->cq;
	o->post_recv = post_wq_recv;
	a->max_wr += 3; /* a device may grant more */
	return o;
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *a)
{
	queues(wq->context)->wq_state = a->wq_state;
	return 0;
}

static int destroy_wq(struct ibv_wq *o) { FREE(o, wqs); }

static struct ibv_rwq_ind_table *create_table(struct ibv_context *c, struct ibv_rwq_ind_table_init_attr *a)
{
	for (uint32_t i = 0; i < 1u << a->log_ind_tbl_size; i++)
		if (a->ind_tbl[i]->context != c) {
			errno = EINVAL;
			return NULL;
		}
	NEW(ibv_rwq_ind_table, c, tables);
	queues(c)->table_log = a->log_ind_tbl_size;
	return o;
}

static int destroy_table(struct ibv_rwq_ind_table *o) { FREE(o, tables); }

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *a)
{
	struct rb_fake_queues *q = queues(qp->context);

	if (a->size > sizeof(q->flow)) {
		errno = EINVAL;
		return NULL;
	}
	NEW(ibv_flow, qp->context, flows);
	memcpy(q->flow, a, a->size);
	q->flow_size = a->size;
	return o;
}

static int destroy_flow(struct ibv_flow *o) { FREE(o, flows); }

static struct ibv_counters *create_counters(struct ibv_context *c, struct ibv_counters_init_attr *a)
{
	NEW(ibv_counters, c, counters);
	return o;
}

static int destroy_counters(struct ibv_counters *o) { FREE(o, counters); }

static int attach_counters(struct ibv_counters *n, struct ibv_counter_attach_attr *a, struct ibv_flow *f)
{
	queues(n->context)->point = a->counter_desc;
	queues(n->context)->point_index = a->index;
	return 0;
}

static int read_counters(struct ibv_counters *n, uint64_t *values, uint32_t len, uint32_t flags)
{
	for (uint32_t i = 0; i < len; i++)
		values[i] = queues(n->context)->value + i + (flags ? 1000 : 0);
	return 0;
}

void rb_fake_queues_ops(struct verbs_context *v)
{
	v->open_xrcd = open_xrcd;
	v->close_xrcd = close_xrcd;
	v->create_srq_ex = create_srq;
	v->get_srq_num = get_srq_num;
	v->post_srq_ops = post_srq_ops;
	v->modify_cq = modify_cq;
	v->modify_qp_rate_limit = rate_limit;
	v->create_wq = create_wq;
	v->modify_wq = modify_wq;
	v->destroy_wq = destroy_wq;
	v->create_rwq_ind_table = create_table;
	v->destroy_rwq_ind_table = destroy_table;
	v->ibv_create_flow = create_flow;
	v->ibv_destroy_flow = destroy_flow;
	v->create_counters = create_counters;
	v->destroy_counters = destroy_counters;
	v->attach_counters_point_flow = attach_counters;
	v->read_counters = read_counters;
}
