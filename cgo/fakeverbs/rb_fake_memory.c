#include "rb_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct rb_fake_memory *memory(struct ibv_context *c)
{
	return &((struct rb_fake_device *)((uint8_t *)c - offsetof(struct rb_fake_device, vctx.context)))->memory;
}

/* A caller with older headers has room for less, an older provider tells less. */
static int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
			   struct ibv_device_attr_ex *out, size_t room)
{
	struct rb_fake_memory *m = memory(c);
	size_t n = m->known && m->known < sizeof(m->attr) ? m->known : sizeof(m->attr);

	memcpy(out, &m->attr, n < room ? n : room);
	return 0;
}

static int query_rt_values(struct ibv_context *c, struct ibv_values_ex *v)
{
	uint64_t clock = memory(c)->clock;

	v->comp_mask = clock ? v->comp_mask & IBV_VALUES_MASK_RAW_CLOCK : 0;
	v->raw_clock.tv_sec = 0;
	v->raw_clock.tv_nsec = clock;
	return 0;
}

static int to_dm(struct ibv_dm *dm, uint64_t at, const void *from, size_t n)
{
	struct rb_fake_dm *d = (struct rb_fake_dm *)dm;

	if (at > d->length || n > d->length - at)
		return EFAULT;
	memcpy(d->bytes + at, from, n);
	return 0;
}

static int from_dm(void *to, struct ibv_dm *dm, uint64_t at, size_t n)
{
	struct rb_fake_dm *d = (struct rb_fake_dm *)dm;

	if (at > d->length || n > d->length - at)
		return EFAULT;
	memcpy(to, d->bytes + at, n);
	return 0;
}

static struct ibv_dm *alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *a)
{
	struct rb_fake_memory *m = memory(c);

	if (a->length > m->attr.max_dm_size) {
		errno = ENOMEM;
		return NULL;
	}
	struct rb_fake_dm *d = calloc(1, sizeof(*d) + a->length);
	if (!d)
		return NULL;
	d->length = a->length;
	d->dm.context = c;
	d->dm.memcpy_to_dm = to_dm;
	d->dm.memcpy_from_dm = from_dm;
	d->dm.comp_mask = IBV_DM_MASK_HANDLE;
	d->dm.handle = 77;
	m->dm_log_align = a->log_align_req;
	m->attr.max_dm_size -= a->length;
	return &d->dm;
}

static int free_dm(struct ibv_dm *dm)
{
	memory(dm->context)->attr.max_dm_size += ((struct rb_fake_dm *)dm)->length;
	free(dm);
	return 0;
}

static struct ibv_mr *new_mr(struct ibv_pd *pd, size_t length)
{
	struct rb_fake_memory *m = memory(pd->context);
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->context = pd->context;
	mr->pd = pd;
	mr->length = length;
	mr->lkey = mr->rkey = ++m->next_key << 8;
	rb_fake_count(&m->regions, 1);
	return mr;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t at, size_t n, unsigned int access)
{
	size_t length = ((struct rb_fake_dm *)dm)->length;

	if (!(access & IBV_ACCESS_ZERO_BASED) || at > length || n > length - at) {
		errno = EINVAL;
		return NULL;
	}
	return new_mr(pd, n);
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	return new_mr(pd, SIZE_MAX);
}

int rb_fake_dereg_mr(struct ibv_mr *mr)
{
	rb_fake_count(&memory(mr->context)->regions, -1);
	free(mr);
	return 0;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sges,
		     uint32_t n)
{
	struct rb_fake_memory *m = memory(pd->context);

	m->advice = advice;
	m->advice_flags = flags;
	m->advised = n;
	m->last = sges[n - 1];
	return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a)
{
	struct ibv_td *td = calloc(1, sizeof(*td));

	if (!td)
		return NULL;
	td->context = c;
	rb_fake_count(&memory(c)->domains, 1);
	return td;
}

static int dealloc_td(struct ibv_td *td)
{
	rb_fake_count(&memory(td->context)->domains, -1);
	free(td);
	return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a)
{
	struct rb_fake_parent *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pd = *a->pd;
	p->of = a->pd;
	p->td = a->td;
	rb_fake_count(&memory(c)->domains, 1);
	return &p->pd;
}

int rb_fake_dealloc_pd(struct ibv_pd *pd)
{
	rb_fake_count(&memory(pd->context)->domains, -1);
	free(pd);
	return 0;
}

void rb_fake_memory_ops(struct verbs_context *v)
{
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
	v->alloc_dm = alloc_dm;
	v->free_dm = free_dm;
	v->reg_dm_mr = reg_dm_mr;
	v->alloc_null_mr = alloc_null_mr;
	v->advise_mr = advise_mr;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->alloc_parent_domain = alloc_parent_domain;
}
