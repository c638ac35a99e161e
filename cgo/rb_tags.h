#ifndef RB_TAGS_H
#define RB_TAGS_H

#include "rb_srq.h"

int64_t rb_srq_op(struct rb_srq *s, int opcode, int flags, uint64_t id, uint32_t unexpected, uint32_t handle);
int64_t rb_srq_add(struct rb_srq *s, int flags, uint64_t id, uint32_t unexpected, uint64_t recv_id,
		   struct ibv_sge *sges, int n, uint64_t tag, uint64_t mask);

#endif
