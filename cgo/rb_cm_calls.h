// The rarer calls of librdmacm; see rb_cm.h for the conventions.
#ifndef RB_CM_CALLS_H
#define RB_CM_CALLS_H

#include "rb_cm.h"

// rb_ai is struct rdma_addrinfo with its addresses by value. The pointers are
// the list's, and live as long as it does.
struct rb_ai {
	int32_t flags;
	int32_t family;
	int32_t qp_type;
	int32_t port_space;
	struct rb_sockaddr src;
	struct rb_sockaddr dst;
	const char *src_name;
	const char *dst_name;
	const void *route;
	const void *connect;
	uint64_t route_len;
	uint64_t connect_len;
};

int rb_cm_qp_attr(struct rdma_cm_id *id, int state, struct ibv_qp_attr *attr,
		  int *mask);
int rb_cm_notify(struct rdma_cm_id *id, int event);
int rb_cm_establish(struct rdma_cm_id *id);
int rb_cm_migrate(struct rdma_cm_id *id, struct rdma_event_channel *ch);
int rb_cm_set_local_ece(struct rdma_cm_id *id, uint32_t vendor, uint32_t options);
int rb_cm_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *out);
int rb_cm_reject_ece(struct rdma_cm_id *id, const void *data, int len);
int rb_cm_join(struct rdma_cm_id *id, struct rb_sockaddr group, uint32_t flags,
	       uint64_t cookie);
int rb_cm_leave(struct rdma_cm_id *id, struct rb_sockaddr group);
int rb_cm_getaddrinfo(const char *node, const char *service,
		      const struct rb_ai *hints, struct rdma_addrinfo **out);
int rb_cm_resolve_addrinfo(struct rdma_cm_id *id, const char *node,
			   const char *service, const struct rb_ai *hints);
int rb_cm_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **out);
int rb_cm_write_event(struct rdma_cm_id *id, int status, uint64_t arg);
struct rdma_addrinfo *rb_cm_addrinfo(const struct rdma_addrinfo *ai,
				     struct rb_ai *out);

#endif
