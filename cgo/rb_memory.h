#ifndef RB_MEMORY_H
#define RB_MEMORY_H

#include "rb_verbs.h"

struct rb_mw_r { struct ibv_mw *p; int err; };
struct rb_dm_r { struct ibv_dm *p; int err; };
struct rb_td_r { struct ibv_td *p; int err; };

struct rb_mr_r rb_reg_mr_iova(struct ibv_pd *pd, uintptr_t addr, size_t length, uint64_t iova, unsigned int access);
struct rb_mr_r rb_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
struct rb_mr_r rb_alloc_null_mr(struct ibv_pd *pd);

/* What becomes of the region (enum ibv_rereg_mr_err_code, 0 for success), and
 * the errno. */
struct rb_rereg_r { int code, err; };
struct rb_rereg_r rb_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, uintptr_t addr, size_t length,
			      int access);

int rb_advise_mr(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *sges, uint32_t n);

struct rb_mw_r rb_alloc_mw(struct ibv_pd *pd, int type);
int rb_dealloc_mw(struct ibv_mw *mw);

struct rb_dm_r rb_alloc_dm(struct ibv_context *c, size_t length, uint32_t log_align);
int rb_free_dm(struct ibv_dm *dm);
int rb_memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length);
int rb_memcpy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length);
struct rb_mr_r rb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
int rb_dm_export_dmabuf(struct ibv_dm *dm);

struct rb_td_r rb_alloc_td(struct ibv_context *c);
int rb_dealloc_td(struct ibv_td *td);
struct rb_pd_r rb_alloc_parent_domain(struct ibv_context *c, struct ibv_pd *pd, struct ibv_td *td);

struct rb_pd_r rb_import_pd(struct ibv_context *c, uint32_t handle);
struct rb_mr_r rb_import_mr(struct ibv_pd *pd, uint32_t handle);
struct rb_dm_r rb_import_dm(struct ibv_context *c, uint32_t handle);

#endif
