#include "rb_tune.h"
#include "rb_result.h"

#include <stdlib.h>
#include <string.h>

int rb_rate_limit(struct ibv_qp *qp, uint32_t kbps, uint32_t burst, uint16_t packet)
{
	struct ibv_qp_rate_limit_attr a = { .rate_limit = kbps, .max_burst_sz = burst, .typical_pkt_sz = packet };

	errno = 0;
	return rb_ret(ibv_modify_qp_rate_limit(qp, &a));
}

int rb_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	errno = 0;
	return rb_ret(ibv_set_ece(qp, ece));
}

int rb_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	errno = 0;
	return rb_ret(ibv_query_ece(qp, ece));
}

int rb_data_in_order(struct ibv_qp *qp, int op)
{
	return ibv_query_qp_data_in_order(qp, op, 0);
}

/* Returns the VLAN, 0xffff for none, which fits beside the errno. */
int64_t rb_resolve_l2(struct ibv_context *c, struct ibv_ah_attr *attr, uint8_t *mac)
{
	uint16_t vlan = 0xffff;

	errno = 0;
	int r = rb_ret(ibv_resolve_eth_l2_from_gid(c, attr, mac, &vlan));
	return r ? r : vlan;
}

/* The specs follow the head in memory, which Go cannot lay out. */
struct rb_flow_r rb_create_flow(struct ibv_qp *qp, const struct ibv_flow_attr *head, const void *specs, size_t len)
{
	struct rb_flow_r r = { NULL, -ENOMEM };
	struct ibv_flow_attr *a = calloc(1, sizeof(*a) + len);

	if (!a)
		return r;
	*a = *head;
	a->size = sizeof(*a) + len;
	if (len)
		memcpy(a + 1, specs, len);
	r = RB_RESULT(rb_flow_r, ibv_create_flow(qp, a));
	free(a);
	return r;
}

int rb_destroy_flow(struct ibv_flow *f)
{
	errno = 0;
	return rb_ret(ibv_destroy_flow(f));
}

struct rb_counters_r rb_create_counters(struct ibv_context *c)
{
	struct ibv_counters_init_attr a = { 0 };

	return RB_RESULT(rb_counters_r, ibv_create_counters(c, &a));
}

int rb_destroy_counters(struct ibv_counters *n)
{
	errno = 0;
	return rb_ret(ibv_destroy_counters(n));
}

int rb_attach_counters(struct ibv_counters *n, int what, uint32_t index, struct ibv_flow *f)
{
	struct ibv_counter_attach_attr a = { .counter_desc = what, .index = index };

	errno = 0;
	return rb_ret(ibv_attach_counters_point_flow(n, &a, f));
}

int rb_read_counters(struct ibv_counters *n, uint64_t *values, uint32_t len, uint32_t flags)
{
	errno = 0;
	return rb_ret(ibv_read_counters(n, values, len, flags));
}
