//go:build linux && cgo

package cgo

// #include "rb_device.h"
import "C"

import "unsafe"

// QueryDeviceEx asks for the device's limits and for what it has beyond them. A
// provider without the call tells the limits alone.
//
// Implements: int ibv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr)
func (c Context) QueryDeviceEx() (DeviceAttr, DeviceExAttr, error) {
	var a C.struct_ibv_device_attr
	var x C.struct_rb_device_ex
	if err := check("ibv_query_device_ex", int(C.rb_query_device_ex(c.p, &a, &x))); err != nil {
		return DeviceAttr{}, DeviceExAttr{}, err
	}
	return toDeviceAttr(&a), DeviceExAttr{
		ODPGeneral: uint64(x.odp_general), ODPRC: uint64(x.odp_rc), ODPUC: uint64(x.odp_uc), ODPUD: uint64(x.odp_ud),
		ODPXRC:        uint64(x.odp_xrc),
		TimestampMask: uint64(x.timestamp_mask), CoreClockKHz: uint64(x.core_clock), CapFlagsEx: uint64(x.cap_flags_ex),
		TSOMax: uint32(x.tso_max), TSOQPTypes: uint32(x.tso_qpts),
		RSSQPTypes: uint32(x.rss_qpts), RSSTables: uint32(x.rss_tables), RSSTableSize: uint32(x.rss_table_size),
		RSSFunction: uint32(x.rss_function), RSSFields: uint64(x.rss_fields),
		MaxWQ:     uint32(x.max_wq_rq),
		PacingMin: uint32(x.pacing_min), PacingMax: uint32(x.pacing_max), PacingQPTypes: uint32(x.pacing_qpts),
		RawCaps:  uint32(x.raw_caps),
		TMHeader: uint32(x.tm_header), TMTags: uint32(x.tm_tags), TMFlags: uint32(x.tm_flags), TMOps: uint32(x.tm_ops),
		TMSGE:   uint32(x.tm_sge),
		CQCount: uint32(x.cq_count), CQPeriod: uint32(x.cq_period),
		MaxDMSize:   uint64(x.max_dm_size),
		PCIFetchAdd: uint32(x.pci_fetch_add), PCISwap: uint32(x.pci_swap), PCICompareSwap: uint32(x.pci_cmp_swap),
		Ports: uint32(x.ports), CompMask: uint64(x.comp_mask),
	}, nil
}

// QueryPortSpeed asks for a port's effective speed, in units of 100 Mbit/s.
//
// Implements: int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
func (c Context) QueryPortSpeed(port uint8) (uint64, error) {
	var speed C.uint64_t
	err := checkNewer("ibv_query_port_speed", 62, int(C.rb_query_port_speed(c.p, C.uint32_t(port), &speed)))
	return uint64(speed), err
}

// QueryGIDOnly reads a GID without its type and network device; a row that is
// not valid is all zeros.
//
// Implements: int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
func (c Context) QueryGIDOnly(port uint8, index int) (gid [16]byte, err error) {
	r := C.rb_query_gid(c.p, C.uint8_t(port), C.int(index), (*C.uint8_t)(unsafe.Pointer(&gid)))
	return gid, check("ibv_query_gid", int(r))
}

// PKeyIndex finds the row of a P_Key, given in host order; ENOENT for none.
//
// Implements: int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
func (c Context) PKeyIndex(port uint8, pkey uint16) (int, error) {
	r := int(C.rb_get_pkey_index(c.p, C.uint8_t(port), C.uint16_t(pkey)))
	return r, check("ibv_get_pkey_index", r)
}

// QueryClock reads the device's clock.
//
// Implements: int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
func (c Context) QueryClock() (seconds, nanoseconds int64, err error) {
	var s, ns C.int64_t
	err = check("ibv_query_rt_values_ex", int(C.rb_query_clock(c.p, &s, &ns)))
	return int64(s), int64(ns), err
}

// ImportDevice makes a context of the one that another process has open under
// fd, which stays the caller's.
//
// Implements: struct ibv_context *ibv_import_device(int cmd_fd)
func ImportDevice(fd uintptr) (Context, error) {
	enter()
	defer leave()
	r := C.rb_import_device(C.int(fd))
	return Context{r.p}, check("ibv_import_device", int(r.err))
}

// DupCmdFD duplicates the descriptor that ImportDevice takes.
func (c Context) DupCmdFD() (uintptr, error) {
	fd := int(C.rb_dup_fd(C.rb_context_fd(c.p)))
	return uintptr(fd), check("fcntl", fd)
}

// ForkInit makes forks safe for registered memory, from now on.
//
// Implements: int ibv_fork_init(void)
func ForkInit() error {
	r := int(C.ibv_fork_init())
	return check("ibv_fork_init", -r)
}

// ForkStatus tells whether that is so, enum ibv_fork_status.
//
// Implements: enum ibv_fork_status ibv_is_fork_initialized(void)
func ForkStatus() uint32 { return C.ibv_is_fork_initialized() }

// What libibverbs calls the values of its enumerations. Package ibv has names of
// its own; these are for comparison.

// NodeTypeString is the library's name of a node type.
//
// Implements: const char *ibv_node_type_str(enum ibv_node_type node_type)
func NodeTypeString(v int) string { return C.GoString(C.ibv_node_type_str(C.enum_ibv_node_type(v))) }

// PortStateString is the library's name of a port state.
//
// Implements: const char *ibv_port_state_str(enum ibv_port_state port_state)
func PortStateString(v uint32) string { return C.GoString(C.ibv_port_state_str(v)) }

// EventTypeString is the library's name of an async event.
//
// Implements: const char *ibv_event_type_str(enum ibv_event_type event)
func EventTypeString(v uint32) string { return C.GoString(C.ibv_event_type_str(v)) }

// WCStatusString is the library's name of a completion's status.
//
// Implements: const char *ibv_wc_status_str(enum ibv_wc_status status)
func WCStatusString(v uint32) string { return C.GoString(C.ibv_wc_status_str(v)) }

// RateToMult is a rate as a multiple of 2.5 Gbit/s, -1 for none.
//
// Implements: int ibv_rate_to_mult(enum ibv_rate rate)
func RateToMult(rate uint32) int { return int(C.ibv_rate_to_mult(rate)) }

// MultToRate is the reverse.
//
// Implements: enum ibv_rate mult_to_ibv_rate(int mult)
func MultToRate(mult int) uint32 { return C.mult_to_ibv_rate(C.int(mult)) }

// RateToMbps is a rate in Mbit/s, -1 for none.
//
// Implements: int ibv_rate_to_mbps(enum ibv_rate rate)
func RateToMbps(rate uint32) int { return int(C.ibv_rate_to_mbps(rate)) }

// MbpsToRate is the reverse.
//
// Implements: enum ibv_rate mbps_to_ibv_rate(int mbps)
func MbpsToRate(mbps int) uint32 { return C.mbps_to_ibv_rate(C.int(mbps)) }

// FlowLabelToUDPSport is the source port of packets that carry a flow label.
//
// Implements: uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
func FlowLabelToUDPSport(label uint32) uint16 {
	return uint16(C.ibv_flow_label_to_udp_sport(C.uint32_t(label)))
}

// IncRKey is the next rkey of a memory window of type 2.
//
// Implements: uint32_t ibv_inc_rkey(uint32_t rkey)
func IncRKey(rkey uint32) uint32 { return uint32(C.ibv_inc_rkey(C.uint32_t(rkey))) }

// IsQPTSupported tells whether a mask of queue pair types has one.
//
// Implements: int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
func IsQPTSupported(caps, qpt uint32) bool { return C.ibv_is_qpt_supported(C.uint32_t(caps), qpt) != 0 }
