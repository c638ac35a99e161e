//go:build linux && cgo

package cgo

// #include "rb_queues.h"
import "C"

import "unsafe"

// AH is an address handle; the zero value is none.
type AH struct{ p *C.struct_ibv_ah }

// IsNil reports whether the handle names no object.
func (h AH) IsNil() bool { return h.p == nil }

// Addr is the handle's address, for SendWR.SetUD.
func (h AH) Addr() uintptr { return uintptr(unsafe.Pointer(h.p)) }

func (a *AHAttr) toC(c *C.struct_ibv_ah_attr) {
	c.grh.dgid = a.DGID
	c.grh.flow_label = C.uint32_t(a.FlowLabel)
	c.grh.sgid_index = C.uint8_t(a.SGIDIndex)
	c.grh.hop_limit = C.uint8_t(a.HopLimit)
	c.grh.traffic_class = C.uint8_t(a.TrafficClass)
	c.dlid = C.uint16_t(a.DLID)
	c.sl = C.uint8_t(a.SL)
	c.src_path_bits = C.uint8_t(a.SrcPathBits)
	c.static_rate = C.uint8_t(a.StaticRate)
	if a.Global {
		c.is_global = 1
	}
	c.port_num = C.uint8_t(a.Port)
}

func ahAttr(c *C.struct_ibv_ah_attr) AHAttr {
	return AHAttr{
		DGID:         c.grh.dgid,
		FlowLabel:    uint32(c.grh.flow_label),
		SGIDIndex:    uint8(c.grh.sgid_index),
		HopLimit:     uint8(c.grh.hop_limit),
		TrafficClass: uint8(c.grh.traffic_class),
		DLID:         uint16(c.dlid),
		SL:           uint8(c.sl),
		SrcPathBits:  uint8(c.src_path_bits),
		StaticRate:   uint8(c.static_rate),
		Global:       c.is_global != 0,
		Port:         uint8(c.port_num),
	}
}

// CreateAH creates an address handle.
//
// Implements: struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
func (p PD) CreateAH(a *AHAttr) (AH, error) {
	enter()
	defer leave()
	var c C.struct_ibv_ah_attr
	a.toC(&c)
	r := C.rb_create_ah(p.p, &c)
	return AH{r.p}, check("ibv_create_ah", int(r.err))
}

// CreateAHFromWC creates an address handle for the sender of a datagram, from
// its completion and the 40 bytes at the head of its receive buffer.
//
// Implements: struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
func (p PD) CreateAHFromWC(wc *WC, grh *[40]byte, port uint8) (AH, error) {
	enter()
	defer leave()
	r := C.rb_create_ah_from_wc(p.p, (*C.struct_ibv_wc)(unsafe.Pointer(wc)), unsafe.Pointer(grh), C.uint8_t(port))
	return AH{r.p}, check("ibv_create_ah_from_wc", int(r.err))
}

// InitAHFromWC fills the attributes that CreateAHFromWC would use.
//
// Implements: int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
func (h Context) InitAHFromWC(wc *WC, grh *[40]byte, port uint8) (AHAttr, error) {
	enter()
	defer leave()
	var c C.struct_ibv_ah_attr
	r := C.rb_init_ah_from_wc(h.p, C.uint8_t(port), (*C.struct_ibv_wc)(unsafe.Pointer(wc)), unsafe.Pointer(grh), &c)
	return ahAttr(&c), check("ibv_init_ah_from_wc", int(r))
}

// Destroy destroys an address handle.
//
// Implements: int ibv_destroy_ah(struct ibv_ah *ah)
func (h AH) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_ah", int(C.rb_destroy_ah(h.p)))
}

// AttachMcast lets a UD queue pair receive what is sent to a multicast group.
//
// Implements: int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (q QP) AttachMcast(gid *[16]byte, lid uint16) error {
	enter()
	defer leave()
	return check("ibv_attach_mcast", int(C.rb_attach_mcast(q.p, unsafe.Pointer(gid), C.uint16_t(lid))))
}

// DetachMcast ends that.
//
// Implements: int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (q QP) DetachMcast(gid *[16]byte, lid uint16) error {
	enter()
	defer leave()
	return check("ibv_detach_mcast", int(C.rb_detach_mcast(q.p, unsafe.Pointer(gid), C.uint16_t(lid))))
}
