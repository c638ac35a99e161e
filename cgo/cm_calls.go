//go:build linux && cgo

package cgo

// #include <stdlib.h>
// #include "rb_cm_calls.h"
import "C"

import (
	"strings"
	"syscall"
	"unsafe"
)

// QPAttr gives the attributes, and their mask, that move a QP of this id to a
// state, for a QP that librdmacm does not move.
//
// Implements: int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
func (id ID) QPAttr(state uint32) (QPAttr, uint32, error) {
	enter()
	defer leave()
	var c C.struct_ibv_qp_attr
	var mask C.int
	if err := check("rdma_init_qp_attr", int(C.rb_cm_qp_attr(id.p, C.int(state), &c, &mask))); err != nil {
		return QPAttr{}, 0, err
	}
	return qpAttr(&c), uint32(mask), nil
}

// Notify tells the connection manager of an asynchronous event of a QP that
// librdmacm did not make.
//
// Implements: int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
func (id ID) Notify(event uint32) error {
	enter()
	defer leave()
	return check("rdma_notify", int(C.rb_cm_notify(id.p, C.int(event))))
}

// Establish completes the connection of an id without a QP of its own, after
// CONNECT_RESPONSE.
//
// Implements: int rdma_establish(struct rdma_cm_id *id)
func (id ID) Establish() error {
	enter()
	defer leave()
	return check("rdma_establish", int(C.rb_cm_establish(id.p)))
}

// Migrate moves the id and its waiting events to another channel. It waits for
// events of the id that were fetched and not acknowledged.
//
// Implements: int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
func (id ID) Migrate(ch EventChannel) error {
	enter()
	defer leave()
	return check("rdma_migrate_id", int(C.rb_cm_migrate(id.p, ch.p)))
}

// SetLocalECE sets the options that go with the connection request or its
// answer, of an id without a QP of its own.
//
// Implements: int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
func (id ID) SetLocalECE(vendor, options uint32) error {
	enter()
	defer leave()
	return check("rdma_set_local_ece", int(C.rb_cm_set_local_ece(id.p, C.uint32_t(vendor), C.uint32_t(options))))
}

// RemoteECE gives the options that the peer sent, on an id without a QP of its
// own.
//
// Implements: int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
func (id ID) RemoteECE() (vendor, options uint32, err error) {
	enter()
	defer leave()
	var e C.struct_ibv_ece
	err = check("rdma_get_remote_ece", int(C.rb_cm_get_remote_ece(id.p, &e)))
	return uint32(e.vendor_id), uint32(e.options), err
}

// RejectECE rejects the request behind the id because of its options.
//
// Implements: int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
func (id ID) RejectECE(private []byte) error {
	enter()
	defer leave()
	return check("rdma_reject_ece", int(C.rb_cm_reject_ece(id.p, unsafe.Pointer(unsafe.SliceData(private)), C.int(len(private)))))
}

// JoinMulticast asks for membership in a group; its events carry cookie.
//
// Implements: int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
// and int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
func (id ID) JoinMulticast(group SockAddr, flags uint32, cookie uint64) error {
	enter()
	defer leave()
	return check("rdma_join_multicast", int(C.rb_cm_join(id.p, toSock(group), C.uint32_t(flags), C.uint64_t(cookie))))
}

// LeaveMulticast ends the membership. It must not run beside Next of the
// channel's reader, which may be attaching the id's QP to the same group.
//
// Implements: int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
func (id ID) LeaveMulticast(group SockAddr) error {
	enter()
	defer leave()
	return check("rdma_leave_multicast", int(C.rb_cm_leave(id.p, toSock(group))))
}

// GetAddrInfo looks names up as librdmacm does, which may ask name servers and
// the InfiniBand communication manager's helper: it can block for long.
//
// Implements: int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
// and void rdma_freeaddrinfo(struct rdma_addrinfo *res)
func GetAddrInfo(node, service string, hints AddrInfo) ([]AddrInfo, error) {
	enter()
	defer leave()
	const op = "rdma_getaddrinfo"
	n, s, err := cStrings(op, node, service)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(s))
	h := toHints(hints)
	var list *C.struct_rdma_addrinfo
	if err := check(op, int(C.rb_cm_getaddrinfo(n, s, &h, &list))); err != nil {
		return nil, err
	}
	return addrInfos(list), nil
}

// cStrings refuses a text with a zero byte: C would take the part before it.
func cStrings(op, node, service string) (n, s *C.char, err error) {
	if strings.IndexByte(node, 0) >= 0 || strings.IndexByte(service, 0) >= 0 {
		return nil, nil, &Error{Op: op, Errno: syscall.EINVAL}
	}
	return cString(node), cString(service), nil
}

// cString is NULL for the empty string, which C takes for none given.
func cString(s string) *C.char {
	if s == "" {
		return nil
	}
	return C.CString(s)
}

func toHints(hints AddrInfo) C.struct_rb_ai {
	return C.struct_rb_ai{
		flags: C.int32_t(hints.Flags), family: C.int32_t(hints.Family), qp_type: C.int32_t(hints.QPType),
		port_space: C.int32_t(hints.PortSpace), src: toSock(ToSockAddr(hints.Src)), dst: toSock(ToSockAddr(hints.Dst)),
	}
}

// addrInfos copies the list and frees it.
func addrInfos(list *C.struct_rdma_addrinfo) (out []AddrInfo) {
	defer C.rdma_freeaddrinfo(list)
	for p := list; p != nil; {
		var ai C.struct_rb_ai
		p = C.rb_cm_addrinfo(p, &ai)
		out = append(out, AddrInfo{
			Flags: int(ai.flags), Family: int(ai.family), QPType: int(ai.qp_type), PortSpace: int(ai.port_space),
			Src: fromSock(&ai.src).AddrPort(), Dst: fromSock(&ai.dst).AddrPort(),
			SrcName: goString(ai.src_name), DstName: goString(ai.dst_name),
			Route:   C.GoBytes(ai.route, C.int(ai.route_len)),
			Connect: C.GoBytes(ai.connect, C.int(ai.connect_len)),
		})
	}
	return out
}

// addrInfoSince is the rdma-core that brought the three below.
const addrInfoSince = 60

// ResolveAddrInfo is GetAddrInfo whose outcome an event tells. Names are looked up
// within the call; a service (AIService) is not.
//
// Implements: int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints)
func (id ID) ResolveAddrInfo(node, service string, hints AddrInfo) error {
	enter()
	defer leave()
	const op = "rdma_resolve_addrinfo"
	n, s, err := cStrings(op, node, service)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(s))
	h := toHints(hints)
	return checkNewer(op, addrInfoSince, int(C.rb_cm_resolve_addrinfo(id.p, n, s, &h)))
}

// QueryAddrInfo takes what ResolveAddrInfo has found, once.
//
// Implements: int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
func (id ID) QueryAddrInfo() ([]AddrInfo, error) {
	var list *C.struct_rdma_addrinfo
	if err := checkNewer("rdma_query_addrinfo", addrInfoSince, int(C.rb_cm_query_addrinfo(id.p, &list))); err != nil {
		return nil, err
	}
	return addrInfos(list), nil
}

// WriteEvent makes an EventUser of the id on its channel.
//
// Implements: int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
func (id ID) WriteEvent(status int32, arg uint64) error {
	return checkNewer("rdma_write_cm_event", addrInfoSince, int(C.rb_cm_write_event(id.p, C.int(status), C.uint64_t(arg))))
}

func goString(s *C.char) string {
	if s == nil {
		return ""
	}
	return C.GoString(s)
}
