#include "rb_fast.h"
#include "rb_lock.h"
#include "rb_result.h"
#include "rb_srq.h"
#include "rb_wr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void lock_queues(struct rb_qp *q)
{
	lock(&q->sq_lock);
	lock(&q->rq_lock);
}

static void unlock_queues(struct rb_qp *q)
{
	unlock(&q->rq_lock);
	unlock(&q->sq_lock);
}

/* Completion queues: who is the QP of a completion? */

static struct rb_slot *cq_find(struct rb_cq *c, uint32_t qpn)
{
	if (!c->slots)
		return NULL;
	for (uint32_t i = qpn * 0x9e3779b1u;; i++) {
		struct rb_slot *s = &c->slots[i & c->mask];

		if (!s->q)
			return NULL;
		if (s->qpn == qpn)
			return s;
	}
}

static void cq_put(struct rb_cq *c, struct rb_slot v)
{
	uint32_t i = v.qpn * 0x9e3779b1u;

	while (c->slots[i & c->mask].q)
		i++;
	c->slots[i & c->mask] = v;
	c->used++;
}

static int cq_grow(struct rb_cq *c)
{
	uint32_t old = c->slots ? c->mask + 1 : 0, size = old ? 2 * old : 8;
	struct rb_slot *from = c->slots, *to = calloc(size, sizeof(*to));

	if (!to)
		return -ENOMEM;
	c->slots = to;
	c->mask = size - 1;
	c->used = 0;
	c->last = NULL;
	for (uint32_t i = 0; i < old; i++)
		if (from[i].q)
			cq_put(c, from[i]);
	free(from);
	return 0;
}

static int cq_attach(struct rb_cq *c, struct rb_qp *q, uint32_t role)
{
	int r = 0;

	if (!c)
		return 0;
	lock(&c->lock);
	struct rb_slot *s = cq_find(c, q->qpn);
	if (s && s->q == q) {
		s->roles |= role;
	} else {
		if (!c->slots || 2 * (c->used + 1) > c->mask + 1)
			r = cq_grow(c);
		if (!r)
			cq_put(c, (struct rb_slot){ .qpn = q->qpn, .roles = role, .q = q });
	}
	unlock(&c->lock);
	return r;
}

static void cq_detach(struct rb_cq *c, struct rb_qp *q)
{
	if (!c)
		return;
	lock(&c->lock);
	struct rb_slot *s = cq_find(c, q->qpn);
	if (s && s->q == q) {
		/* Close the gap, so that no search ends early: each later entry of
		 * the cluster moves up unless it would pass its home. */
		uint32_t gap = s - c->slots;

		for (uint32_t i = gap + 1; c->slots[i & c->mask].q; i++) {
			uint32_t home = c->slots[i & c->mask].qpn * 0x9e3779b1u;

			if (((i - home) & c->mask) < ((i - gap) & c->mask))
				continue;
			c->slots[gap] = c->slots[i & c->mask];
			gap = i & c->mask;
		}
		c->slots[gap].q = NULL;
		c->used--;
		c->last = NULL;
	}
	unlock(&c->lock);
}

struct rb_cq *rb_cq_new(struct ibv_cq *cq)
{
	struct rb_cq *c = aligned_alloc(64, sizeof(*c));

	if (c) {
		memset(c, 0, sizeof(*c));
		c->cq = cq;
	}
	return c;
}

void rb_cq_shut(struct rb_cq *c)
{
	lock(&c->lock);
	c->closed = EBADF;
	unlock(&c->lock);
}

/* It lost completions: what is polled from now on cannot be trusted. */
void rb_cq_poison(struct rb_cq *c)
{
	lock(&c->lock);
	if (!c->closed)
		c->closed = EIO;
	unlock(&c->lock);
}

void rb_cq_reopen(struct rb_cq *c)
{
	lock(&c->lock);
	c->closed = 0;
	unlock(&c->lock);
}

void rb_cq_free(struct rb_cq *c)
{
	free(c->slots);
	free(c);
}

/* Queue pairs. */

static int qp_attach(struct rb_qp *q)
{
	int r = cq_attach(q->send_cq, q, RB_SEND);

	if (!r)
		r = cq_attach(q->recv_cq, q, RB_RECV);
	if (r)
		cq_detach(q->send_cq, q);
	return r;
}

/* NULL where memory is short. */
struct rb_qp *rb_qp_new(struct ibv_qp *qp, struct rb_cq *send_cq, struct rb_cq *recv_cq,
			uint32_t sq_cap, uint32_t rq_cap)
{
	struct rb_qp *q = aligned_alloc(64, sizeof(*q));
	uint64_t size = 4;

	if (!q)
		return NULL;
	memset(q, 0, sizeof(*q));
	q->qp = qp;
	q->qpn = qp->qp_num;
	q->send_cq = send_cq;
	q->recv_cq = recv_cq;
	q->sq_cap = sq_cap;
	q->rq_cap = rq_cap;
	/* Twice the capacity: a QP in error takes posts beyond it. */
	while (size < 2 * (uint64_t)sq_cap)
		size *= 2;
	q->log_mask = size - 1;
	q->log = calloc(size, sizeof(*q->log));
	if (!q->log || qp_attach(q)) {
		free(q->log);
		free(q);
		return NULL;
	}
	return q;
}

/* No post and no poll reaches the QP after this: it may be destroyed. */
void rb_qp_shut(struct rb_qp *q)
{
	lock_queues(q);
	q->sq_closed = q->rq_closed = RB_SHUT;
	unlock_queues(q);
	cq_detach(q->send_cq, q);
	cq_detach(q->recv_cq, q);
}

/* The destruction failed. */
int rb_qp_reopen(struct rb_qp *q)
{
	int r = qp_attach(q);

	lock_queues(q);
	q->sq_closed = q->rq_closed = 0;
	unlock_queues(q);
	return r;
}

/* The QP is destroyed: the device touches no memory for it any more. */
void rb_qp_gone(struct rb_qp *q)
{
	lock_queues(q);
	q->sq_closed = q->rq_closed = RB_GONE;
	free(q->log);
	q->log = NULL;
	unlock_queues(q);
}

/* The QP went to RESET: whatever was posted will not complete. */
void rb_qp_reset(struct rb_qp *q)
{
	struct rb_cq *a = q->send_cq, *b = q->recv_cq;

	if (!a || !b)
		return; /* it never had any */
	if (a > b) {
		a = q->recv_cq;
		b = q->send_cq;
	}
	lock(&a->lock);
	if (b != a)
		lock(&b->lock);
	lock_queues(q);
	q->log_tail = q->log_head;
	q->sq_retired = q->sq_posted;
	rb_set(&q->send.ok, q->sq_signaled);
	rb_set(&q->send.errs, 0);
	rb_set(&q->recv.ok, q->rq_posted);
	rb_set(&q->recv.errs, 0);
	rb_set(&q->mixed_errs, 0);
	unlock_queues(q);
	if (b != a)
		unlock(&b->lock);
	unlock(&a->lock);
}

void rb_qp_free(struct rb_qp *q)
{
	free(q->log);
	free(q);
}

/* Position up to which successful completions retire the send queue: a
 * signalled completion retires its request and all before it. Walks the log
 * once per entry. Called under sq_lock. */
static uint64_t sq_retire(struct rb_qp *q)
{
	uint64_t ok = rb_get(&q->send.ok);

	for (; q->log_tail != q->log_head; q->log_tail++) {
		const struct rb_log *e = &q->log[q->log_tail & q->log_mask];

		if (e->sig_end > ok) {
			/* In the middle of a post only where every request reports
			 * do we know which one it is. */
			if (e->signaled == e->n && e->sig_end - ok < e->n)
				q->sq_retired = e->end - (e->sig_end - ok);
			break;
		}
		if (e->signaled)
			q->sq_retired = e->end - e->tail;
	}
	return q->sq_retired;
}

/* Every request of a queue in error completes, signalled or not, in order, so
 * each such completion retires at least one more. */
static uint64_t sq_retired(struct rb_qp *q)
{
	uint64_t r = sq_retire(q) + rb_get(&q->send.errs);

	return r < q->sq_posted ? r : q->sq_posted;
}

static uint64_t rq_retired(struct rb_qp *q)
{
	uint64_t r = rb_get(&q->recv.ok) + rb_get(&q->recv.errs);

	return r < q->rq_posted ? r : q->rq_posted;
}

/* Memory regions. */

void rb_use_close(struct rb_qp *q, struct rb_use *u, int closed)
{
	lock_queues(q);
	u->closed = closed;
	unlock_queues(q);
}

/* May the device still touch the region for this QP? */
int rb_use_busy(struct rb_qp *q, struct rb_use *u)
{
	int busy = 0;

	lock_queues(q);
	if (q->sq_closed != RB_GONE) {
		uint64_t s = sq_retired(q), r = rq_retired(q);
		uint64_t left = q->sq_posted - s + q->rq_posted - r;

		busy = u->send_end > s || u->recv_end > r;
		/* Both queues on one CQ, and an error: only the sum is known. */
		if (busy && rb_get(&q->mixed_errs) >= left)
			busy = 0;
	}
	unlock_queues(q);
	return busy;
}

/* Posting. */

static inline int uses_closed(const struct rb_batch *b)
{
	for (uint32_t i = 0; i < b->nuses; i++)
		if (unlikely(b->uses[i].use->closed))
			return 1;
	return 0;
}

/* The end of a use in a post of n requests from position pos on; 0 if those
 * requests do not use it. */
static inline uint64_t use_end(const struct rb_batch *b, const struct rb_batch_use *u, uint64_t pos)
{
	if (u->last < b->skip)
		return 0;
	uint32_t k = u->last - b->skip + 1;
	return pos + (k < b->n ? k : b->n);
}

#define RB_REFUSED(why) RB_POSTED(0, why, 0)

static rb_posted refuse(uint32_t *l, enum rb_refusal why)
{
	unlock(l);
	return RB_REFUSED(why);
}

/* A post that failed half-way: take back what the provider did not take. */
static __attribute__((noinline)) rb_posted
send_failed(struct rb_qp *q, const struct rb_batch *b, int err, struct ibv_send_wr *bad)
{
	uint32_t n = 0, sig = 0, tail = 0;
	struct ibv_send_wr *w = b->first;

	for (; n < b->n && w != bad; n++, w = w->next) {
		tail++;
		if (w->send_flags & IBV_SEND_SIGNALED) {
			sig++;
			tail = 0;
		}
	}
	err = -rb_ret(err);
	if (!bad)
		return RB_POSTED(n, RB_UNKNOWN, err);
	uint64_t pos = q->sq_posted - b->n, sigs = q->sq_signaled - b->signaled;
	for (uint32_t i = 0; i < b->nuses; i++)
		if (b->uses[i].use->send_end > pos + n)
			b->uses[i].use->send_end = pos + n;
	rb_set(&q->sq_posted, pos + n);
	rb_set(&q->sq_signaled, sigs + sig);
	if (n == 0)
		q->log_head--;
	else
		q->log[(q->log_head - 1) & q->log_mask] = (struct rb_log){
			.end = pos + n, .sig_end = sigs + sig, .n = n, .signaled = sig, .tail = tail };
	return RB_POSTED(n, RB_PROVIDER, err);
}

/* The accounts are written before the provider is called: its completions may
 * be polled before it returns. */
static inline __attribute__((always_inline)) rb_posted post_locked(struct rb_qp *q, const struct rb_batch *b, int bind)
{
	struct ibv_send_wr *bad = NULL;
	const uint32_t n = b->n;

	if (unlikely(q->sq_closed))
		return RB_REFUSED(RB_CLOSED);
	uint32_t state = __atomic_load_n(&q->state, __ATOMIC_RELAXED);
	if (unlikely(state < IBV_QPS_RTS || state > IBV_QPS_ERR))
		return RB_REFUSED(RB_STATE);
	if (unlikely(b->reads && !q->read_depth))
		return RB_REFUSED(RB_READ_DEPTH);

	uint64_t pos = q->sq_posted, sigs = q->sq_signaled + b->signaled;
	if (unlikely(pos + n - q->sq_retired > q->sq_cap) && state != IBV_QPS_ERR &&
	    pos + n - sq_retired(q) > q->sq_cap)
		return RB_REFUSED(RB_QUEUE_FULL);
	if (unlikely(q->log_head - q->log_tail > q->log_mask)) {
		sq_retire(q);
		if (q->log_head - q->log_tail > q->log_mask)
			return RB_REFUSED(RB_QUEUE_FULL);
	}
	if (unlikely(uses_closed(b)))
		return RB_REFUSED(RB_MR_CLOSED);
	for (uint32_t i = 0; i < b->nuses; i++) {
		uint64_t end = use_end(b, &b->uses[i], pos);

		if (end)
			b->uses[i].use->send_end = end;
	}
	q->log[q->log_head++ & q->log_mask] = (struct rb_log){
		.end = pos + n, .sig_end = sigs, .n = n, .signaled = b->signaled, .tail = b->tail };
	rb_set(&q->sq_posted, pos + n);
	rb_set(&q->sq_signaled, sigs);

	int err;
	if (bind) {
		struct ibv_send_wr *w = b->first;
		struct ibv_mw_bind v = { w->wr_id, w->send_flags, w->bind_mw.bind_info };

		err = ibv_bind_mw(q->qp, w->bind_mw.mw, &v);
		bad = w;
	} else if (likely(!q->ex)) {
		err = ibv_post_send(q->qp, b->first, &bad);
	} else {
		err = rb_wr_post(q->ex, b->first, &bad);
	}
	if (unlikely(err))
		return send_failed(q, b, err, bad);
	return RB_POSTED(n, RB_OK, 0);
}

static inline __attribute__((always_inline)) rb_posted post_send(const struct rb_batch *b, int bind)
{
	struct rb_qp *q = b->qp;

	lock(&q->sq_lock);
	rb_posted p = post_locked(q, b, bind);
	unlock(&q->sq_lock);
	return p;
}

rb_posted rb_post_send(uintptr_t batch)
{
	return post_send((const struct rb_batch *)batch, 0);
}

/* A window of type 1 is bound by a call of its own, which is a post all the same:
 * the batch has one request, which says how. */
rb_posted rb_bind_mw(uintptr_t batch)
{
	return post_send((const struct rb_batch *)batch, 1);
}

/* How many receives of a post the provider took before it refused bad. */
uint32_t rb_recvs_before(const struct rb_batch *b, const struct ibv_recv_wr *bad)
{
	uint32_t n = 0;

	for (const struct ibv_recv_wr *w = b->first; n < b->n && w != bad; w = w->next)
		n++;
	return n;
}

static __attribute__((noinline)) rb_posted
recv_failed(struct rb_qp *q, const struct rb_batch *b, int err, struct ibv_recv_wr *bad)
{
	enum rb_refusal why = bad ? RB_PROVIDER : RB_UNKNOWN;
	uint32_t n = rb_recvs_before(b, bad);

	err = -rb_ret(err);
	if (bad) {
		uint64_t pos = q->rq_posted - b->n;

		for (uint32_t i = 0; i < b->nuses; i++)
			if (b->uses[i].use->recv_end > pos + n)
				b->uses[i].use->recv_end = pos + n;
		rb_set(&q->rq_posted, pos + n);
	}
	unlock(&q->rq_lock);
	return RB_POSTED(n, why, err);
}

rb_posted rb_post_recv(uintptr_t batch)
{
	const struct rb_batch *b = (const struct rb_batch *)batch;
	struct rb_qp *q = b->qp;
	struct ibv_recv_wr *bad = NULL;
	const uint32_t n = b->n;

	lock(&q->rq_lock);
	if (unlikely(q->rq_closed))
		return refuse(&q->rq_lock, RB_CLOSED);
	uint32_t state = __atomic_load_n(&q->state, __ATOMIC_RELAXED);
	if (unlikely(state == IBV_QPS_RESET || state > IBV_QPS_ERR))
		return refuse(&q->rq_lock, RB_STATE);

	uint64_t pos = q->rq_posted;
	if (unlikely(pos + n - rq_retired(q) > q->rq_cap) && state != IBV_QPS_ERR)
		return refuse(&q->rq_lock, RB_QUEUE_FULL);
	if (unlikely(uses_closed(b)))
		return refuse(&q->rq_lock, RB_MR_CLOSED);
	for (uint32_t i = 0; i < b->nuses; i++) {
		uint64_t end = use_end(b, &b->uses[i], pos);

		if (end)
			b->uses[i].use->recv_end = end;
	}
	rb_set(&q->rq_posted, pos + n);

	int err = ibv_post_recv(q->qp, b->first, &bad);
	if (unlikely(err))
		return recv_failed(q, b, err, bad);
	unlock(&q->rq_lock);
	return RB_POSTED(n, RB_OK, 0);
}

/* Polling. */

/* A completion in error. Its opcode is undefined, so where the CQ serves both
 * queues of the QP only their fill can tell which one it was; we write the
 * answer into the opcode. */
static __attribute__((noinline)) void
account_error(struct rb_qp *q, uint32_t roles, struct ibv_wc *wc)
{
	if (roles == (RB_SEND | RB_RECV)) {
		uint64_t sends = rb_get(&q->sq_posted), recvs = rb_get(&q->rq_posted);

		/* What an SRQ holds is anybody's: it tells nothing. */
		if (!q->srq && recvs <= q->recv.ok + q->recv.errs)
			roles = RB_SEND;
		else if (sends == rb_get(&q->sq_signaled) && sends <= q->send.ok + q->send.errs)
			roles = RB_RECV;
	}
	switch (roles) {
	case RB_SEND:
		rb_set(&q->send.errs, q->send.errs + 1);
		wc->opcode = IBV_WC_SEND;
		break;
	case RB_RECV:
		rb_set(&q->recv.errs, q->recv.errs + 1);
		if (q->srq)
			rb_srq_done(q->srq, 1);
		wc->opcode = IBV_WC_RECV;
		break;
	default:
		rb_set(&q->mixed_errs, q->mixed_errs + 1);
		wc->opcode = (enum ibv_wc_opcode)RB_WC_UNKNOWN;
	}
	uint32_t state = rb_get(&q->state);
	if (state > IBV_QPS_INIT && state < IBV_QPS_ERR)
		__atomic_compare_exchange_n(&q->state, &state, IBV_QPS_ERR, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

static int count_recvs(const struct ibv_wc *wc, int n)
{
	int recvs = 0;

	for (int i = 0; i < n; i++)
		recvs += (wc[i].opcode & IBV_WC_RECV) / IBV_WC_RECV;
	return recvs;
}

/* How many of n completions, from the first on, are successes of the QP. Four at
 * a time without a branch: this loop is what the accounts cost each request. */
static int count_ok(const struct ibv_wc *wc, int n, uint32_t qpn)
{
	int i = 0;

	for (; i + 4 <= n; i += 4) {
		const struct ibv_wc *w = &wc[i];

		if (unlikely(w[0].status | w[1].status | w[2].status | w[3].status |
			     (w[0].qp_num ^ qpn) | (w[1].qp_num ^ qpn) |
			     (w[2].qp_num ^ qpn) | (w[3].qp_num ^ qpn)))
			break;
	}
	while (i < n && wc[i].status == IBV_WC_SUCCESS && wc[i].qp_num == qpn)
		i++;
	return i;
}

/* Counts n completions to their QPs, one run of a QP at a time. */
static void account(struct rb_cq *c, struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n;) {
		const uint32_t qpn = wc[i].qp_num;
		struct rb_slot *s = c->last;

		if (unlikely(!s || s->qpn != qpn)) {
			s = cq_find(c, qpn);
			if (s)
				c->last = s;
		}
		const int ok = count_ok(&wc[i], n - i, qpn);
		if (likely(s && ok)) {
			const int recvs = s->roles == RB_SEND ? 0 : s->roles == RB_RECV ? ok : count_recvs(&wc[i], ok);

			rb_set(&s->q->send.ok, s->q->send.ok + ok - recvs);
			rb_set(&s->q->recv.ok, s->q->recv.ok + recvs);
			if (unlikely(s->q->srq))
				rb_srq_done(s->q->srq, recvs);
		}
		i += ok;
		if (i < n && wc[i].qp_num == qpn) {
			if (s)
				account_error(s->q, s->roles, &wc[i]);
			else
				wc[i].opcode = (enum ibv_wc_opcode)RB_WC_UNKNOWN;
			i++;
		}
	}
}

/* Soft-RoCE gives the kernel's flag of a SEND with invalidate, whose bit means
 * something else in user space: a checksum, which it never checks. */
static __attribute__((noinline)) void rxe_flags(struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n; i++)
		if (wc[i].wc_flags & IBV_WC_IP_CSUM_OK)
			wc[i].wc_flags ^= IBV_WC_IP_CSUM_OK | IBV_WC_WITH_INV;
}

/* What becomes of completions however they were read, under the CQ's lock. */
static inline void polled(struct rb_cq *c, struct ibv_wc *wc, int n)
{
	account(c, wc, n);
	if (unlikely(c->rxe))
		rxe_flags(wc, n);
}

void rb_account(struct rb_cq *c, struct ibv_wc *wc, int n)
{
	polled(c, wc, n);
}

static inline int poll(struct rb_cq *c, int n, struct ibv_wc *wc)
{
	int r = ibv_poll_cq(c->cq, n, wc);

	if (likely(r > 0))
		polled(c, wc, r);
	else if (unlikely(r < 0))
		r = -EIO; /* the number is each provider's own */
	return r;
}

int rb_poll(uintptr_t cq, int n, struct ibv_wc *wc)
{
	struct rb_cq *c = (struct rb_cq *)cq;

	lock(&c->lock);
	int r = likely(!c->closed) ? poll(c, n, wc) : -(int)c->closed;
	unlock(&c->lock);
	return r;
}

static int notify(struct rb_cq *c, int solicited)
{
	return rb_ret(ibv_req_notify_cq(c->cq, solicited));
}

/* Raises an event for the next completion; a closed CQ has none. */
int rb_arm(struct rb_cq *c)
{
	lock(&c->lock);
	int r = c->closed ? 0 : notify(c, 0);
	unlock(&c->lock);
	return r;
}

/* Drain, arm, drain again. A notification is raised only by what comes after
 * arming, so the second look is what closes the race; only where it too finds
 * nothing (0) may the caller sleep. */
int rb_poll_arm(uintptr_t cq, int n, struct ibv_wc *wc, int solicited)
{
	struct rb_cq *c = (struct rb_cq *)cq;

	lock(&c->lock);
	int r = likely(!c->closed) ? poll(c, n, wc) : -(int)c->closed;
	if (r == 0)
		r = notify(c, solicited);
	if (r == 0)
		r = poll(c, n, wc);
	unlock(&c->lock);
	return r;
}

static int any_failed(const struct ibv_wc *wc, int n)
{
	uint32_t bad = 0;

	for (int i = 0; i < n; i++)
		bad |= wc[i].status;
	return bad;
}

/* Polls until want completions are there, one of them failed, or spin_ns are
 * over; *took (or NULL) is how long it did, 0 where they were there at once. The
 * clock is looked at now and then only, and nothing relaxes: both would be time in
 * which what has come is not seen. */
int rb_poll_spin(uintptr_t cq, int n, struct ibv_wc *wc, int want, uint64_t spin_ns, uint64_t *took)
{
	uint64_t begin = 0;
	int got = 0;

	for (uint32_t turn = 0;; turn++) {
		int r = rb_poll(cq, n - got, wc + got);

		if (unlikely(r < 0))
			return got ? got : r;
		got += r;
		if (got >= want || any_failed(wc + got - r, r))
			break;
		if (!begin)
			begin = now_ns();
		else if (turn % 8 == 0 && now_ns() - begin >= spin_ns)
			break;
	}
	if (took)
		*took = begin ? now_ns() - begin : 0;
	return got;
}

/* Post and poll at the price of one crossing. A refused post polls all the same:
 * completions are what makes room for the next. */
rb_posted rb_post_poll_send(uintptr_t batch, uintptr_t cq, int n, struct ibv_wc *wc)
{
	struct rb_batch *b = (struct rb_batch *)batch;
	rb_posted r = rb_post_send(batch);

	if (b->want && likely(r == RB_POSTED(b->n, RB_OK, 0)))
		b->polled = rb_poll_spin(cq, n, wc, b->want, b->spin_ns, NULL);
	else
		b->polled = rb_poll(cq, n, wc);
	return r;
}

rb_posted rb_post_poll_recv(uintptr_t batch, uintptr_t cq, int n, struct ibv_wc *wc)
{
	rb_posted r = rb_post_recv(batch);

	((struct rb_batch *)batch)->polled = rb_poll(cq, n, wc);
	return r;
}

/* The engine. */

/* The engine takes every completion off the CQ, so the CQ must be the send
 * queue's own, and nothing signalled may be on its way. */
int rb_run_start(uintptr_t run)
{
	struct rb_run *r = (struct rb_run *)run;
	struct rb_qp *q = r->batch->qp;
	struct rb_cq *c = q->send_cq;
	int e = 0;

	lock(&c->lock);
	struct rb_slot *s = cq_find(c, q->qpn);
	if (c->closed || !s || s->q != q)
		e = -EBADF;
	else if (c->used != 1 || s->roles != RB_SEND)
		e = -EINVAL;
	else if (q->send.ok + q->send.errs < rb_get(&q->sq_signaled))
		e = -EBUSY;
	unlock(&c->lock);
	r->start = rb_get(&q->sq_posted);
	return e;
}

/* The queue is in error and the last request is flushed, so nothing is on its
 * way: the accounts, which count completions, cannot know that of requests that
 * were to complete in silence. Not where somebody else has posted as well. */
static void run_settle(struct rb_run *r, struct rb_qp *q)
{
	if (q->sq_posted == r->start + r->posted) {
		q->log_tail = q->log_head;
		q->sq_retired = q->sq_posted;
	}
}

static void run_post(struct rb_run *r, struct rb_qp *q)
{
	struct rb_batch *b = r->batch;
	struct ibv_send_wr *wrs = r->wrs;

	while (r->posted < r->n) {
		uint32_t at = r->posted, k = r->n - at < r->chunk ? r->n - at : r->chunk;

		if (at + k - r->done > r->window)
			return;
		/* Here, where the post will read them anyway. */
		for (uint32_t i = at; i < at + k; i++) {
			wrs[i].wr_id = i;
			wrs[i].send_flags &= ~IBV_SEND_SIGNALED;
		}
		struct ibv_send_wr *last = &wrs[at + k - 1], *next = last->next;
		last->send_flags |= IBV_SEND_SIGNALED;
		last->next = NULL;
		b->first = &wrs[at];
		b->n = k;
		b->skip = at;
		rb_posted p = post_locked(q, b, 0);
		last->next = next;
		if (unlikely(p != RB_POSTED(k, RB_OK, 0))) {
			r->refused = p;
			r->stop = 1;
			__atomic_store_n(&r->posted, at + (uint32_t)p, __ATOMIC_RELEASE);
			return;
		}
		r->end = at + k;
		__atomic_store_n(&r->posted, at + k, __ATOMIC_RELEASE);
	}
}

static void run_take(struct rb_run *r, const struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n; i++) {
		const uint64_t at = wc[i].wr_id;

		if (unlikely(at >= r->posted))
			continue;
		if (likely(!wc[i].status)) {
			__atomic_store_n(&r->done, at + 1, __ATOMIC_RELEASE);
			continue;
		}
		if (!r->status) {
			r->status = wc[i].status;
			r->vendor_err = wc[i].vendor_err;
			r->failed = at;
			r->stop = 1;
			/* Those before it on the queue succeeded: it keeps their order. */
			__atomic_store_n(&r->done, at, __ATOMIC_RELEASE);
		}
		r->drained = at + 1 == r->posted;
	}
}

static int run_step(struct rb_run *r, struct rb_qp *q, struct rb_cq *c, uint64_t spin_ns, int arm)
{
	uint64_t begin = 0, idle = 0;
	struct ibv_wc wc[16];
	int armed = 0;

	for (uint32_t turn = 1;; turn++) {
		if (!r->stop)
			run_post(r, q);
		int n = poll(c, 16, wc);
		if (unlikely(n < 0))
			return n;
		if (n) {
			run_take(r, wc, n);
			idle = 0;
			armed = 0;
		}
		if (r->status ? r->drained : r->done == r->end && (r->stop || r->posted == r->n)) {
			if (r->status)
				run_settle(r, q);
			return 0;
		}
		if (unlikely(!n)) {
			if (armed)
				return 1;
			uint64_t t = now_ns();
			if (!idle)
				idle = t;
			if (t - idle >= spin_ns) {
				if (!arm)
					return 1;
				int e = notify(c, 0);
				if (e)
					return e;
				armed = 1;
				continue;
			}
			relax();
		}
		if ((turn & 63) == 0) {
			uint64_t t = now_ns();

			if (!begin)
				begin = t;
			if (t - begin > 1000000)
				return 2;
		}
	}
}

/* Runs until the list is done (0), there is nothing to do for spin_ns (1; with
 * arm, notification is armed), a turn of a millisecond is over, for the caller
 * to look at its context (2), or the CQ fails (negative).
 *
 * Both queues are the run's own: only a Close can want their locks, and waits for
 * the step. Taken once a step and not once a post, they cost a list nothing: an
 * atomic instruction waits until all that the last loop wrote is in the cache. */
int rb_run_step(uintptr_t run, uint64_t spin_ns, int arm)
{
	struct rb_run *r = (struct rb_run *)run;
	struct rb_qp *q = r->batch->qp;
	struct rb_cq *c = q->send_cq;

	lock(&c->lock);
	lock(&q->sq_lock);
	int n = c->closed ? -(int)c->closed : q->sq_closed ? -EBADF : run_step(r, q, c, spin_ns, arm);
	unlock(&q->sq_lock);
	unlock(&c->lock);
	return n;
}
