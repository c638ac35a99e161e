//go:build linux && cgo

package cgo

// #include "rb_cm_queues.h"
import "C"

// createQPEx creates a queue pair of any kind; see CreateQP.
func (id ID) createQPEx(pd PD, attr *QPInitAttr) (QP, error) {
	c := attr.ex(pd)
	var qp QP
	if err := check("rdma_create_qp_ex", int(C.rb_cm_create_qp_ex(id.p, &c, &qp.p))); err != nil {
		return QP{}, err
	}
	fromQPCap(&c.cap, &attr.Cap)
	return qp, nil
}

// CreateSRQ makes the id's shared receive queue, which its queue pair takes its
// receives from unless it names another, and writes what was granted into a.
//
// Implements: int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
// and int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
func (id ID) CreateSRQ(pd PD, a *SRQInitAttr) (SRQ, error) {
	enter()
	defer leave()
	var srq SRQ
	if a.Type == C.IBV_SRQT_BASIC {
		init := C.struct_ibv_srq_init_attr{attr: a.Attr.toC()}
		err := check("rdma_create_srq", int(C.rb_cm_create_srq(id.p, pd.p, &init, &srq.p)))
		a.Attr = srqAttr(&init.attr)
		return srq, err
	}
	init := a.ex(pd)
	err := check("rdma_create_srq_ex", int(C.rb_cm_create_srq_ex(id.p, &init, &srq.p)))
	a.Attr = srqAttr(&init.attr)
	return srq, err
}

// DestroySRQ destroys the id's shared receive queue.
//
// Implements: void rdma_destroy_srq(struct rdma_cm_id *id)
func (id ID) DestroySRQ() {
	enter()
	defer leave()
	C.rb_cm_destroy_srq(id.p)
}

// CMEventString is the library's name of a connection manager's event.
//
// Implements: const char *rdma_event_str(enum rdma_cm_event_type event)
func CMEventString(v uint32) string { return C.GoString(C.rdma_event_str(v)) }
