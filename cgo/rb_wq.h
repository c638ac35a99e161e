#ifndef RB_WQ_H
#define RB_WQ_H

#include "rb_srq.h"

struct rb_wq_r { struct ibv_wq *p; int err; };
struct rb_ind_r { struct ibv_rwq_ind_table *p; int err; };
struct rb_rss_r { struct ibv_qp *p; int err; };

struct rb_wq_r rb_create_wq(struct ibv_context *c, struct ibv_wq_init_attr *attr);
int rb_modify_wq(struct ibv_wq *wq, uint32_t state);
int rb_destroy_wq(struct ibv_wq *wq);
struct rb_srq *rb_wq_new(struct ibv_wq *wq);

struct rb_ind_r rb_create_ind_table(struct ibv_context *c, uint32_t log, const uintptr_t *wqs);
int rb_destroy_ind_table(struct ibv_rwq_ind_table *t);
struct rb_rss_r rb_create_rss(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr, struct ibv_rwq_ind_table *t,
			      uint8_t func, const uint8_t *key, uint8_t len, uint64_t fields);

#endif
