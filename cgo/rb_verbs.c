#include "rb_verbs.h"
#include "rb_result.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Copies what Go wants of the list and frees it: the entries are valid only as
 * long as the list. Returns how many devices there are, also beyond cap. */
int rb_devices(struct rb_device *out, int cap)
{
	int n = 0;

	errno = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	if (!list)
		return rb_errno();
	for (int i = 0; i < n && i < cap; i++) {
		struct ibv_device *d = list[i];

		snprintf(out[i].name, sizeof(out[i].name), "%s", ibv_get_device_name(d));
		snprintf(out[i].dev_name, sizeof(out[i].dev_name), "%s", d->dev_name);
		out[i].guid = be64toh(ibv_get_device_guid(d));
		out[i].index = ibv_get_device_index(d);
		out[i].node_type = d->node_type;
		out[i].transport = d->transport_type;
	}
	ibv_free_device_list(list);
	return n;
}

/* Find and open in one call: the device must be opened before its list is
 * freed. ENODEV where no device has the name. */
struct rb_context_r rb_open(const char *name)
{
	struct rb_context_r r = { NULL, -ENODEV };
	int n = 0;

	errno = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	if (!list) {
		r.err = rb_errno();
		return r;
	}
	for (int i = 0; i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) != 0)
			continue;
		r = RB_RESULT(rb_context_r, ibv_open_device(list[i]));
		break;
	}
	ibv_free_device_list(list);
	return r;
}

int rb_close(struct ibv_context *c)
{
	errno = 0;
	return rb_ret(ibv_close_device(c));
}

const char *rb_context_name(struct ibv_context *c)
{
	return c->device ? ibv_get_device_name(c->device) : "";
}

int rb_context_transport(struct ibv_context *c)
{
	return c->device ? c->device->transport_type : IBV_TRANSPORT_UNKNOWN;
}

int rb_query_device(struct ibv_context *c, struct ibv_device_attr *out)
{
	errno = 0;
	return rb_ret(ibv_query_device(c, out));
}

int rb_query_port(struct ibv_context *c, uint8_t port, struct rb_port_attr *out)
{
	struct ibv_port_attr a;

	memset(&a, 0, sizeof(a));
	errno = 0;
	int r = rb_ret(ibv_query_port(c, port, &a));
	if (r)
		return r;
	*out = (struct rb_port_attr){
		.state = a.state,
		.max_mtu = a.max_mtu,
		.active_mtu = a.active_mtu,
		.gid_tbl_len = a.gid_tbl_len,
		.port_cap_flags = a.port_cap_flags,
		.max_msg_sz = a.max_msg_sz,
		.pkey_tbl_len = a.pkey_tbl_len,
		.lid = a.lid,
		.sm_lid = a.sm_lid,
		.lmc = a.lmc,
		.active_width = a.active_width,
		.active_speed = a.active_speed,
		.phys_state = a.phys_state,
		.link_layer = a.link_layer,
		.bad_pkey_cntr = a.bad_pkey_cntr,
		.qkey_viol_cntr = a.qkey_viol_cntr,
		.port_cap_flags2 = a.port_cap_flags2,
		.max_vl_num = a.max_vl_num,
		.sm_sl = a.sm_sl,
		.subnet_timeout = a.subnet_timeout,
		.init_type_reply = a.init_type_reply,
		.flags = a.flags,
	};
	return 0;
}

/* Static inline in the header; returns the number of rows, or -errno already. */
int rb_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *out, size_t cap)
{
	return (int)ibv_query_gid_table(c, out, cap, 0);
}

int rb_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *out)
{
	errno = 0;
	return rb_ret(ibv_query_gid_ex(c, port, index, out, 0));
}

/* Returns the P_Key in host order, which fits beside the errno. */
int rb_query_pkey(struct ibv_context *c, uint8_t port, int index)
{
	__be16 key;

	errno = 0;
	int r = rb_ret(ibv_query_pkey(c, port, index, &key));
	return r ? r : be16toh(key);
}

struct rb_pd_r rb_alloc_pd(struct ibv_context *c)
{
	return RB_RESULT(rb_pd_r, ibv_alloc_pd(c));
}

int rb_dealloc_pd(struct ibv_pd *pd)
{
	errno = 0;
	return rb_ret(ibv_dealloc_pd(pd));
}

/* A macro in the header. The address comes as a number: it may be Go memory
 * (pinned by the caller) or a mapping that Go knows nothing of. */
struct rb_mr_r rb_reg_mr(struct ibv_pd *pd, uintptr_t addr, size_t length, unsigned int access)
{
	return RB_RESULT(rb_mr_r, ibv_reg_mr(pd, (void *)addr, length, access));
}

int rb_dereg_mr(struct ibv_mr *mr)
{
	errno = 0;
	return rb_ret(ibv_dereg_mr(mr));
}

/* Non-blocking from the start: the descriptor is read through Go's poller. */
struct rb_channel_r rb_create_channel(struct ibv_context *c)
{
	struct rb_channel_r r = RB_RESULT(rb_channel_r, ibv_create_comp_channel(c));

	if (!r.p)
		return r;
	int flags = fcntl(r.p->fd, F_GETFL);
	if (flags < 0 || fcntl(r.p->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		r.err = rb_errno();
		ibv_destroy_comp_channel(r.p);
		r.p = NULL;
	}
	return r;
}

int rb_destroy_channel(struct ibv_comp_channel *ch)
{
	errno = 0;
	return rb_ret(ibv_destroy_comp_channel(ch));
}

/* fcntl is variadic. The copy shares the status flags, O_NONBLOCK included. */
int rb_dup_fd(int fd)
{
	int r = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return r < 0 ? rb_errno() : r;
}

/* Fetches up to cap events, copies their CQs' cookies and acknowledges each at
 * once: ibv_destroy_cq waits for every event that was fetched, and after the
 * acknowledgement the CQ may be gone, so nothing but the cookie leaves here.
 * Returns how many; 0 where none is queued. */
int rb_channel_events(struct ibv_comp_channel *ch, uint64_t *cookies, int cap)
{
	int n = 0;

	while (n < cap) {
		struct ibv_cq *cq;
		void *cookie;

		errno = 0;
		if (ibv_get_cq_event(ch, &cq, &cookie)) {
			if (errno == EINTR)
				continue;
			if (n > 0 || errno == EAGAIN)
				return n;
			return rb_errno();
		}
		cookies[n++] = (uintptr_t)cookie;
		ibv_ack_cq_events(cq, 1);
	}
	return n;
}

/* librdmacm, whose context it may be, never reads this descriptor. */
int rb_dup_async_fd(struct ibv_context *c)
{
	int flags = fcntl(c->async_fd, F_GETFL);

	if (flags < 0 || fcntl(c->async_fd, F_SETFL, flags | O_NONBLOCK))
		return rb_errno();
	return rb_dup_fd(c->async_fd);
}

/* The object of an event stays valid only until it is acknowledged, which is
 * here and at once: destroying it waits for every event that was fetched. What
 * leaves is its address, to be compared and never followed. Returns 1, 0 where
 * none is queued, or a negative errno. */
int rb_async_event(struct ibv_context *c, struct rb_async_event *out)
{
	struct ibv_async_event ev;

	do
		errno = 0;
	while (ibv_get_async_event(c, &ev) && errno == EINTR);
	if (errno)
		return errno == EAGAIN ? 0 : rb_errno();
	*out = (struct rb_async_event){ .type = ev.event_type };
	switch (ev.event_type) {
	case IBV_EVENT_CQ_ERR:
		out->cq = ev.element.cq;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		out->srq = ev.element.srq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		out->qp = ev.element.qp;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		out->port = ev.element.port_num;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&ev);
	return 1;
}

struct rb_cq_r rb_create_cq(struct ibv_context *c, int cqe, uint64_t cookie,
			    struct ibv_comp_channel *ch, int vector)
{
	return RB_RESULT(rb_cq_r, ibv_create_cq(c, cqe, (void *)(uintptr_t)cookie, ch, vector));
}

int rb_destroy_cq(struct ibv_cq *cq)
{
	errno = 0;
	return rb_ret(ibv_destroy_cq(cq));
}

struct rb_qp_r rb_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return RB_RESULT(rb_qp_r, ibv_create_qp(pd, attr));
}

int rb_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	errno = 0;
	return rb_ret(ibv_modify_qp(qp, attr, mask));
}

int rb_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	errno = 0;
	return rb_ret(ibv_query_qp(qp, attr, mask, init));
}

int rb_destroy_qp(struct ibv_qp *qp)
{
	errno = 0;
	return rb_ret(ibv_destroy_qp(qp));
}
