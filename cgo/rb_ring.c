#define _GNU_SOURCE
#include "rb_ring.h"
#include "rb_fast.h"
#include "rb_lock.h"
#include "rb_verbs.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What one CQ may give in its turn: few, so that a busy one keeps no other
 * waiting. */
enum { RB_TURN = 16 };

static void signal_fd(int fd)
{
	const uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* One turn of each CQ, under the lock; returns how many completions came, or -1
 * where there was no room for one. */
static int pass(struct rb_ring *r)
{
	int found = 0;

	for (uint32_t i = 0; i < r->ncqs; i++) {
		uint64_t room = r->mask + 1 - (r->head - rb_get(&r->tail));
		uint64_t line = r->mask + 1 - (r->head & r->mask);
		uint64_t n = room < line ? room : line;

		if (n == 0) {
			r->turn += i; /* it is the first one's turn next time */
			return found ? found : -1;
		}
		int k = rb_poll((uintptr_t)r->cqs[(r->turn + i) % r->ncqs], n < RB_TURN ? n : RB_TURN,
				&r->slots[r->head & r->mask]);
		if (k > 0) {
			rb_set(&r->head, r->head + k);
			found += k;
		} else if (k < 0 && k != -EBADF) {
			rb_set(&r->failed, 1);
		}
	}
	r->turn++;
	return found;
}

static int locked_pass(struct rb_ring *r)
{
	/* A mutex is not fair, and this thread would take it again at once. */
	while (rb_get(&r->wanted))
		sched_yield();
	pthread_mutex_lock(&r->lock);
	int n = pass(r);
	pthread_mutex_unlock(&r->lock);
	return n;
}

static void arm(struct rb_ring *r)
{
	pthread_mutex_lock(&r->lock);
	for (uint32_t i = 0; i < r->ncqs; i++)
		if (rb_arm(r->cqs[i]))
			rb_set(&r->failed, 1);
	pthread_mutex_unlock(&r->lock);
}

/* The reader sets waiting and then looks at head; here it is the other way
 * round, and the fence keeps one of both from missing the other. */
static void wake_reader(struct rb_ring *r)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&r->waiting, __ATOMIC_RELAXED) && __atomic_exchange_n(&r->waiting, 0, __ATOMIC_ACQ_REL))
		signal_fd(r->bell);
}

static void sleep_until_event(struct rb_ring *r)
{
	struct pollfd fds[2] = { { .fd = r->poke, .events = POLLIN }, { .events = POLLIN } };
	uint64_t cookies[16], ignored;

	if (r->channel)
		fds[1].fd = r->channel->fd;
	if (poll(fds, r->channel ? 2 : 1, r->channel ? -1 : 1) < 0)
		return;
	if (fds[0].revents && read(r->poke, &ignored, sizeof(ignored)) < 0)
		return;
	if (fds[1].revents && rb_channel_events(r->channel, cookies, 16) < 0)
		rb_set(&r->failed, 1);
}

static void *run(void *arg)
{
	struct rb_ring *r = arg;
	const struct timespec nap = { .tv_nsec = 20000 };
	uint64_t idle = 0;
	int armed = 0;

	while (!rb_get(&r->stop)) {
		int n = locked_pass(r);

		if (n > 0 || rb_get(&r->failed))
			wake_reader(r);
		if (n) {
			idle = armed = 0;
			if (n < 0) {
				rb_set(&r->stalls, r->stalls + 1);
				nanosleep(&nap, NULL);
			}
			continue;
		}
		uint64_t t = now_ns();
		if (!idle)
			idle = t;
		if (t - idle < r->spin_ns) {
			relax();
		} else if (!armed && r->channel) {
			/* Only what comes after arming raises an event: look once more. */
			arm(r);
			armed = 1;
		} else {
			sleep_until_event(r);
			idle = armed = 0;
		}
	}
	return NULL;
}

static void close_fds(struct rb_ring *r)
{
	if (r->bell >= 0)
		close(r->bell);
	if (r->poke >= 0)
		close(r->poke);
	r->bell = r->poke = -1;
}

int rb_ring_new(uint64_t size, uint64_t spin_ns, struct ibv_comp_channel *channel, struct rb_ring **out)
{
	struct rb_ring *r = aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	sigset_t all, before;
	int e = ENOMEM;

	if (!r)
		return -e;
	memset(r, 0, sizeof(*r));
	r->mask = size - 1;
	r->spin_ns = spin_ns;
	r->channel = channel;
	pthread_mutex_init(&r->lock, NULL);
	r->slots = calloc(size, sizeof(*r->slots));
	r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->bell < 0 || r->poke < 0)
		e = errno;
	if (!r->slots || r->bell < 0 || r->poke < 0) {
		rb_ring_free(r);
		return -e;
	}
	/* Signals are the Go runtime's, on its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	e = pthread_create(&r->thread, NULL, run, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e) {
		rb_ring_free(r);
		return -e;
	}
	*out = r;
	return 0;
}

static void want(struct rb_ring *r)
{
	__atomic_add_fetch(&r->wanted, 1, __ATOMIC_ACQ_REL);
	pthread_mutex_lock(&r->lock);
	__atomic_sub_fetch(&r->wanted, 1, __ATOMIC_ACQ_REL);
}

int rb_ring_add(struct rb_ring *r, struct rb_cq *c)
{
	int e = 0;

	want(r);
	if (r->ncqs == r->cap) {
		uint32_t cap = r->cap ? 2 * r->cap : 8;
		struct rb_cq **cqs = realloc(r->cqs, cap * sizeof(*cqs));

		if (cqs) {
			r->cqs = cqs;
			r->cap = cap;
		} else {
			e = -ENOMEM;
		}
	}
	if (!e)
		r->cqs[r->ncqs++] = c;
	pthread_mutex_unlock(&r->lock);
	signal_fd(r->poke);
	return e;
}

/* The thread does not touch the CQ any more when this returns. */
void rb_ring_remove(struct rb_ring *r, struct rb_cq *c)
{
	want(r);
	for (uint32_t i = 0; i < r->ncqs; i++)
		if (r->cqs[i] == c) {
			r->cqs[i] = r->cqs[--r->ncqs];
			break;
		}
	pthread_mutex_unlock(&r->lock);
}

void rb_ring_stop(struct rb_ring *r)
{
	rb_set(&r->stop, 1);
	signal_fd(r->poke);
	pthread_join(r->thread, NULL);
	/* What is in memory can still be taken, until rb_ring_free. */
	close_fds(r);
}

/* After stop, or where the thread never started. */
void rb_ring_free(struct rb_ring *r)
{
	close_fds(r);
	pthread_mutex_destroy(&r->lock);
	free(r->cqs);
	free(r->slots);
	free(r);
}
