#include "rb_queues.h"
#include "rb_result.h"

/* Folding the styles of failure is all that the wrappers here do, unless their
 * comment says more. */

struct rb_ah_r rb_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return RB_RESULT(rb_ah_r, ibv_create_ah(pd, attr));
}

/* The headers come as bare pointers, so that Go needs no types for them. */
struct rb_ah_r rb_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, void *grh, uint8_t port)
{
	return RB_RESULT(rb_ah_r, ibv_create_ah_from_wc(pd, wc, grh, port));
}

int rb_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, void *grh, struct ibv_ah_attr *out)
{
	errno = 0;
	return rb_ret(ibv_init_ah_from_wc(c, port, wc, grh, out));
}

int rb_destroy_ah(struct ibv_ah *ah)
{
	errno = 0;
	return rb_ret(ibv_destroy_ah(ah));
}

int rb_attach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid)
{
	errno = 0;
	return rb_ret(ibv_attach_mcast(qp, gid, lid));
}

int rb_detach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid)
{
	errno = 0;
	return rb_ret(ibv_detach_mcast(qp, gid, lid));
}

struct rb_srq_r rb_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return RB_RESULT(rb_srq_r, ibv_create_srq(pd, attr));
}

struct rb_srq_r rb_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr)
{
	return RB_RESULT(rb_srq_r, ibv_create_srq_ex(c, attr));
}

int rb_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	errno = 0;
	return rb_ret(ibv_modify_srq(srq, attr, mask));
}

int rb_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	errno = 0;
	return rb_ret(ibv_query_srq(srq, attr));
}

/* The number has 24 bits, so that it fits beside the errno. */
int64_t rb_get_srq_num(struct ibv_srq *srq)
{
	uint32_t n = 0;

	errno = 0;
	int r = rb_ret(ibv_get_srq_num(srq, &n));
	return r ? r : (int64_t)n;
}

int rb_destroy_srq(struct ibv_srq *srq)
{
	errno = 0;
	return rb_ret(ibv_destroy_srq(srq));
}

struct rb_xrcd_r rb_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr)
{
	return RB_RESULT(rb_xrcd_r, ibv_open_xrcd(c, attr));
}

int rb_close_xrcd(struct ibv_xrcd *x)
{
	errno = 0;
	return rb_ret(ibv_close_xrcd(x));
}

struct rb_qpx_r rb_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr)
{
	return RB_RESULT(rb_qpx_r, ibv_create_qp_ex(c, attr));
}

struct rb_qpx_r rb_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr)
{
	return RB_RESULT(rb_qpx_r, ibv_open_qp(c, attr));
}
