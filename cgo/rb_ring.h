#ifndef RB_RING_H
#define RB_RING_H

#include <pthread.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/*
 * A completion ring: a thread polls some CQs in turn and writes what it finds
 * into memory that Go reads without a crossing. It never takes more off a CQ than
 * the ring has room for, so nothing is lost here; what waits meanwhile waits in
 * the CQ.
 */

struct rb_cq;

struct rb_ring {
	/* The thread's. */
	uint64_t head; /* completions written so far */
	uint64_t stalls; /* turns that found the ring full */
	uint32_t failed; /* a CQ could not be polled or armed */
	uint32_t turn;
	/* The reader's. */
	uint64_t tail __attribute__((aligned(64))); /* completions taken so far */
	uint32_t waiting; /* it sleeps, or is about to: ring the bell */
	/* Anybody's, set once. */
	struct ibv_wc *slots __attribute__((aligned(64)));
	uint64_t mask;
	uint64_t spin_ns; /* how long to look before sleeping */
	struct ibv_comp_channel *channel; /* of the CQs; without one the thread naps */
	int bell; /* an eventfd that wakes the reader */
	int poke; /* one that wakes the thread */
	pthread_t thread;
	/* The CQs, under the lock. */
	pthread_mutex_t lock;
	uint32_t wanted; /* somebody waits for the lock */
	uint32_t stop;
	struct rb_cq **cqs;
	uint32_t ncqs, cap;
};

int rb_ring_new(uint64_t size, uint64_t spin_ns, struct ibv_comp_channel *channel, struct rb_ring **out);
int rb_ring_add(struct rb_ring *r, struct rb_cq *c);
void rb_ring_remove(struct rb_ring *r, struct rb_cq *c);
void rb_ring_stop(struct rb_ring *r);
void rb_ring_free(struct rb_ring *r);

#endif
