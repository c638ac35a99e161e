#ifndef RB_FAKE_WR_H
#define RB_FAKE_WR_H

#include "rb_fake.h"

enum { RB_FAKE_WR_FLUSH = 14, RB_FAKE_WC_FLUSH = 8 };

/* A queue pair that is posted to by ibv_wr_*: the calls gather a chain, which
 * complete posts the classic way. The queue pair is its first field's, so that
 * post_send finds it through q. */
struct rb_fake_ex {
	struct ibv_qp_ex ex;
	void *newer[4]; /* calls that came after the headers of rdma-core 44 */
	struct rb_fake_qp *q;
	struct ibv_send_wr wrs[16];
	struct ibv_sge sges[16][4];
	int n, complete_errno, aborted;
};

/* What the ring does not show of a request; the opcode tells which fields mean
 * anything. */
struct rb_fake_odd {
	uint64_t addr, length, word;
	uint32_t access, rkey, qpn, qkey, srqn;
	uint16_t hdr_sz, mss;
	uint8_t placement, selectivity;
};

struct rb_fake_odd rb_fake_odd_of(const struct rb_fake_qp *q);
struct rb_fake_ex *rb_fake_ex_new(struct rb_fake_qp *q, int type);
void rb_fake_ex_free(struct rb_fake_ex *x);

#endif
