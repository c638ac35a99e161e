#ifndef RB_FAKE_H
#define RB_FAKE_H

#include <stdint.h>
#include <infiniband/verbs.h>

#include "rb_fake_memory.h"
#include "rb_fake_queues.h"

/* Counts what is alive; objects are made and freed by many threads at once. */
static inline void rb_fake_count(int *alive, int by)
{
	__atomic_fetch_add(alive, by, __ATOMIC_RELAXED);
}

/* A request in the ring of a work queue, laid out like a NIC's: control,
 * remote address, two pieces of local memory. */
struct rb_fake_wqe {
	uint32_t op_index, qpn_size, flags, imm;
	uint64_t raddr;
	uint32_t rkey, pad;
	struct { uint32_t length, lkey; uint64_t addr; } data[2];
} __attribute__((aligned(64)));

/* A completion as hardware writes it: it knows the request by its index. */
struct rb_fake_cqe {
	uint32_t index, qpn, byte_len, imm;
	uint32_t status, opcode, vendor_err, flags;
	uint64_t qp; /* a driver looks it up by its number */
	uint64_t pad[2];
	uint32_t recv, owner;
} __attribute__((aligned(64)));

struct rb_fake_qp;

struct rb_fake_cq {
	struct ibv_cq cq;
	struct rb_fake_cqe *ring;
	uint64_t head, tail; /* written, polled */
	uint32_t mask, armed, overrun;
	int poll_result; /* negative: what poll returns */
	int notify_result;
	struct rb_fake_qp *late; /* completes its oldest send when the CQ is armed */
};

struct rb_fake_queue {
	struct rb_fake_wqe *ring;
	uint64_t *ids;
	uint64_t posted, done, polled;
	uint32_t mask;
	/* The post of this request fails, counting down; -1 for none. */
	int64_t fail_in;
	int fail_errno, fail_silent; /* silent: bad_wr stays NULL */
};

struct rb_fake_qp {
	struct ibv_qp qp;
	struct rb_fake_queue sq, rq;
	int hold; /* requests do not complete by themselves */
	struct ibv_send_wr odd; /* the last request that the ring does not show whole */
	uint8_t header[64];     /* of a TSO */
};

struct rb_fake_device {
	struct ibv_device dev;
	struct verbs_context vctx; /* the context is its last field */
	struct ibv_pd pd;
	struct rb_fake_memory memory;
	struct rb_fake_queues queues;
};

struct rb_fake_device *rb_fake_open(void);
struct rb_fake_cq *rb_fake_cq_new(struct rb_fake_device *d, int cqe);
struct rb_fake_qp *rb_fake_qp_new(struct rb_fake_device *d, struct rb_fake_cq *send_cq,
				  struct rb_fake_cq *recv_cq, uint32_t qpn, uint32_t depth);
void rb_fake_device_free(struct rb_fake_device *d);
void rb_fake_cq_free(struct rb_fake_cq *c);
void rb_fake_qp_free(struct rb_fake_qp *q);

int rb_fake_complete(struct rb_fake_qp *q, int recv, int n, int status, uint32_t imm, uint32_t len);

void rb_fake_nop(void);
uint64_t rb_fake_loop(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_send_wr *wr, struct ibv_sge *sge,
		      uint64_t base, uint32_t length, int batch, int rounds);
uint64_t rb_fake_run(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_send_wr *wr, uint32_t n, uint32_t window,
		     uint32_t chunk);

#endif
