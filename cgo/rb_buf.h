#ifndef RB_BUF_H
#define RB_BUF_H

#include "rb_verbs.h"

/* Memory that the provider allocates came with rdma-core 64, DMA handles and the
 * registration that takes either with 59: see rb_newer.h. */
struct ibv_buf;
struct ibv_dmah;

struct rb_buf_r { struct ibv_buf *p; void *mem; int err; };
struct rb_dmah_r { struct ibv_dmah *p; int err; };

/* struct ibv_dmah_init_attr of rdma-core 59. */
struct rb_dmah_attr {
	uint32_t comp_mask;
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t mem_type;
};

struct rb_buf_r rb_alloc_buf(struct ibv_pd *pd, size_t size);
int rb_free_buf(struct ibv_buf *b);
int rb_export_buf(struct ibv_buf *b);
struct rb_mr_r rb_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *b, uintptr_t addr, size_t length, int access);

struct rb_dmah_r rb_alloc_dmah(struct ibv_context *c, struct rb_dmah_attr a);
int rb_dealloc_dmah(struct ibv_dmah *h);
struct rb_mr_r rb_reg_mr_ex(struct ibv_pd *pd, uintptr_t addr, size_t length, int access, struct ibv_buf *b,
			    struct ibv_dmah *h);

#endif
