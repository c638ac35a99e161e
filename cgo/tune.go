//go:build linux && cgo

package cgo

/*
#include <stddef.h>
#include "rb_tune.h"

_Static_assert(sizeof(struct ibv_flow_spec_eth) == 40 && offsetof(struct ibv_flow_spec_eth, val) == 6, "flow eth");
_Static_assert(sizeof(struct ibv_flow_spec_ipv4) == 24 && offsetof(struct ibv_flow_spec_ipv4, val) == 8, "flow ipv4");
_Static_assert(sizeof(struct ibv_flow_spec_tcp_udp) == 16 && offsetof(struct ibv_flow_spec_tcp_udp, val) == 6, "flow tcp");
_Static_assert(sizeof(struct ibv_flow_spec_counter_action) == 16, "flow counter");
*/
import "C"

import "unsafe"

type (
	// Flow is a rule that steers frames to a queue pair; the zero value is none.
	Flow struct{ p *C.struct_ibv_flow }
	// Counters are what a flow counts; the zero value is none.
	Counters struct{ p *C.struct_ibv_counters }
)

// Addr is the counters' address, for a flow's specification.
func (h Counters) Addr() uintptr { return uintptr(unsafe.Pointer(h.p)) }

// RateLimit sets how fast the queue pair sends.
//
// Implements: int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
func (q QP) RateLimit(kbps, burst uint32, packet uint16) error {
	enter()
	defer leave()
	return check("ibv_modify_qp_rate_limit", int(C.rb_rate_limit(q.p, C.uint32_t(kbps), C.uint32_t(burst), C.uint16_t(packet))))
}

// SetECE sets the enhancements of the connection that the peers agreed on.
//
// Implements: int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (q QP) SetECE(vendor, options uint32) error {
	enter()
	defer leave()
	e := C.struct_ibv_ece{vendor_id: C.uint32_t(vendor), options: C.uint32_t(options)}
	return check("ibv_set_ece", int(C.rb_set_ece(q.p, &e)))
}

// QueryECE asks for the enhancements that the device offers, or has accepted.
//
// Implements: int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (q QP) QueryECE() (vendor, options uint32, err error) {
	enter()
	defer leave()
	var e C.struct_ibv_ece
	err = check("ibv_query_ece", int(C.rb_query_ece(q.p, &e)))
	return uint32(e.vendor_id), uint32(e.options), err
}

// DataInOrder reports whether op writes its data in order.
//
// Implements: int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
func (q QP) DataInOrder(op uint32) bool { return C.rb_data_in_order(q.p, C.int(op)) > 0 }

// ResolveL2 finds the Ethernet address of the next hop, and the VLAN, 0xffff for none.
//
// Implements: int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
func (h Context) ResolveL2(a *AHAttr) (mac [6]byte, vlan uint16, err error) {
	enter()
	defer leave()
	var c C.struct_ibv_ah_attr
	a.toC(&c)
	r := int64(C.rb_resolve_l2(h.p, &c, (*C.uint8_t)(unsafe.Pointer(&mac[0]))))
	return mac, uint16(r), check("ibv_resolve_eth_l2_from_gid", int(r))
}

// CreateFlow makes a rule; specs are laid out as in C.
//
// Implements: struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow)
func (q QP) CreateFlow(a *FlowAttr, specs []byte) (Flow, error) {
	enter()
	defer leave()
	c := C.struct_ibv_flow_attr{
		_type: a.Type, priority: C.uint16_t(a.Priority), num_of_specs: C.uint8_t(a.Specs), port: C.uint8_t(a.Port),
		flags: C.uint32_t(a.Flags),
	}
	r := C.rb_create_flow(q.p, &c, unsafe.Pointer(unsafe.SliceData(specs)), C.size_t(len(specs)))
	return Flow{r.p}, check("ibv_create_flow", int(r.err))
}

// Destroy destroys the rule.
//
// Implements: int ibv_destroy_flow(struct ibv_flow *flow_id)
func (h Flow) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_flow", int(C.rb_destroy_flow(h.p)))
}

// CreateCounters makes a set of counters.
//
// Implements: struct ibv_counters *ibv_create_counters(struct ibv_context *context, struct ibv_counters_init_attr *init_attr)
func (h Context) CreateCounters() (Counters, error) {
	enter()
	defer leave()
	r := C.rb_create_counters(h.p)
	return Counters{r.p}, check("ibv_create_counters", int(r.err))
}

// Attach lets place index of the set count what (enum ibv_counter_description) of
// a flow; the zero Flow stands for the one that is made with the set next.
//
// Implements: int ibv_attach_counters_point_flow(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
func (h Counters) Attach(what, index uint32, f Flow) error {
	enter()
	defer leave()
	return check("ibv_attach_counters_point_flow", int(C.rb_attach_counters(h.p, C.int(what), C.uint32_t(index), f.p)))
}

// Read reads the set.
//
// Implements: int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value, uint32_t ncounters, uint32_t flags)
func (h Counters) Read(values []uint64, flags uint32) error {
	enter()
	defer leave()
	p := (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(values)))
	return check("ibv_read_counters", int(C.rb_read_counters(h.p, p, C.uint32_t(len(values)), C.uint32_t(flags))))
}

// Destroy destroys the set.
//
// Implements: int ibv_destroy_counters(struct ibv_counters *counters)
func (h Counters) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_counters", int(C.rb_destroy_counters(h.p)))
}
