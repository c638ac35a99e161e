#ifndef RB_WR_H
#define RB_WR_H

#include "rb_fast.h"

int rb_qp_extend(struct rb_qp *q, struct ibv_qp_ex *x);
int rb_wr_post(struct ibv_qp_ex *x, struct ibv_send_wr *first, struct ibv_send_wr **bad);

#endif
