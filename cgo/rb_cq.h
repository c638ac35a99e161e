#ifndef RB_CQ_H
#define RB_CQ_H

#include "rb_fast.h"

/* What an extended completion says beyond struct ibv_wc. Mirrored by
 * cgo.WCExtra. */
struct rb_wc_extra {
	uint64_t timestamp; /* of the device's clock */
	uint64_t wallclock; /* ns */
	uint64_t tag;
	uint32_t tag_priv;
	uint32_t flow_tag;
	uint16_t cvlan;
	uint16_t pad[3];
};

struct rb_cqx_r { struct ibv_cq *p; int err; };

struct rb_cqx_r rb_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr, uint64_t cookie);
int rb_poll_ex(uintptr_t cq, int n, struct ibv_wc *wc, struct rb_wc_extra *extra);
int rb_resize_cq(uintptr_t cq, int cqe);
int rb_moderate_cq(struct ibv_cq *cq, uint16_t count, uint16_t period);

#endif
