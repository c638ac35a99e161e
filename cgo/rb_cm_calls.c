#include "rb_cm_calls.h"
#include "rb_newer.h"
#include "rb_result.h"

#include <netdb.h>
#include <string.h>

int rb_cm_qp_attr(struct rdma_cm_id *id, int state, struct ibv_qp_attr *attr,
		  int *mask)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	errno = 0;
	return rb_ret(rdma_init_qp_attr(id, attr, mask));
}

int rb_cm_notify(struct rdma_cm_id *id, int event)
{
	errno = 0;
	return rb_ret(rdma_notify(id, event));
}

int rb_cm_establish(struct rdma_cm_id *id)
{
	errno = 0;
	return rb_ret(rdma_establish(id));
}

int rb_cm_migrate(struct rdma_cm_id *id, struct rdma_event_channel *ch)
{
	errno = 0;
	return rb_ret(rdma_migrate_id(id, ch));
}

int rb_cm_set_local_ece(struct rdma_cm_id *id, uint32_t vendor, uint32_t options)
{
	struct ibv_ece ece = { .vendor_id = vendor, .options = options };

	errno = 0;
	return rb_ret(rdma_set_local_ece(id, &ece));
}

int rb_cm_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *out)
{
	memset(out, 0, sizeof(*out));
	errno = 0;
	return rb_ret(rdma_get_remote_ece(id, out));
}

int rb_cm_reject_ece(struct rdma_cm_id *id, const void *data, int len)
{
	if (len < 0 || len > UINT8_MAX)
		return -EINVAL;
	errno = 0;
	return rb_ret(rdma_reject_ece(id, len ? data : NULL, len));
}

// The plain call, which old kernels know, where a full member joins.
int rb_cm_join(struct rdma_cm_id *id, struct rb_sockaddr group, uint32_t flags,
	       uint64_t cookie)
{
	struct sockaddr_storage ss;
	struct sockaddr *sa = rb_to_sys(&group, &ss);
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags,
		.addr = sa,
	};

	if (!sa)
		return -EAFNOSUPPORT;
	errno = 0;
	if (flags == RDMA_MC_JOIN_FLAG_FULLMEMBER)
		return rb_ret(rdma_join_multicast(id, sa, (void *)(uintptr_t)cookie));
	return rb_ret(rdma_join_multicast_ex(id, &attr, (void *)(uintptr_t)cookie));
}

int rb_cm_leave(struct rdma_cm_id *id, struct rb_sockaddr group)
{
	struct sockaddr_storage ss;
	struct sockaddr *sa = rb_to_sys(&group, &ss);

	if (!sa)
		return -EAFNOSUPPORT;
	errno = 0;
	return rb_ret(rdma_leave_multicast(id, sa));
}

// librdmacm hands getaddrinfo's own codes through where a name is not known.
static int ai_errno(int ret)
{
	switch (ret) {
	case 0:
		return 0;
	case EAI_SYSTEM:
	case -1: // EAI_BADFLAGS too, which no hint of ours can cause
		return rb_errno();
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_FAMILY:
		return -EAFNOSUPPORT;
	case EAI_NONAME:
	case EAI_SERVICE:
	case EAI_FAIL:
		return -ENOENT;
	}
	return ret > 0 ? -ret : -EINVAL;
}

// The hints as librdmacm takes them, with addresses in what the caller gives.
static struct rdma_addrinfo to_hints(const struct rb_ai *hints,
				     struct sockaddr_storage *src,
				     struct sockaddr_storage *dst)
{
	struct rdma_addrinfo h = {
		.ai_flags = hints->flags,
		.ai_family = hints->family,
		.ai_qp_type = hints->qp_type,
		.ai_port_space = hints->port_space,
		.ai_src_addr = rb_to_sys(&hints->src, src),
		.ai_dst_addr = rb_to_sys(&hints->dst, dst),
	};

	if (h.ai_src_addr)
		h.ai_src_len = sizeof(struct sockaddr_in6);
	if (h.ai_dst_addr)
		h.ai_dst_len = sizeof(struct sockaddr_in6);
	if (hints->src.family == AF_INET)
		h.ai_src_len = sizeof(struct sockaddr_in);
	if (hints->dst.family == AF_INET)
		h.ai_dst_len = sizeof(struct sockaddr_in);
	return h;
}

int rb_cm_getaddrinfo(const char *node, const char *service,
		      const struct rb_ai *hints, struct rdma_addrinfo **out)
{
	struct sockaddr_storage src, dst;
	struct rdma_addrinfo h = to_hints(hints, &src, &dst);

	errno = 0;
	return ai_errno(rdma_getaddrinfo(node, service, &h, out));
}

// librdmacm loses the errno of a kernel that refuses, as one does that does not
// know the request, and leaves -1 there; getaddrinfo's codes are negative, too.
int rb_cm_resolve_addrinfo(struct rdma_cm_id *id, const char *node,
			   const char *service, const struct rb_ai *hints)
{
	int (*resolve)(struct rdma_cm_id *, const char *, const char *,
		       const struct rdma_addrinfo *) =
		rb_symbol("rdma_resolve_addrinfo");
	struct sockaddr_storage src, dst;
	struct rdma_addrinfo h = to_hints(hints, &src, &dst);

	if (!resolve)
		return RB_NEWER;
	errno = 0;
	if (!resolve(id, node, service, &h))
		return 0;
	if (errno == -1)
		return -EOPNOTSUPP;
	return ai_errno(errno < 0 ? errno : -1);
}

int rb_cm_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **out)
{
	int (*query)(struct rdma_cm_id *, struct rdma_addrinfo **) =
		rb_symbol("rdma_query_addrinfo");

	errno = 0;
	return query ? rb_ret(query(id, out)) : RB_NEWER;
}

int rb_cm_write_event(struct rdma_cm_id *id, int status, uint64_t arg)
{
	enum { USER = 18 };
	int (*write_event)(struct rdma_cm_id *, int event, int, uint64_t) =
		rb_symbol("rdma_write_cm_event");

	errno = 0;
	return write_event ? rb_ret(write_event(id, USER, status, arg)) :
			     RB_NEWER;
}

// One entry of the list, and the one behind it.
struct rdma_addrinfo *rb_cm_addrinfo(const struct rdma_addrinfo *ai,
				     struct rb_ai *out)
{
	memset(out, 0, sizeof(*out));
	out->flags = ai->ai_flags;
	out->family = ai->ai_family;
	out->qp_type = ai->ai_qp_type;
	out->port_space = ai->ai_port_space;
	if (ai->ai_src_len)
		rb_from_sys(ai->ai_src_addr, &out->src);
	if (ai->ai_dst_len)
		rb_from_sys(ai->ai_dst_addr, &out->dst);
	out->src_name = ai->ai_src_canonname;
	out->dst_name = ai->ai_dst_canonname;
	out->route = ai->ai_route;
	out->route_len = ai->ai_route_len;
	out->connect = ai->ai_connect;
	out->connect_len = ai->ai_connect_len;
	return ai->ai_next;
}
