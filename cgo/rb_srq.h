#ifndef RB_SRQ_H
#define RB_SRQ_H

#include "rb_fast.h"

/* What the accounts know of a shared receive queue: how many receives were
 * posted and how many completed, on whichever queue pair. They complete in any
 * order, so a memory region is known to be free only when none is left. A batch
 * for it has its address in place of a QP's, and its uses count in recv_end. */
struct rb_srq {
	struct ibv_srq *srq;
	struct ibv_wq *wq; /* instead of srq */
	uint32_t lock __attribute__((aligned(64)));
	uint32_t closed; /* RB_SHUT or RB_GONE */
	uint64_t posted;
	uint64_t idle; /* position at which none was left, last we looked */
	uint64_t done __attribute__((aligned(64))); /* written by the polls of many CQs */
};

struct rb_srq *rb_srq_new(struct ibv_srq *srq);
void rb_srq_close(struct rb_srq *s, uint32_t closed);
void rb_srq_use_close(struct rb_srq *s, struct rb_use *u, int closed);
int rb_srq_use_busy(struct rb_srq *s, struct rb_use *u);
uint64_t rb_srq_left(struct rb_srq *s);

static inline void rb_srq_done(struct rb_srq *s, uint64_t n)
{
	__atomic_fetch_add(&s->done, n, __ATOMIC_RELEASE);
}

rb_posted rb_post_srq(uintptr_t batch);
rb_posted rb_post_poll_srq(uintptr_t batch, uintptr_t cq, int n, struct ibv_wc *wc);

#endif
