//go:build linux && cgo

package cgo

// #include "rb_queues.h"
import "C"

// extended reports whether only ibv_create_qp_ex can make such a queue pair.
func (a *QPInitAttr) extended() bool {
	return !a.XRCD.IsNil() || a.SendOps|uint64(a.CreateFlags)|uint64(a.SourceQPN)|uint64(a.TSOHeader) != 0
}

// ex is a in the form of C.
func (a *QPInitAttr) ex(p PD) C.struct_ibv_qp_init_attr_ex {
	c := C.struct_ibv_qp_init_attr_ex{
		send_cq:        a.SendCQ.p,
		recv_cq:        a.RecvCQ.p,
		srq:            a.SRQ.p,
		cap:            toQPCap(&a.Cap),
		qp_type:        a.Type,
		comp_mask:      C.IBV_QP_INIT_ATTR_PD,
		pd:             p.p,
		xrcd:           a.XRCD.p,
		create_flags:   C.uint32_t(a.CreateFlags),
		source_qpn:     C.uint32_t(a.SourceQPN),
		send_ops_flags: C.uint64_t(a.SendOps),
		max_tso_header: C.uint16_t(a.TSOHeader),
	}
	if a.SignalAll {
		c.sq_sig_all = 1
	}
	if !a.XRCD.IsNil() {
		c.comp_mask |= C.IBV_QP_INIT_ATTR_XRCD
	}
	if a.CreateFlags != 0 {
		c.comp_mask |= C.IBV_QP_INIT_ATTR_CREATE_FLAGS
	}
	if a.SendOps != 0 {
		c.comp_mask |= C.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
	}
	if a.TSOHeader != 0 {
		c.comp_mask |= C.IBV_QP_INIT_ATTR_MAX_TSO_HEADER
	}
	return c
}

// createQPEx creates a queue pair of any kind.
//
// Implements: struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_init_attr_ex)
func (p PD) createQPEx(a *QPInitAttr) (QP, error) {
	c := a.ex(p)
	r := C.rb_create_qp_ex(p.p.context, &c)
	if err := check("ibv_create_qp_ex", int(r.err)); err != nil {
		return QP{}, err
	}
	fromQPCap(&c.cap, &a.Cap)
	return QP{r.p}, nil
}

// OpenQP opens an XRC target queue pair that another process of the domain made.
//
// Implements: struct ibv_qp *ibv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *qp_open_attr)
func (h Context) OpenQP(x XRCD, num, typ uint32) (QP, error) {
	enter()
	defer leave()
	a := C.struct_ibv_qp_open_attr{
		comp_mask: C.IBV_QP_OPEN_ATTR_NUM | C.IBV_QP_OPEN_ATTR_XRCD | C.IBV_QP_OPEN_ATTR_TYPE,
		qp_num:    C.uint32_t(num), xrcd: x.p, qp_type: typ,
	}
	r := C.rb_open_qp(h.p, &a)
	return QP{r.p}, check("ibv_open_qp", int(r.err))
}
