#ifndef RB_LOCK_H
#define RB_LOCK_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Counters that one side writes under its lock and the other reads without. */
#define rb_get(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define rb_set(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* One atomic instruction a turn, which is all that a batch of one can afford.
 * A provider's post may enter the kernel while it holds the lock, so those who
 * wait yield. */
static __attribute__((noinline, unused)) void lock_slow(uint32_t *l)
{
	for (unsigned spins = 0;; spins++) {
		if (__atomic_load_n(l, __ATOMIC_RELAXED) == 0 &&
		    __atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE) == 0)
			return;
		if (spins >= 64)
			sched_yield();
		else
			relax();
	}
}

static inline void lock(uint32_t *l)
{
	if (unlikely(__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE)))
		lock_slow(l);
}

static inline void unlock(uint32_t *l)
{
	__atomic_store_n(l, 0, __ATOMIC_RELEASE);
}

#endif
