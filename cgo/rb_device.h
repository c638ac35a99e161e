#ifndef RB_DEVICE_H
#define RB_DEVICE_H

#include "rb_verbs.h"

/* struct ibv_device_attr_ex beyond the classic limits, with anonymous structs
 * flattened for cgo. Left zero is what the provider does not tell. */
struct rb_device_ex {
	uint64_t odp_general, timestamp_mask, core_clock, cap_flags_ex, rss_fields, max_dm_size;
	uint32_t odp_rc, odp_uc, odp_ud, odp_xrc;
	uint32_t tso_max, tso_qpts;
	uint32_t rss_qpts, rss_tables, rss_table_size, rss_function;
	uint32_t max_wq_rq;
	uint32_t pacing_min, pacing_max, pacing_qpts;
	uint32_t raw_caps;
	uint32_t tm_header, tm_tags, tm_flags, tm_ops, tm_sge;
	uint32_t cq_count, cq_period;
	uint32_t pci_fetch_add, pci_swap, pci_cmp_swap;
	uint32_t ports;
	uint64_t comp_mask;
};

int rb_query_device_ex(struct ibv_context *c, struct ibv_device_attr *out, struct rb_device_ex *ex);
int rb_query_port_speed(struct ibv_context *c, uint32_t port, uint64_t *speed);
int rb_query_gid(struct ibv_context *c, uint8_t port, int index, uint8_t *gid);
int rb_get_pkey_index(struct ibv_context *c, uint8_t port, uint16_t pkey);
int rb_query_clock(struct ibv_context *c, int64_t *seconds, int64_t *nanoseconds);

struct rb_context_r rb_import_device(int fd);
int rb_context_fd(struct ibv_context *c);

#endif
