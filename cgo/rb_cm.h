// librdmacm as package cgo sees it. Every function returns 0 (or a count) on
// success and a negative errno on failure, whatever the wrapped call does.
#ifndef RB_CM_H
#define RB_CM_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

// rb_sockaddr is a sockaddr of either family in one fixed shape, so that Go
// never lays out a sockaddr itself. family 0 means "none"; port and scope are
// in host order.
struct rb_sockaddr {
	uint16_t family;
	uint16_t port;
	uint32_t scope;
	uint8_t addr[16];
};

// rb_cm_conn is struct rdma_conn_param without its pointer: private data
// travels beside it, so that no Go pointer is ever stored in passed memory.
struct rb_cm_conn {
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint8_t has_qp_num;
	uint8_t pad;
	uint32_t qp_num;
};

// rb_cm_info is what user space can read of an id: struct rdma_cm_id's fields
// copied by value, because librdmacm rewrites them inside rdma_get_cm_event.
struct rb_cm_info {
	struct ibv_context *verbs;
	char device[IBV_SYSFS_NAME_MAX];
	int32_t device_index;
	int32_t transport;
	uint8_t port_num;
	uint8_t num_paths;
	uint8_t path_mtu;
	uint8_t path_hop_limit;
	uint16_t pkey;
	uint16_t pad;
	struct rb_sockaddr local;
	struct rb_sockaddr peer;
	uint8_t sgid[16];
	uint8_t dgid[16];
	uint8_t path_sgid[16];
	uint8_t path_dgid[16];
};

// rb_cm_ud is what a UD event tells of the way to the peer or the group.
struct rb_cm_ud {
	struct ibv_ah_attr ah;
	uint32_t qp_num;
	uint32_t qkey;
};

// rb_cm_event is a copy of an event that was already acknowledged.
struct rb_cm_event {
	uint32_t type;
	int32_t status;
	uint64_t cookie;
	uint64_t listen_cookie;
	struct rdma_cm_id *new_id; // CONNECT_REQUEST only: the receiver owns it
	struct rb_cm_conn conn;
	struct rb_cm_ud ud;
	uint64_t group; // of a multicast event: what the join gave
	uint64_t arg;   // of an event of the program's own
	uint32_t private_len;
	uint8_t private_data[256];
	struct rb_cm_info info;
};

struct sockaddr *rb_to_sys(const struct rb_sockaddr *in,
			   struct sockaddr_storage *out);
void rb_from_sys(const struct sockaddr *in, struct rb_sockaddr *out);

int rb_cm_create_channel(struct rdma_event_channel **out);
int rb_cm_dup_fd(struct rdma_event_channel *ch);
int rb_cm_get_event(struct rdma_event_channel *ch, struct rb_cm_event *out);
int rb_cm_create_id(struct rdma_event_channel *ch, uint64_t cookie, int ps,
		    struct rdma_cm_id **out);
int rb_cm_destroy_id(struct rdma_cm_id *id);
void rb_cm_set_cookie(struct rdma_cm_id *id, uint64_t cookie);
int rb_cm_bind(struct rdma_cm_id *id, struct rb_sockaddr addr);
int rb_cm_resolve_addr(struct rdma_cm_id *id, struct rb_sockaddr src,
		       struct rb_sockaddr dst, int timeout_ms);
int rb_cm_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int rb_cm_listen(struct rdma_cm_id *id, int backlog);
int rb_cm_connect(struct rdma_cm_id *id, struct rb_cm_conn conn,
		  const void *data, int len);
int rb_cm_accept(struct rdma_cm_id *id, struct rb_cm_conn conn,
		 const void *data, int len);
int rb_cm_reject(struct rdma_cm_id *id, const void *data, int len);
int rb_cm_disconnect(struct rdma_cm_id *id);
int rb_cm_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		    struct ibv_qp_init_attr *attr, struct ibv_qp **out);
int rb_cm_may_have_qp(struct rdma_cm_id *id);
void rb_cm_destroy_qp(struct rdma_cm_id *id);
int rb_cm_set_option(struct rdma_cm_id *id, int level, int name,
		     const void *val, int len);
void rb_cm_query(struct rdma_cm_id *id, struct rb_cm_info *out);
int rb_cm_get_devices(struct ibv_context ***out);

#endif
