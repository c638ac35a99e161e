#include "rb_tags.h"
#include "rb_lock.h"
#include "rb_result.h"

/* Each completion of the list counts as one of a receive when it is polled, so
 * it is counted here too: that of the operation, if there is one, and that of a
 * receive that was added. Returns the receive's handle, which fits beside the
 * errno. */
static int64_t post(struct rb_srq *s, struct ibv_ops_wr *op)
{
	struct ibv_ops_wr *bad = NULL;
	uint64_t n = !!(op->flags & IBV_OPS_SIGNALED) + (op->opcode == IBV_WR_TAG_ADD);
	int r = -EBADF;

	lock(&s->lock);
	if (!s->closed) {
		s->posted += n;
		errno = 0;
		r = rb_ret(ibv_post_srq_ops(s->srq, op, &bad));
		if (r)
			s->posted -= n;
	}
	unlock(&s->lock);
	return r ? r : (int64_t)op->tm.handle;
}

int64_t rb_srq_op(struct rb_srq *s, int opcode, int flags, uint64_t id, uint32_t unexpected, uint32_t handle)
{
	struct ibv_ops_wr op = { .wr_id = id, .opcode = opcode, .flags = flags,
				 .tm = { .unexpected_cnt = unexpected, .handle = handle } };

	return post(s, &op);
}

int64_t rb_srq_add(struct rb_srq *s, int flags, uint64_t id, uint32_t unexpected, uint64_t recv_id,
		   struct ibv_sge *sges, int n, uint64_t tag, uint64_t mask)
{
	struct ibv_ops_wr op = { .wr_id = id, .opcode = IBV_WR_TAG_ADD, .flags = flags,
				 .tm = { .unexpected_cnt = unexpected,
					 .add = { .recv_wr_id = recv_id, .sg_list = sges, .num_sge = n,
						  .tag = tag, .mask = mask } } };

	return post(s, &op);
}
