#ifndef RB_VERBS_H
#define RB_VERBS_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/* What Go needs of a call: the object, or a negative errno. Returned by value,
 * so that Go allocates no out-parameter and never reads errno itself. */
struct rb_context_r { struct ibv_context *p; int err; };
struct rb_pd_r { struct ibv_pd *p; int err; };
struct rb_mr_r { struct ibv_mr *p; int err; };
struct rb_channel_r { struct ibv_comp_channel *p; int err; };
struct rb_cq_r { struct ibv_cq *p; int err; };
struct rb_qp_r { struct ibv_qp *p; int err; };

/* One line of the device list; the list itself must not outlive the call. */
struct rb_device {
	char name[64];
	char dev_name[64];
	uint64_t guid; /* host order */
	int32_t index; /* the kernel's, -1 where the kernel does not tell */
	int32_t node_type;
	int32_t transport;
};

/* ibv_query_port is a macro over a versioned struct: cgo can call neither. */
struct rb_port_attr {
	uint32_t state, max_mtu, active_mtu;
	int32_t gid_tbl_len;
	uint32_t port_cap_flags, max_msg_sz;
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, active_width, active_speed, phys_state, link_layer;
	uint32_t bad_pkey_cntr, qkey_viol_cntr;
	uint16_t port_cap_flags2;
	uint8_t max_vl_num, sm_sl, subnet_timeout, init_type_reply, flags;
};

int rb_devices(struct rb_device *out, int cap);
struct rb_context_r rb_open(const char *name);
int rb_close(struct ibv_context *c);
const char *rb_context_name(struct ibv_context *c);
int rb_context_transport(struct ibv_context *c);

int rb_query_device(struct ibv_context *c, struct ibv_device_attr *out);
int rb_query_port(struct ibv_context *c, uint8_t port, struct rb_port_attr *out);
int rb_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *out, size_t cap);
int rb_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *out);
int rb_query_pkey(struct ibv_context *c, uint8_t port, int index);

struct rb_pd_r rb_alloc_pd(struct ibv_context *c);
int rb_dealloc_pd(struct ibv_pd *pd);

struct rb_mr_r rb_reg_mr(struct ibv_pd *pd, uintptr_t addr, size_t length, unsigned int access);
int rb_dereg_mr(struct ibv_mr *mr);

struct rb_channel_r rb_create_channel(struct ibv_context *c);
int rb_destroy_channel(struct ibv_comp_channel *ch);
int rb_dup_fd(int fd);

struct rb_async_event {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t type;
	int32_t port;
};
int rb_dup_async_fd(struct ibv_context *c);
int rb_async_event(struct ibv_context *c, struct rb_async_event *out);
int rb_channel_events(struct ibv_comp_channel *ch, uint64_t *cookies, int cap);

struct rb_cq_r rb_create_cq(struct ibv_context *c, int cqe, uint64_t cookie,
			    struct ibv_comp_channel *ch, int vector);
int rb_destroy_cq(struct ibv_cq *cq);

struct rb_qp_r rb_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int rb_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int rb_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);
int rb_destroy_qp(struct ibv_qp *qp);

#endif
