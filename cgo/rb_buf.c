#include "rb_buf.h"
#include "rb_newer.h"
#include "rb_result.h"

struct rb_buf_r rb_alloc_buf(struct ibv_pd *pd, size_t size)
{
	void *(*alloc)(struct ibv_pd *, size_t, struct ibv_buf **) = rb_symbol("ibv_alloc_buf");
	struct rb_buf_r r = { 0 };

	if (!alloc) {
		r.err = RB_NEWER;
		return r;
	}
	errno = 0;
	r.mem = alloc(pd, size, &r.p);
	r.err = r.mem ? 0 : rb_errno();
	return r;
}

int rb_free_buf(struct ibv_buf *b)
{
	void (*release)(struct ibv_buf *) = rb_symbol("ibv_free_buf");

	if (!release)
		return RB_NEWER;
	release(b);
	return 0;
}

int rb_export_buf(struct ibv_buf *b)
{
	int (*export)(struct ibv_buf *) = rb_symbol("ibv_export_buf_dmabuf_fd");

	if (!export)
		return RB_NEWER;
	errno = 0;
	int fd = export(b);
	return fd < 0 ? rb_errno() : fd;
}

static struct rb_mr_r no_mr(void)
{
	return (struct rb_mr_r){ NULL, RB_NEWER };
}

struct rb_mr_r rb_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *b, uintptr_t addr, size_t length, int access)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, struct ibv_buf *, void *, size_t, int) = rb_symbol("ibv_reg_buf_mr");

	return reg ? RB_RESULT(rb_mr_r, reg(pd, b, (void *)addr, length, access)) : no_mr();
}

struct rb_dmah_r rb_alloc_dmah(struct ibv_context *c, struct rb_dmah_attr a)
{
	struct ibv_dmah *(*alloc)(struct ibv_context *, struct rb_dmah_attr *) = rb_symbol("ibv_alloc_dmah");

	if (!alloc)
		return (struct rb_dmah_r){ NULL, RB_NEWER };
	return RB_RESULT(rb_dmah_r, alloc(c, &a));
}

int rb_dealloc_dmah(struct ibv_dmah *h)
{
	int (*dealloc)(struct ibv_dmah *) = rb_symbol("ibv_dealloc_dmah");

	errno = 0;
	return dealloc ? rb_ret(dealloc(h)) : RB_NEWER;
}

/* struct ibv_mr_init_attr of rdma-core 64; that of 59 lacks the last field. */
struct mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

enum { MASK_ADDR = 1 << 1, MASK_DMAH = 1 << 4, MASK_BUF = 1 << 5 };

struct rb_mr_r rb_reg_mr_ex(struct ibv_pd *pd, uintptr_t addr, size_t length, int access, struct ibv_buf *b,
			    struct ibv_dmah *h)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, struct mr_attr *) = rb_symbol("ibv_reg_mr_ex");
	struct mr_attr a = {
		.length = length,
		.access = access,
		.comp_mask = MASK_ADDR | (h ? MASK_DMAH : 0) | (b ? MASK_BUF : 0),
		.addr = (void *)addr,
		.dmah = h,
		.buf = b,
	};

	return reg ? RB_RESULT(rb_mr_r, reg(pd, &a)) : no_mr();
}
