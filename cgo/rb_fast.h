#ifndef RB_FAST_H
#define RB_FAST_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/*
 * The fast path: post and poll, and the accounts that tell which memory the
 * device may still touch.
 *
 * The accounts cost a few instructions per post and per run of completions, not
 * per request: a post writes one log entry and marks the memory regions it
 * uses with the position up to which they are busy; a poll only counts. What
 * the counts mean is worked out when somebody asks (rb_use_busy).
 *
 * Positions count requests since the queue was created or reset. The lock of a
 * queue also is the guard against its destruction: closed is set under it, and
 * records outlive the verbs objects (Go frees them when nothing can reach them),
 * so a late call finds a closed record and not freed memory.
 */

struct rb_qp;
struct rb_srq;

/* One memory region's use by one QP: it is busy until the requests up to these
 * positions are retired. Written under the QP's queue locks. */
struct rb_use {
	uint64_t send_end;
	uint64_t recv_end;
	uint32_t closed; /* the region is being closed: no further posts */
};

/* A region that a batch uses, and the index of its last request that does. */
struct rb_batch_use {
	struct rb_use *use;
	uint32_t last;
	uint32_t pad;
};

/* What one post needs, written in place by Go, so that a crossing carries a
 * single argument. Mirrored by cgo.Batch. */
struct rb_batch {
	struct rb_qp *qp;
	void *first; /* struct ibv_send_wr or ibv_recv_wr */
	struct rb_batch_use *uses;
	uint32_t n;
	uint32_t skip;     /* requests of the batch before first */
	uint32_t signaled; /* of these n, how many are signalled */
	uint32_t tail;     /* how many follow the last signalled one */
	uint32_t reads;    /* how many are READs or atomics */
	uint32_t nuses;
	int32_t polled; /* what rb_post_poll's poll returned */
	uint32_t want;  /* rb_post_poll_send spins until so many are there, */
	uint32_t spin_ns; /* or so long */
	uint32_t pad;
};

/* The engine: a list of requests, posted in chunks of which the last request is
 * signalled, within a window. Each wr_id is the request's index, which is how an
 * error names it. Written by the one who steps; posted and done are read by
 * anyone. Mirrored by cgo.Run. */
struct rb_run {
	struct rb_batch *batch; /* its own header: first, n and skip move */
	struct ibv_send_wr *wrs;
	uint64_t refused; /* rb_posted of a post that failed */
	uint64_t failed;  /* index of the first request that completed in error */
	uint64_t start;   /* position of the first request on the send queue */
	uint32_t n;
	uint32_t window; /* most requests in flight */
	uint32_t chunk;  /* requests of each post */
	uint32_t stop;   /* post no more */
	uint32_t posted;
	uint32_t end;  /* requests whose success a signalled completion tells */
	uint32_t done; /* requests known to have succeeded */
	uint32_t status, vendor_err; /* of the first error */
	uint32_t drained; /* after an error: the last posted request is flushed */
};

/* One accepted post on the send queue. */
struct rb_log {
	uint64_t end;     /* position after its last request */
	uint64_t sig_end; /* signalled requests up to there */
	uint32_t n, signaled, tail, pad;
};

/* Completions of one queue pair, written by whoever polls, under the CQ's lock. */
struct rb_done {
	uint64_t ok;   /* successful completions */
	uint64_t errs; /* completions in error */
};

struct rb_cq;

struct rb_qp {
	struct ibv_qp *qp;
	struct rb_cq *send_cq, *recv_cq;
	struct rb_srq *srq; /* receives for it, or NULL */
	struct ibv_qp_ex *ex; /* post by ibv_wr_*; NULL: classically */
	uint32_t state;      /* enum ibv_qp_state, as far as we know */
	uint32_t read_depth; /* READs and atomics this side may start */
	uint32_t sq_cap, rq_cap;
	uint32_t qpn;

	uint32_t sq_lock __attribute__((aligned(64)));
	uint32_t sq_closed; /* RB_SHUT or RB_GONE */
	uint64_t sq_posted;
	uint64_t sq_signaled;
	uint64_t sq_retired; /* as of the last look; see rb_sq_retire */
	uint64_t log_head, log_tail, log_mask;
	struct rb_log *log;

	uint32_t rq_lock __attribute__((aligned(64)));
	uint32_t rq_closed;
	uint64_t rq_posted;

	struct rb_done send __attribute__((aligned(64)));
	struct rb_done recv;
	uint64_t mixed_errs; /* completions in error of which nobody can tell the queue */
};

struct rb_slot {
	uint32_t qpn;
	uint32_t roles; /* RB_SEND | RB_RECV */
	struct rb_qp *q;
};

enum { RB_SEND = 1, RB_RECV = 2 };
enum { RB_SHUT = 1, RB_GONE = 2 };

/* An opcode of ours: a completion in error of an unknown queue. */
enum { RB_WC_UNKNOWN = 0xffff };

struct rb_cq {
	struct ibv_cq *cq;
	uint32_t lock __attribute__((aligned(64)));
	uint32_t closed; /* errno of what is done with it, or 0 */
	uint32_t rxe;    /* Soft-RoCE's: see rxe_flags */
	uint64_t fields; /* of an extended one: enum ibv_create_cq_wc_flags */
	struct rb_slot *slots; /* open addressing by QP number, at most half full */
	uint32_t mask, used;
	struct rb_slot *last;
};

/* Why a post was refused without asking the provider. */
enum rb_refusal {
	RB_OK = 0,
	RB_CLOSED,      /* the QP is closed */
	RB_STATE,       /* the QP's state allows no such request */
	RB_READ_DEPTH,  /* READ or atomic, and the initiator depth is 0 */
	RB_QUEUE_FULL,  /* more requests than the queue has room for */
	RB_MR_CLOSED,   /* a memory region of the batch is closed */
	RB_PROVIDER,    /* the provider refused: err is its errno */
	RB_UNKNOWN,     /* as above, and it did not say where it stopped */
};

/* The outcome of a post in one register, because three fields written one by one
 * and read as two cost a stall longer than the rest of the call: requests in
 * flight now, enum rb_refusal, errno. */
typedef uint64_t rb_posted;
#define RB_POSTED(accepted, why, err) \
	((uint32_t)(accepted) | (uint64_t)(why) << 32 | (uint64_t)(uint16_t)(err) << 48)

struct rb_qp *rb_qp_new(struct ibv_qp *qp, struct rb_cq *send_cq, struct rb_cq *recv_cq,
			uint32_t sq_cap, uint32_t rq_cap);
void rb_qp_shut(struct rb_qp *q);
int rb_qp_reopen(struct rb_qp *q);
void rb_qp_gone(struct rb_qp *q);
void rb_qp_reset(struct rb_qp *q);
void rb_qp_free(struct rb_qp *q);

struct rb_cq *rb_cq_new(struct ibv_cq *cq);
void rb_cq_shut(struct rb_cq *c);
void rb_cq_reopen(struct rb_cq *c);
void rb_cq_poison(struct rb_cq *c);
void rb_cq_free(struct rb_cq *c);
void rb_account(struct rb_cq *c, struct ibv_wc *wc, int n);

void rb_use_close(struct rb_qp *q, struct rb_use *u, int closed);
int rb_use_busy(struct rb_qp *q, struct rb_use *u);

uint32_t rb_recvs_before(const struct rb_batch *b, const struct ibv_recv_wr *bad);
rb_posted rb_post_send(uintptr_t batch);
rb_posted rb_post_recv(uintptr_t batch);
rb_posted rb_bind_mw(uintptr_t batch);
int rb_poll(uintptr_t cq, int n, struct ibv_wc *wc);
int rb_poll_arm(uintptr_t cq, int n, struct ibv_wc *wc, int solicited);
int rb_arm(struct rb_cq *c);
int rb_poll_spin(uintptr_t cq, int n, struct ibv_wc *wc, int want, uint64_t spin_ns, uint64_t *took);
int rb_run_start(uintptr_t run);
int rb_run_step(uintptr_t run, uint64_t spin_ns, int arm);
rb_posted rb_post_poll_send(uintptr_t batch, uintptr_t cq, int n, struct ibv_wc *wc);
rb_posted rb_post_poll_recv(uintptr_t batch, uintptr_t cq, int n, struct ibv_wc *wc);

#endif
