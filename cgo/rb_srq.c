#include "rb_srq.h"
#include "rb_lock.h"
#include "rb_result.h"

#include <stdlib.h>
#include <string.h>

/* NULL where memory is short. */
struct rb_srq *rb_srq_new(struct ibv_srq *srq)
{
	struct rb_srq *s = aligned_alloc(64, sizeof(*s));

	if (s) {
		memset(s, 0, sizeof(*s));
		s->srq = srq;
	}
	return s;
}

/* RB_SHUT before the SRQ is destroyed, RB_GONE after, 0 where that failed. */
void rb_srq_close(struct rb_srq *s, uint32_t closed)
{
	lock(&s->lock);
	s->closed = closed;
	unlock(&s->lock);
}

void rb_srq_use_close(struct rb_srq *s, struct rb_use *u, int closed)
{
	lock(&s->lock);
	u->closed = closed;
	unlock(&s->lock);
}

/* How many receives are posted and not known to be complete. Called under the lock. */
static uint64_t left(struct rb_srq *s)
{
	uint64_t done = rb_get(&s->done);
	uint64_t n = s->posted > done ? s->posted - done : 0;

	if (!n)
		s->idle = s->posted;
	return n;
}

uint64_t rb_srq_left(struct rb_srq *s)
{
	lock(&s->lock);
	uint64_t n = left(s);
	unlock(&s->lock);
	return n;
}

int rb_srq_use_busy(struct rb_srq *s, struct rb_use *u)
{
	int busy = 0;

	lock(&s->lock);
	if (s->closed != RB_GONE)
		busy = left(s) && u->recv_end > s->idle;
	unlock(&s->lock);
	return busy;
}

/* The device refuses what it has no room for: a queue pair that is destroyed
 * takes receives with it that we never hear of, so our count is no better. */
rb_posted rb_post_srq(uintptr_t batch)
{
	const struct rb_batch *b = (const struct rb_batch *)batch;
	struct rb_srq *s = (struct rb_srq *)b->qp;
	enum rb_refusal why = RB_OK;
	struct ibv_recv_wr *bad = NULL;
	uint32_t n = b->n;
	int err = 0;

	lock(&s->lock);
	if (unlikely(s->closed))
		why = RB_CLOSED;
	for (uint32_t i = 0; i < b->nuses; i++)
		if (unlikely(b->uses[i].use->closed))
			why = why ? why : RB_MR_CLOSED;
	if (unlikely(why)) {
		unlock(&s->lock);
		return RB_POSTED(0, why, 0);
	}
	left(s);
	for (uint32_t i = 0; i < b->nuses; i++)
		b->uses[i].use->recv_end = s->posted + n;
	/* Before the call: completions may be polled before it returns. */
	s->posted += n;
	err = s->wq ? ibv_post_wq_recv(s->wq, b->first, &bad) : ibv_post_srq_recv(s->srq, b->first, &bad);
	if (unlikely(err)) {
		err = -rb_ret(err);
		why = bad ? RB_PROVIDER : RB_UNKNOWN;
		n = rb_recvs_before(b, bad);
		s->posted -= b->n - n;
	}
	unlock(&s->lock);
	return RB_POSTED(n, why, err);
}

rb_posted rb_post_poll_srq(uintptr_t batch, uintptr_t cq, int n, struct ibv_wc *wc)
{
	rb_posted r = rb_post_srq(batch);

	((struct rb_batch *)batch)->polled = rb_poll(cq, n, wc);
	return r;
}
