#include "rb_memory.h"
#include "rb_newer.h"
#include "rb_result.h"

/* The macro of that name would always take the second way, as the flags are not
 * known at compile time; an old kernel knows only the first. */
struct rb_mr_r rb_reg_mr_iova(struct ibv_pd *pd, uintptr_t addr, size_t length, uint64_t iova, unsigned int access)
{
	if (access & IBV_ACCESS_OPTIONAL_RANGE)
		return RB_RESULT(rb_mr_r, ibv_reg_mr_iova2(pd, (void *)addr, length, iova, access));
	return RB_RESULT(rb_mr_r, (ibv_reg_mr_iova)(pd, (void *)addr, length, iova, access));
}

struct rb_mr_r rb_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	return RB_RESULT(rb_mr_r, ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access));
}

struct rb_mr_r rb_alloc_null_mr(struct ibv_pd *pd)
{
	return RB_RESULT(rb_mr_r, ibv_alloc_null_mr(pd));
}

struct rb_rereg_r rb_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, uintptr_t addr, size_t length,
			      int access)
{
	errno = 0;
	int code = ibv_rereg_mr(mr, flags, pd, (void *)addr, length, access);

	return (struct rb_rereg_r){ code, code ? rb_errno() : 0 };
}

int rb_advise_mr(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *sges, uint32_t n)
{
	errno = 0;
	return rb_ret(ibv_advise_mr(pd, advice, flags, sges, n));
}

struct rb_mw_r rb_alloc_mw(struct ibv_pd *pd, int type)
{
	return RB_RESULT(rb_mw_r, ibv_alloc_mw(pd, type));
}

int rb_dealloc_mw(struct ibv_mw *mw)
{
	errno = 0;
	return rb_ret(ibv_dealloc_mw(mw));
}

struct rb_dm_r rb_alloc_dm(struct ibv_context *c, size_t length, uint32_t log_align)
{
	struct ibv_alloc_dm_attr a = { .length = length, .log_align_req = log_align };

	return RB_RESULT(rb_dm_r, ibv_alloc_dm(c, &a));
}

int rb_free_dm(struct ibv_dm *dm)
{
	errno = 0;
	return rb_ret(ibv_free_dm(dm));
}

int rb_memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	errno = 0;
	return rb_ret(ibv_memcpy_to_dm(dm, offset, from, length));
}

int rb_memcpy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	errno = 0;
	return rb_ret(ibv_memcpy_from_dm(to, dm, offset, length));
}

struct rb_mr_r rb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access)
{
	return RB_RESULT(rb_mr_r, ibv_reg_dm_mr(pd, dm, offset, length, access));
}

int rb_dm_export_dmabuf(struct ibv_dm *dm)
{
	int (*export)(struct ibv_dm *) = rb_symbol("ibv_dm_export_dmabuf_fd");

	if (!export)
		return RB_NEWER;
	errno = 0;
	int fd = export(dm);
	return fd < 0 ? rb_errno() : fd;
}

struct rb_td_r rb_alloc_td(struct ibv_context *c)
{
	struct ibv_td_init_attr a = { 0 };

	return RB_RESULT(rb_td_r, ibv_alloc_td(c, &a));
}

int rb_dealloc_td(struct ibv_td *td)
{
	errno = 0;
	return rb_ret(ibv_dealloc_td(td));
}

/* Without allocators of its own, which would be calls from C into Go. */
struct rb_pd_r rb_alloc_parent_domain(struct ibv_context *c, struct ibv_pd *pd, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr a = { .pd = pd, .td = td };

	return RB_RESULT(rb_pd_r, ibv_alloc_parent_domain(c, &a));
}

struct rb_pd_r rb_import_pd(struct ibv_context *c, uint32_t handle)
{
	return RB_RESULT(rb_pd_r, ibv_import_pd(c, handle));
}

struct rb_mr_r rb_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return RB_RESULT(rb_mr_r, ibv_import_mr(pd, handle));
}

struct rb_dm_r rb_import_dm(struct ibv_context *c, uint32_t handle)
{
	return RB_RESULT(rb_dm_r, ibv_import_dm(c, handle));
}
