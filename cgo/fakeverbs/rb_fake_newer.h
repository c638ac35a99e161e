#ifndef RB_FAKE_NEWER_H
#define RB_FAKE_NEWER_H

#include <stdint.h>

/* What was asked of the functions that came after rdma-core 44. */
struct rb_fake_newer {
	int alive; /* counters, DMA handles, buffers, regions */
	int kind;  /* of the last counter */
	uint32_t ops, qpn;
	uint32_t dmah_mask, dmah_cpu;
	uint8_t dmah_hint, dmah_kind;
	/* the last registration */
	uint64_t mask, addr, length;
	int access, with_dmah, with_buf;
	int dmabuf; /* that a buffer is; 0: ordinary memory */
};

extern struct rb_fake_newer rb_fake_newer;

/* Finds all of them, and none of them. */
void *rb_fake_find(const char *name);
void *rb_fake_find_none(const char *name);

#endif
