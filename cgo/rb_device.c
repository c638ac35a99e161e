#include "rb_device.h"
#include "rb_newer.h"
#include "rb_result.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>

/* Falls back to ibv_query_device, and then tells nothing more. */
int rb_query_device_ex(struct ibv_context *c, struct ibv_device_attr *out, struct rb_device_ex *ex)
{
	struct ibv_device_attr_ex a;

	/* Providers older than these headers fill in less. */
	memset(&a, 0, sizeof(a));
	errno = 0;
	int r = rb_ret(ibv_query_device_ex(c, NULL, &a));
	if (r)
		return r;
	*out = a.orig_attr;
	*ex = (struct rb_device_ex){
		.odp_general = a.odp_caps.general_caps,
		.odp_rc = a.odp_caps.per_transport_caps.rc_odp_caps,
		.odp_uc = a.odp_caps.per_transport_caps.uc_odp_caps,
		.odp_ud = a.odp_caps.per_transport_caps.ud_odp_caps,
		.odp_xrc = a.xrc_odp_caps,
		.timestamp_mask = a.completion_timestamp_mask,
		.core_clock = a.hca_core_clock,
		.cap_flags_ex = a.device_cap_flags_ex,
		.tso_max = a.tso_caps.max_tso,
		.tso_qpts = a.tso_caps.supported_qpts,
		.rss_qpts = a.rss_caps.supported_qpts,
		.rss_tables = a.rss_caps.max_rwq_indirection_tables,
		.rss_table_size = a.rss_caps.max_rwq_indirection_table_size,
		.rss_fields = a.rss_caps.rx_hash_fields_mask,
		.rss_function = a.rss_caps.rx_hash_function,
		.max_wq_rq = a.max_wq_type_rq,
		.pacing_min = a.packet_pacing_caps.qp_rate_limit_min,
		.pacing_max = a.packet_pacing_caps.qp_rate_limit_max,
		.pacing_qpts = a.packet_pacing_caps.supported_qpts,
		.raw_caps = a.raw_packet_caps,
		.tm_header = a.tm_caps.max_rndv_hdr_size,
		.tm_tags = a.tm_caps.max_num_tags,
		.tm_flags = a.tm_caps.flags,
		.tm_ops = a.tm_caps.max_ops,
		.tm_sge = a.tm_caps.max_sge,
		.cq_count = a.cq_mod_caps.max_cq_count,
		.cq_period = a.cq_mod_caps.max_cq_period,
		.max_dm_size = a.max_dm_size,
		.pci_fetch_add = a.pci_atomic_caps.fetch_add,
		.pci_swap = a.pci_atomic_caps.swap,
		.pci_cmp_swap = a.pci_atomic_caps.compare_swap,
		.ports = a.phys_port_cnt_ex,
		.comp_mask = a.comp_mask,
	};
	return 0;
}

/* In units of 100 Mbit/s. */
int rb_query_port_speed(struct ibv_context *c, uint32_t port, uint64_t *speed)
{
	int (*query)(struct ibv_context *, uint32_t, uint64_t *) = rb_symbol("ibv_query_port_speed");

	if (!query)
		return RB_NEWER;
	errno = 0;
	return rb_ret(query(c, port, speed));
}

int rb_query_gid(struct ibv_context *c, uint8_t port, int index, uint8_t *gid)
{
	union ibv_gid g;

	errno = 0;
	int r = rb_ret(ibv_query_gid(c, port, index, &g));
	if (!r)
		memcpy(gid, g.raw, sizeof(g.raw));
	return r;
}

/* The table's index; the library says -1 and often leaves errno alone. */
int rb_get_pkey_index(struct ibv_context *c, uint8_t port, uint16_t pkey)
{
	errno = 0;
	int r = ibv_get_pkey_index(c, port, htobe16(pkey));

	return r >= 0 ? r : errno > 0 ? -errno : -ENOENT;
}

int rb_query_clock(struct ibv_context *c, int64_t *seconds, int64_t *nanoseconds)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	errno = 0;
	int r = rb_ret(ibv_query_rt_values_ex(c, &v));
	if (r)
		return r;
	if (!(v.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return -EOPNOTSUPP;
	*seconds = v.raw_clock.tv_sec;
	*nanoseconds = v.raw_clock.tv_nsec;
	return 0;
}

/* The context closes the descriptor it was given: it gets one of its own. */
struct rb_context_r rb_import_device(int fd)
{
	int own = rb_dup_fd(fd);

	if (own < 0)
		return (struct rb_context_r){ NULL, own };
	struct rb_context_r r = RB_RESULT(rb_context_r, ibv_import_device(own));
	if (!r.p)
		close(own);
	return r;
}

/* The descriptor of the character device, which another process may import. */
int rb_context_fd(struct ibv_context *c)
{
	return c->cmd_fd;
}
