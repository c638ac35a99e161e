#ifndef RB_FAKE_MEMORY_H
#define RB_FAKE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/* What the device has of memory and domains, and what was asked of it. */
struct rb_fake_memory {
	struct ibv_device_attr_ex attr; /* what query_device_ex tells */
	size_t known;                   /* of which an older provider knows this much; 0: all */
	uint64_t clock;
	int regions, domains; /* alive */
	uint32_t next_key;
	int dm_log_align;
	/* the last advice */
	uint32_t advice, advice_flags, advised;
	struct ibv_sge last;
};

struct rb_fake_dm {
	struct ibv_dm dm;
	size_t length;
	uint8_t bytes[];
};

struct rb_fake_parent {
	struct ibv_pd pd; /* the parent's own, as providers do it */
	struct ibv_pd *of;
	struct ibv_td *td;
};

/* cgo has no offsetof. */
enum { RB_FAKE_ATTR_BEFORE_DM = offsetof(struct ibv_device_attr_ex, max_dm_size) };

void rb_fake_memory_ops(struct verbs_context *v);
int rb_fake_dereg_mr(struct ibv_mr *mr);
int rb_fake_dealloc_pd(struct ibv_pd *pd);

#endif
