#ifndef RB_FAKE_QUEUES_H
#define RB_FAKE_QUEUES_H

#include <stdint.h>
#include <infiniband/verbs.h>

/* What was made of the kinds that few devices have, and what was asked last. */
struct rb_fake_queues {
	int xrcds, srqs, wqs, tables, flows, counters; /* alive */
	struct ibv_srq_init_attr_ex srq;
	struct ibv_ops_wr op; /* the last change of a list of tags, */
	struct ibv_sge op_sge; /* and the first piece of memory that it named */
	int op_errno;
	struct ibv_moderate_cq moderate;
	struct ibv_qp_rate_limit_attr rate;
	uint32_t wq_state, wq_recvs, table_log, point, point_index;
	uint8_t flow[256]; /* as it was described */
	uint32_t flow_size;
	uint64_t value; /* of the first counter; each later one has one more */
};

void rb_fake_queues_ops(struct verbs_context *v);
void rb_fake_srq_free(struct ibv_srq *srq);

#endif
