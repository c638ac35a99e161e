#ifndef RB_TUNE_H
#define RB_TUNE_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

struct rb_flow_r { struct ibv_flow *p; int err; };
struct rb_counters_r { struct ibv_counters *p; int err; };

int rb_rate_limit(struct ibv_qp *qp, uint32_t kbps, uint32_t burst, uint16_t packet);
int rb_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int rb_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int rb_data_in_order(struct ibv_qp *qp, int op);
int64_t rb_resolve_l2(struct ibv_context *c, struct ibv_ah_attr *attr, uint8_t *mac);

struct rb_flow_r rb_create_flow(struct ibv_qp *qp, const struct ibv_flow_attr *head, const void *specs, size_t len);
int rb_destroy_flow(struct ibv_flow *f);
struct rb_counters_r rb_create_counters(struct ibv_context *c);
int rb_destroy_counters(struct ibv_counters *n);
int rb_attach_counters(struct ibv_counters *n, int what, uint32_t index, struct ibv_flow *f);
int rb_read_counters(struct ibv_counters *n, uint64_t *values, uint32_t len, uint32_t flags);

#endif
