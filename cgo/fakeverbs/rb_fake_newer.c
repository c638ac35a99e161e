#include "rb_fake.h"
#include "rb_fake_newer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The structures are those of rdma-core 65, whose headers need not be here. */

struct rb_fake_newer rb_fake_newer;
#define N (&rb_fake_newer)

static void *made(size_t size)
{
	N->alive++;
	return calloc(1, size);
}

static int gone(void *p)
{
	N->alive--;
	free(p);
	return 0;
}

struct counter {
	struct ibv_context *context;
	uint32_t handle;
	uint64_t values[2];
};

static int query_caps(struct ibv_context *c, void *out, size_t size)
{
	struct { uint64_t max; uint32_t counters, ops; } caps = { 1ull << 48, 7, 0x3f };

	if (size != sizeof(caps))
		return EINVAL;
	memcpy(out, &caps, size);
	return 0;
}

struct create_attr {
	uint32_t mask;
	int kind;
	uint32_t flags;
};

static void *create(struct ibv_context *c, const struct create_attr *a)
{
	if (a->mask || a->flags || a->kind > 1) {
		errno = EINVAL;
		return NULL;
	}
	struct counter *n = made(sizeof(*n));
	n->context = c;
	N->kind = a->kind;
	return n;
}

static int set(struct counter *n, uint64_t v) { n->values[0] = v; return 0; }
static int set_err(struct counter *n, uint64_t v) { n->values[1] = v; return 0; }
static int inc(struct counter *n, uint64_t v) { n->values[0] += v; return 0; }
static int inc_err(struct counter *n, uint64_t v) { n->values[1] += v; return 0; }
static int get(struct counter *n, uint64_t *v) { *v = n->values[0]; return 0; }
static int get_err(struct counter *n, uint64_t *v) { *v = n->values[1]; return 0; }

struct attach_attr {
	uint32_t mask, ops;
};

/* An operation that is counted already is refused. */
static int attach(struct ibv_qp *qp, struct counter *n, const struct attach_attr *a)
{
	if (a->mask)
		return EINVAL;
	if (N->ops & a->ops)
		return EBUSY;
	N->ops |= a->ops;
	N->qpn = qp->qp_num;
	return 0;
}

struct dmah_attr {
	uint32_t mask, cpu;
	uint8_t hint, kind;
};

static void *alloc_dmah(struct ibv_context *c, const struct dmah_attr *a)
{
	struct ibv_context **h = made(sizeof(*h));

	*h = c;
	N->dmah_mask = a->mask;
	N->dmah_cpu = a->cpu;
	N->dmah_hint = a->hint;
	N->dmah_kind = a->kind;
	return h;
}

struct mr_attr {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t offset;
	void *dmah, *buf;
};

static struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, const struct mr_attr *a)
{
	struct ibv_mr *mr = made(sizeof(*mr));

	mr->context = pd->context;
	mr->pd = pd;
	mr->lkey = mr->rkey = 0x100;
	N->mask = a->mask;
	N->addr = (uintptr_t)a->addr;
	N->length = a->length;
	N->access = a->access;
	N->with_dmah = a->dmah != NULL;
	N->with_buf = a->buf != NULL;
	return mr;
}

static struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, void *buf, void *addr, size_t length, int access)
{
	struct mr_attr a = { .mask = 1 << 5, .addr = addr, .length = length, .access = access, .buf = buf };

	return reg_mr_ex(pd, &a);
}

/* Memory that was used before. */
static void *alloc_buf(struct ibv_pd *pd, size_t size, void **buf)
{
	if (size > 1 << 30) {
		errno = ENOMEM;
		return NULL;
	}
	*buf = made(size);
	return memset(*buf, 0x5a, size);
}

static void free_buf(void *buf) { gone(buf); }

static int export_buf(void *buf)
{
	if (!N->dmabuf)
		errno = ENODATA;
	return N->dmabuf ? dup(N->dmabuf) : -1;
}

void *rb_fake_find(const char *name)
{
	static const struct { const char *name; void *f; } all[] = {
		{ "_ibv_query_comp_cntr_caps", query_caps },
		{ "ibv_create_comp_cntr", create },
		{ "ibv_destroy_comp_cntr", gone },
		{ "ibv_set_comp_cntr", set },
		{ "ibv_set_err_comp_cntr", set_err },
		{ "ibv_inc_comp_cntr", inc },
		{ "ibv_inc_err_comp_cntr", inc_err },
		{ "ibv_read_comp_cntr", get },
		{ "ibv_read_err_comp_cntr", get_err },
		{ "ibv_qp_attach_comp_cntr", attach },
		{ "ibv_alloc_dmah", alloc_dmah },
		{ "ibv_dealloc_dmah", gone },
		{ "ibv_reg_mr_ex", reg_mr_ex },
		{ "ibv_alloc_buf", alloc_buf },
		{ "ibv_free_buf", free_buf },
		{ "ibv_reg_buf_mr", reg_buf_mr },
		{ "ibv_export_buf_dmabuf_fd", export_buf },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(all[i].name, name))
			return all[i].f;
	return NULL;
}

void *rb_fake_find_none(const char *name)
{
	return NULL;
}
