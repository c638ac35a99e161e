#ifndef RB_QUEUES_H
#define RB_QUEUES_H

#include <stdint.h>
#include <infiniband/verbs.h>

struct rb_ah_r { struct ibv_ah *p; int err; };

struct rb_ah_r rb_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
struct rb_ah_r rb_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, void *grh, uint8_t port);
int rb_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, void *grh, struct ibv_ah_attr *out);
int rb_destroy_ah(struct ibv_ah *ah);

int rb_attach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid);
int rb_detach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid);

#endif
