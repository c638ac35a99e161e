#include "rb_comp_cntr.h"
#include "rb_newer.h"
#include "rb_result.h"

struct init_attr {
	uint32_t comp_mask;
	int type;
	uint32_t flags;
};

struct attach_attr {
	uint32_t comp_mask;
	uint32_t op_mask;
};

/* Calls name, a function that returns an errno, with what follows its
 * parameters' types. */
#define CALL(name, types, ...)                                     \
	({                                                         \
		int(*f_) types = rb_symbol(name);                  \
		errno = 0;                                         \
		f_ ? rb_ret(f_(__VA_ARGS__)) : RB_NEWER;           \
	})

/* (The public name is an inline function, which tells how much the caller's
 * headers know.) */
int rb_query_comp_cntr_caps(struct ibv_context *c, struct rb_comp_cntr_caps *out)
{
	return CALL("_ibv_query_comp_cntr_caps", (struct ibv_context *, struct rb_comp_cntr_caps *, size_t), c, out,
		    sizeof(*out));
}

struct rb_comp_cntr_r rb_create_comp_cntr(struct ibv_context *c, int type)
{
	struct ibv_comp_cntr *(*create)(struct ibv_context *, struct init_attr *) = rb_symbol("ibv_create_comp_cntr");
	struct init_attr a = { .type = type };

	if (!create)
		return (struct rb_comp_cntr_r){ NULL, RB_NEWER };
	return RB_RESULT(rb_comp_cntr_r, create(c, &a));
}

int rb_destroy_comp_cntr(struct ibv_comp_cntr *n)
{
	return CALL("ibv_destroy_comp_cntr", (struct ibv_comp_cntr *), n);
}

#define CHANGE(name)                                                               \
	int rb_##name(struct ibv_comp_cntr *n, uint64_t v)                         \
	{                                                                          \
		return CALL("ibv_" #name, (struct ibv_comp_cntr *, uint64_t), n, v); \
	}
CHANGE(set_comp_cntr)
CHANGE(set_err_comp_cntr)
CHANGE(inc_comp_cntr)
CHANGE(inc_err_comp_cntr)

#define READ(name)                                                                   \
	int rb_##name(struct ibv_comp_cntr *n, uint64_t *v)                          \
	{                                                                            \
		return CALL("ibv_" #name, (struct ibv_comp_cntr *, uint64_t *), n, v); \
	}
READ(read_comp_cntr)
READ(read_err_comp_cntr)

int rb_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *n, uint32_t ops)
{
	struct attach_attr a = { .op_mask = ops };

	return CALL("ibv_qp_attach_comp_cntr", (struct ibv_qp *, struct ibv_comp_cntr *, struct attach_attr *), qp, n,
		    &a);
}
