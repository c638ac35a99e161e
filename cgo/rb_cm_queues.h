// Queues that librdmacm makes for an id; see rb_cm.h for the conventions.
#ifndef RB_CM_QUEUES_H
#define RB_CM_QUEUES_H

#include "rb_cm.h"

int rb_cm_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr,
		       struct ibv_qp **out);
int rb_cm_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
		     struct ibv_srq_init_attr *attr, struct ibv_srq **out);
int rb_cm_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr,
			struct ibv_srq **out);
void rb_cm_destroy_srq(struct rdma_cm_id *id);

#endif
