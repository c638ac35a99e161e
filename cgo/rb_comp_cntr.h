#ifndef RB_COMP_CNTR_H
#define RB_COMP_CNTR_H

#include "rb_verbs.h"

/* Completion counters came with rdma-core 65: what of them crosses the ABI is
 * declared here, as that version has it. */
struct ibv_comp_cntr;

struct rb_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t attach_ops;
};

struct rb_comp_cntr_r { struct ibv_comp_cntr *p; int err; };

int rb_query_comp_cntr_caps(struct ibv_context *c, struct rb_comp_cntr_caps *out);
struct rb_comp_cntr_r rb_create_comp_cntr(struct ibv_context *c, int type);
int rb_destroy_comp_cntr(struct ibv_comp_cntr *n);
int rb_set_comp_cntr(struct ibv_comp_cntr *n, uint64_t v);
int rb_set_err_comp_cntr(struct ibv_comp_cntr *n, uint64_t v);
int rb_inc_comp_cntr(struct ibv_comp_cntr *n, uint64_t v);
int rb_inc_err_comp_cntr(struct ibv_comp_cntr *n, uint64_t v);
int rb_read_comp_cntr(struct ibv_comp_cntr *n, uint64_t *v);
int rb_read_err_comp_cntr(struct ibv_comp_cntr *n, uint64_t *v);
int rb_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *n, uint32_t ops);

#endif
