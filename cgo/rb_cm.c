#include "rb_cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

// fold turns librdmacm's "-1 and errno" into a negative errno. Some paths of
// librdmacm return a negative value with errno unset: never call that success.
static int fold(int ret)
{
	if (ret >= 0)
		return ret;
	return errno ? -errno : -EIO;
}

// rb_to_sys builds the sockaddr that librdmacm wants; NULL for "none".
struct sockaddr *rb_to_sys(const struct rb_sockaddr *in,
			   struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (in->family == AF_INET) {
		struct sockaddr_in *sin = (struct sockaddr_in *)out;
		sin->sin_family = AF_INET;
		sin->sin_port = htons(in->port);
		memcpy(&sin->sin_addr, in->addr, 4);
	} else if (in->family == AF_INET6) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;
		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons(in->port);
		sin6->sin6_scope_id = in->scope;
		memcpy(&sin6->sin6_addr, in->addr, 16);
	} else {
		return NULL;
	}
	return (struct sockaddr *)out;
}

void rb_from_sys(const struct sockaddr *in, struct rb_sockaddr *out)
{
	memset(out, 0, sizeof(*out));
	out->family = in->sa_family;
	if (in->sa_family == AF_INET) {
		const struct sockaddr_in *sin = (const struct sockaddr_in *)in;
		out->port = ntohs(sin->sin_port);
		memcpy(out->addr, &sin->sin_addr, 4);
	} else if (in->sa_family == AF_INET6) {
		const struct sockaddr_in6 *sin6 =
			(const struct sockaddr_in6 *)in;
		out->port = ntohs(sin6->sin6_port);
		out->scope = sin6->sin6_scope_id;
		memcpy(out->addr, &sin6->sin6_addr, 16);
	}
}

// The channel is born non-blocking: its descriptor belongs to Go's poller and
// no thread may ever sleep in rdma_get_cm_event.
int rb_cm_create_channel(struct rdma_event_channel **out)
{
	struct rdma_event_channel *ch;
	int flags, err;

	errno = 0;
	ch = rdma_create_event_channel();
	if (!ch)
		return errno ? -errno : -ENODEV;
	flags = fcntl(ch->fd, F_GETFL);
	if (flags < 0 || fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		err = errno;
		rdma_destroy_event_channel(ch);
		return -err;
	}
	*out = ch;
	return 0;
}

// Go's poller closes what it owns, and the channel's descriptor is librdmacm's.
int rb_cm_dup_fd(struct rdma_event_channel *ch)
{
	int fd = fcntl(ch->fd, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static void copy_private(struct rb_cm_event *out, const void *data, uint8_t len)
{
	if (!data)
		return;
	out->private_len = len;
	memcpy(out->private_data, data, len);
}

static void copy_conn(const struct rdma_cm_event *ev, struct rb_cm_event *out)
{
	const struct rdma_conn_param *c = &ev->param.conn;

	out->conn.responder_resources = c->responder_resources;
	out->conn.initiator_depth = c->initiator_depth;
	out->conn.flow_control = c->flow_control;
	out->conn.retry_count = c->retry_count;
	out->conn.rnr_retry_count = c->rnr_retry_count;
	out->conn.srq = c->srq;
	out->conn.qp_num = c->qp_num;
	copy_private(out, c->private_data, c->private_data_len);
}

// In a multicast event librdmacm puts the join's context where other events
// have their private data.
static void copy_ud(const struct rdma_cm_event *ev, struct rb_cm_event *out)
{
	const struct rdma_ud_param *u = &ev->param.ud;

	out->ud.ah = u->ah_attr;
	out->ud.qp_num = u->qp_num;
	out->ud.qkey = u->qkey;
	if (ev->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    ev->event == RDMA_CM_EVENT_MULTICAST_ERROR)
		out->group = (uint64_t)(uintptr_t)u->private_data;
	else
		copy_private(out, u->private_data, u->private_data_len);
}

// Copy and acknowledge in one call: an unacknowledged event would make
// rdma_destroy_id wait for ever. The id's fields are copied here as well,
// since only the caller of rdma_get_cm_event may read them safely.
int rb_cm_get_event(struct rdma_event_channel *ch, struct rb_cm_event *out)
{
	struct rdma_cm_event *ev;

	errno = 0;
	if (rdma_get_cm_event(ch, &ev))
		return errno ? -errno : -EIO;

	out->type = ev->event;
	out->status = ev->status;
	out->cookie = (uint64_t)(uintptr_t)ev->id->context;
	out->listen_cookie = 0;
	out->new_id = NULL;
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		out->new_id = ev->id;
		out->listen_cookie = (uint64_t)(uintptr_t)ev->listen_id->context;
	}

	memset(&out->conn, 0, sizeof(out->conn));
	memset(&out->ud, 0, sizeof(out->ud));
	out->group = 0;
	out->arg = 0;
	out->private_len = 0;
	// (Events of later versions have nothing there, or a number.)
	if (ev->event > RDMA_CM_EVENT_TIMEWAIT_EXIT)
		memcpy(&out->arg, &ev->param, sizeof(out->arg));
	else if (ev->id->qp_type == IBV_QPT_UD)
		copy_ud(ev, out);
	else
		copy_conn(ev, out);
	rb_cm_query(ev->id, &out->info);
	rdma_ack_cm_event(ev);
	return 0;
}

int rb_cm_create_id(struct rdma_event_channel *ch, uint64_t cookie, int ps,
		    struct rdma_cm_id **out)
{
	errno = 0;
	return fold(rdma_create_id(ch, out, (void *)(uintptr_t)cookie, ps));
}

int rb_cm_destroy_id(struct rdma_cm_id *id)
{
	errno = 0;
	return fold(rdma_destroy_id(id));
}

// A CONNECT_REQUEST's id is born with its listener's context. The pump gives
// it one of its own before it fetches the next event.
void rb_cm_set_cookie(struct rdma_cm_id *id, uint64_t cookie)
{
	id->context = (void *)(uintptr_t)cookie;
}

int rb_cm_bind(struct rdma_cm_id *id, struct rb_sockaddr addr)
{
	struct sockaddr_storage ss;
	struct sockaddr *sa = rb_to_sys(&addr, &ss);

	if (!sa)
		return -EAFNOSUPPORT;
	errno = 0;
	return fold(rdma_bind_addr(id, sa));
}

int rb_cm_resolve_addr(struct rdma_cm_id *id, struct rb_sockaddr src,
		       struct rb_sockaddr dst, int timeout_ms)
{
	struct sockaddr_storage s, d;
	struct sockaddr *to = rb_to_sys(&dst, &d);

	if (!to)
		return -EAFNOSUPPORT;
	errno = 0;
	return fold(rdma_resolve_addr(id, rb_to_sys(&src, &s), to, timeout_ms));
}

// librdmacm dereferences id->verbs here without a look.
int rb_cm_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	if (!id->verbs)
		return -EINVAL;
	errno = 0;
	return fold(rdma_resolve_route(id, timeout_ms));
}

int rb_cm_listen(struct rdma_cm_id *id, int backlog)
{
	errno = 0;
	return fold(rdma_listen(id, backlog));
}

// What connect and accept have in common. The length field of the C structure
// has eight bits: 256 must not become 0; and librdmacm dereferences id->verbs
// without a look.
static int to_param(struct rdma_cm_id *id, struct rb_cm_conn conn,
		    const void *data, int len, struct rdma_conn_param *out)
{
	if (len < 0 || len > UINT8_MAX || !id->verbs)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	out->private_data = len ? data : NULL;
	out->private_data_len = len;
	out->responder_resources = conn.responder_resources;
	out->initiator_depth = conn.initiator_depth;
	out->flow_control = conn.flow_control;
	out->retry_count = conn.retry_count;
	out->rnr_retry_count = conn.rnr_retry_count;
	out->srq = conn.srq;
	out->qp_num = conn.qp_num;
	return 0;
}

int rb_cm_connect(struct rdma_cm_id *id, struct rb_cm_conn conn,
		  const void *data, int len)
{
	struct rdma_conn_param p;
	int ret = to_param(id, conn, data, len, &p);

	if (ret)
		return ret;
	errno = 0;
	return fold(rdma_connect(id, &p));
}

int rb_cm_accept(struct rdma_cm_id *id, struct rb_cm_conn conn,
		 const void *data, int len)
{
	struct rdma_conn_param p;
	int ret = to_param(id, conn, data, len, &p);

	if (ret)
		return ret;
	errno = 0;
	return fold(rdma_accept(id, &p));
}

int rb_cm_reject(struct rdma_cm_id *id, const void *data, int len)
{
	if (len < 0 || len > UINT8_MAX)
		return -EINVAL;
	errno = 0;
	return fold(rdma_reject(id, len ? data : NULL, len));
}

int rb_cm_disconnect(struct rdma_cm_id *id)
{
	if (!id->verbs)
		return -EINVAL;
	errno = 0;
	return fold(rdma_disconnect(id));
}

int rb_cm_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		    struct ibv_qp_init_attr *attr, struct ibv_qp **out)
{
	int ret;

	if (!id->verbs)
		return -EINVAL;
	errno = 0;
	ret = fold(rdma_create_qp(id, pd, attr));
	if (!ret)
		*out = id->qp;
	return ret;
}

int rb_cm_may_have_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	errno = 0;
	return fold(rdma_init_qp_attr(id, &attr, &mask));
}

void rb_cm_destroy_qp(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
}

int rb_cm_set_option(struct rdma_cm_id *id, int level, int name,
		     const void *val, int len)
{
	errno = 0;
	return fold(rdma_set_option(id, level, name, (void *)val, len));
}

// One pass over the id's fields: Go sees them by value or not at all.
void rb_cm_query(struct rdma_cm_id *id, struct rb_cm_info *out)
{
	const struct ibv_sa_path_rec *path;

	memset(out, 0, sizeof(*out));
	out->device_index = -1;
	out->transport = IBV_TRANSPORT_UNKNOWN;
	out->port_num = id->port_num;
	out->verbs = id->verbs;
	if (id->verbs) {
		strncpy(out->device, ibv_get_device_name(id->verbs->device),
			sizeof(out->device) - 1);
		out->device_index = ibv_get_device_index(id->verbs->device);
		out->transport = id->verbs->device->transport_type;
	}
	rb_from_sys(&id->route.addr.src_addr, &out->local);
	rb_from_sys(&id->route.addr.dst_addr, &out->peer);
	memcpy(out->sgid, &id->route.addr.addr.ibaddr.sgid, 16);
	memcpy(out->dgid, &id->route.addr.addr.ibaddr.dgid, 16);
	out->pkey = ntohs(id->route.addr.addr.ibaddr.pkey);
	if (id->route.num_paths > 0 && id->route.path_rec) {
		path = id->route.path_rec;
		out->num_paths = id->route.num_paths;
		out->path_mtu = path->mtu;
		out->path_hop_limit = path->hop_limit;
		memcpy(out->path_sgid, &path->sgid, 16);
		memcpy(out->path_dgid, &path->dgid, 16);
	}
}

// rdma_get_devices pins every context that librdmacm has opened: without it a
// removed device's context would be closed under memory that still uses it.
int rb_cm_get_devices(struct ibv_context ***out)
{
	int n = 0;

	errno = 0;
	*out = rdma_get_devices(&n);
	if (!*out)
		return errno ? -errno : -ENODEV;
	return n;
}
