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
