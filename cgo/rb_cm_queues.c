#include "rb_cm_queues.h"
#include "rb_result.h"

#include <rdma/rdma_verbs.h>

int rb_cm_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr,
		       struct ibv_qp **out)
{
	if (!id->verbs)
		return -EINVAL;
	errno = 0;
	int r = rb_ret(rdma_create_qp_ex(id, attr));
	if (!r)
		*out = id->qp;
	return r;
}

int rb_cm_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
		     struct ibv_srq_init_attr *attr, struct ibv_srq **out)
{
	if (!id->verbs)
		return -EINVAL;
	errno = 0;
	int r = rb_ret(rdma_create_srq(id, pd, attr));
	if (!r)
		*out = id->srq;
	return r;
}

int rb_cm_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr,
			struct ibv_srq **out)
{
	if (!id->verbs)
		return -EINVAL;
	errno = 0;
	int r = rb_ret(rdma_create_srq_ex(id, attr));
	if (!r)
		*out = id->srq;
	return r;
}

void rb_cm_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		rdma_destroy_srq(id);
}
