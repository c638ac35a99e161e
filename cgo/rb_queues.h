#ifndef RB_QUEUES_H
#define RB_QUEUES_H

#include <stdint.h>
#include <infiniband/verbs.h>

struct rb_ah_r { struct ibv_ah *p; int err; };

struct rb_srq_r { struct ibv_srq *p; int err; };
struct rb_xrcd_r { struct ibv_xrcd *p; int err; };
struct rb_qpx_r { struct ibv_qp *p; int err; };

struct rb_ah_r rb_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
struct rb_ah_r rb_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, void *grh, uint8_t port);
int rb_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, void *grh, struct ibv_ah_attr *out);
int rb_destroy_ah(struct ibv_ah *ah);

int rb_attach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid);
int rb_detach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid);

struct rb_srq_r rb_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct rb_srq_r rb_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
int rb_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int rb_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int64_t rb_get_srq_num(struct ibv_srq *srq);
int rb_destroy_srq(struct ibv_srq *srq);

struct rb_xrcd_r rb_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
int rb_close_xrcd(struct ibv_xrcd *x);

struct rb_qpx_r rb_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
struct rb_qpx_r rb_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr);

#endif
