#include "rb_wq.h"
#include "rb_result.h"

#include <stdlib.h>

struct rb_wq_r rb_create_wq(struct ibv_context *c, struct ibv_wq_init_attr *attr)
{
	return RB_RESULT(rb_wq_r, ibv_create_wq(c, attr));
}

int rb_modify_wq(struct ibv_wq *wq, uint32_t state)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state };

	errno = 0;
	return rb_ret(ibv_modify_wq(wq, &a));
}

int rb_destroy_wq(struct ibv_wq *wq)
{
	errno = 0;
	return rb_ret(ibv_destroy_wq(wq));
}

/* A receive queue of many queue pairs, as an SRQ is, to the accounts. */
struct rb_srq *rb_wq_new(struct ibv_wq *wq)
{
	struct rb_srq *s = rb_srq_new(NULL);

	if (s)
		s->wq = wq;
	return s;
}

/* The queues come as numbers: they are pointers of C's, in memory of Go's. */
struct rb_ind_r rb_create_ind_table(struct ibv_context *c, uint32_t log, const uintptr_t *wqs)
{
	struct ibv_rwq_ind_table_init_attr a = { .log_ind_tbl_size = log, .ind_tbl = (struct ibv_wq **)wqs };

	return RB_RESULT(rb_ind_r, ibv_create_rwq_ind_table(c, &a));
}

int rb_destroy_ind_table(struct ibv_rwq_ind_table *t)
{
	errno = 0;
	return rb_ret(ibv_destroy_rwq_ind_table(t));
}

/* The key is Go's, which a struct of Go's must not point to. */
struct rb_rss_r rb_create_rss(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr, struct ibv_rwq_ind_table *t,
			      uint8_t func, const uint8_t *key, uint8_t len, uint64_t fields)
{
	struct ibv_qp_init_attr_ex a = *attr;

	a.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	a.rwq_ind_tbl = t;
	a.rx_hash_conf = (struct ibv_rx_hash_conf){ func, len, (uint8_t *)key, fields };
	return RB_RESULT(rb_rss_r, ibv_create_qp_ex(c, &a));
}
