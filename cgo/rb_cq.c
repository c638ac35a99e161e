#include "rb_cq.h"
#include "rb_lock.h"
#include "rb_result.h"

/* An extended CQ is made under its plain type: ibv_poll_cq works on it too. */
struct rb_cqx_r rb_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr, uint64_t cookie)
{
	struct rb_cqx_r r = { NULL, 0 };

	attr->cq_context = (void *)(uintptr_t)cookie;
	errno = 0;
	struct ibv_cq_ex *x = ibv_create_cq_ex(c, attr);
	if (x)
		r.p = ibv_cq_ex_to_cq(x);
	else
		r.err = rb_errno();
	return r;
}

static void read_wc(struct ibv_cq_ex *x, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){ .wr_id = x->wr_id, .status = x->status };
	wc->qp_num = ibv_wc_read_qp_num(x);
	wc->opcode = ibv_wc_read_opcode(x);
	if (x->status != IBV_WC_SUCCESS) {
		wc->vendor_err = ibv_wc_read_vendor_err(x);
		return;
	}
	wc->wc_flags = ibv_wc_read_wc_flags(x);
	wc->byte_len = ibv_wc_read_byte_len(x);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = ibv_wc_read_invalidated_rkey(x);
	else
		wc->imm_data = ibv_wc_read_imm_data(x);
	wc->src_qp = ibv_wc_read_src_qp(x);
	wc->slid = ibv_wc_read_slid(x);
	wc->sl = ibv_wc_read_sl(x);
	wc->dlid_path_bits = ibv_wc_read_dlid_path_bits(x);
}

static void read_extra(struct ibv_cq_ex *x, uint64_t fields, struct rb_wc_extra *e)
{
	*e = (struct rb_wc_extra){ 0 };
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		e->timestamp = ibv_wc_read_completion_ts(x);
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		e->wallclock = ibv_wc_read_completion_wallclock_ns(x);
	if (fields & IBV_WC_EX_WITH_CVLAN)
		e->cvlan = ibv_wc_read_cvlan(x);
	if (fields & IBV_WC_EX_WITH_FLOW_TAG)
		e->flow_tag = ibv_wc_read_flow_tag(x);
	if (fields & IBV_WC_EX_WITH_TM_INFO) {
		struct ibv_wc_tm_info tm = { 0 };

		ibv_wc_read_tm_info(x, &tm);
		e->tag = tm.tag;
		e->tag_priv = tm.priv;
	}
}

static void read_all(struct rb_cq *c, struct ibv_cq_ex *x, struct ibv_wc *wc, struct rb_wc_extra *extra)
{
	read_wc(x, wc);
	if (x->status == IBV_WC_SUCCESS)
		read_extra(x, c->fields, extra);
	else
		*extra = (struct rb_wc_extra){ 0 };
}

/* start, next, end in one crossing; the accounts are the same as those of a plain
 * poll. ENOENT is the end of the queue. Soft-RoCE's next steps over the end (that
 * of rdma-core 44 loses a place of the ring, that of 56 unlocks twice), so there
 * each completion is started and ended. */
int rb_poll_ex(uintptr_t cq, int n, struct ibv_wc *wc, struct rb_wc_extra *extra)
{
	struct rb_cq *c = (struct rb_cq *)cq;
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)c->cq;
	int i = 0, r = ENOENT;

	lock(&c->lock);
	if (unlikely(c->closed)) {
		r = -(int)c->closed;
		unlock(&c->lock);
		return r;
	}
	while (i < n) {
		struct ibv_poll_cq_attr attr = { 0 };

		r = ibv_start_poll(x, &attr);
		if (r)
			break;
		do
			read_all(c, x, &wc[i], &extra[i]);
		while (++i < n && !c->rxe && !(r = ibv_next_poll(x)));
		ibv_end_poll(x);
		if (!c->rxe)
			break;
	}
	if (i)
		rb_account(c, wc, i);
	unlock(&c->lock);
	return i ? i : r == ENOENT ? 0 : -EIO;
}

/* Under the lock: providers replace the ring that a poll reads. */
int rb_resize_cq(uintptr_t cq, int cqe)
{
	struct rb_cq *c = (struct rb_cq *)cq;
	int r;

	lock(&c->lock);
	errno = 0;
	r = c->closed ? -EBADF : rb_ret(ibv_resize_cq(c->cq, cqe));
	unlock(&c->lock);
	return r;
}

int rb_moderate_cq(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr a = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = count, .cq_period = period },
	};

	errno = 0;
	return rb_ret(ibv_modify_cq(cq, &a));
}
