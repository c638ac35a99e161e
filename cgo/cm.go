//go:build linux && cgo

package cgo

// #include <stdlib.h>
// #include "rb_cm.h"
import "C"

import (
	"syscall"
	"unsafe"
)

// EventChannel is a librdmacm event channel; its descriptor is non-blocking.
type EventChannel struct{ p *C.struct_rdma_event_channel }

// ID is a cm_id.
type ID struct{ p *C.struct_rdma_cm_id }

// DeviceList pins the contexts that librdmacm has open.
type DeviceList struct{ p **C.struct_ibv_context }

// IsNil reports whether the handle names no object.
func (ch EventChannel) IsNil() bool { return ch.p == nil }

// IsNil reports whether the handle names no object.
func (id ID) IsNil() bool { return id.p == nil }

// IsNil reports whether the handle names no object.
func (l DeviceList) IsNil() bool { return l.p == nil }

// CreateEventChannel opens an event channel with a non-blocking descriptor.
//
// Implements: struct rdma_event_channel *rdma_create_event_channel(void)
func CreateEventChannel() (EventChannel, error) {
	enter()
	defer leave()
	var ch EventChannel
	const op = "rdma_create_event_channel"
	err := listing(op, func() error { return check(op, int(C.rb_cm_create_channel(&ch.p))) })
	return ch, err
}

// DestroyEventChannel closes ch; all its ids must be destroyed before.
//
// Implements: void rdma_destroy_event_channel(struct rdma_event_channel *channel)
func DestroyEventChannel(ch EventChannel) {
	enter()
	defer leave()
	C.rdma_destroy_event_channel(ch.p)
}

// DupFD duplicates the channel's descriptor, which becomes readable when an
// event waits. The duplicate is non-blocking too, and the caller's to close.
func (ch EventChannel) DupFD() (uintptr, error) {
	fd := int(C.rb_cm_dup_fd(ch.p))
	return uintptr(fd), check("fcntl", fd)
}

// EventReader fetches the events of one channel; it owns the C memory they are
// copied to. It is not safe for concurrent use.
type EventReader struct {
	ch  EventChannel
	buf *C.struct_rb_cm_event
}

// NewEventReader makes a reader for ch.
func NewEventReader(ch EventChannel) *EventReader {
	return &EventReader{ch: ch, buf: (*C.struct_rb_cm_event)(C.calloc(1, C.sizeof_struct_rb_cm_event))}
}

// Free releases the reader's memory; Next must not be called after it.
func (r *EventReader) Free() {
	C.free(unsafe.Pointer(r.buf))
	r.buf = nil
}

// Next fetches, copies and acknowledges one event. ok is false when none
// waits. It never blocks.
//
// Implements: int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
// and int rdma_ack_cm_event(struct rdma_cm_event *event)
func (r *EventReader) Next() (ev Event, ok bool, err error) {
	ret := int(C.rb_cm_get_event(r.ch.p, r.buf))
	if ret == -int(syscall.EAGAIN) {
		return Event{}, false, nil
	}
	if err := check("rdma_get_cm_event", ret); err != nil {
		return Event{}, false, err
	}
	b := r.buf
	ev = Event{
		Type:   uint32(b._type),
		Status: int32(b.status),
		Cookie: uint64(b.cookie),
		NewID:  ID{b.new_id},
		Conn:   fromConn(&b.conn),
		UD:     UDParam{ahAttr(&b.ud.ah), uint32(b.ud.qp_num), uint32(b.ud.qkey)},
		Group:  uint64(b.group),
		Arg:    uint64(b.arg),
		Info:   fromInfo(&b.info),
	}
	if n := int(b.private_len); n > 0 {
		ev.PrivateData = C.GoBytes(unsafe.Pointer(&b.private_data[0]), C.int(n))
	}
	return ev, true, nil
}

// CreateID makes an id in the network namespace of the calling OS thread. Its
// events carry cookie.
//
// Implements: int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
func CreateID(ch EventChannel, cookie uint64, portSpace int) (ID, error) {
	enter()
	defer leave()
	var id ID
	err := check("rdma_create_id", int(C.rb_cm_create_id(ch.p, C.uint64_t(cookie), C.int(portSpace), &id.p)))
	return id, err
}

// SetCookie changes the cookie of later events. Only the goroutine that reads
// the channel's events may call it.
func (id ID) SetCookie(cookie uint64) { C.rb_cm_set_cookie(id.p, C.uint64_t(cookie)) }

// Destroy frees the id and cancels what it was doing. It waits until every
// fetched event of the id is acknowledged.
//
// Implements: int rdma_destroy_id(struct rdma_cm_id *id)
func (id ID) Destroy() error {
	enter()
	defer leave()
	return check("rdma_destroy_id", int(C.rb_cm_destroy_id(id.p)))
}

// Info copies the id's fields. It must not run while an event of this id can
// be fetched by another goroutine.
func (id ID) Info() IDInfo {
	var info C.struct_rb_cm_info
	C.rb_cm_query(id.p, &info)
	return fromInfo(&info)
}

// Bind binds the id to a local address, and to the device that has it.
//
// Implements: int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
func (id ID) Bind(addr SockAddr) error {
	enter()
	defer leave()
	return check("rdma_bind_addr", int(C.rb_cm_bind(id.p, toSock(addr))))
}

// ResolveAddr starts resolving dst; a src of the zero value is none. The
// kernel gives up after timeoutMS milliseconds.
//
// Implements: int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms)
func (id ID) ResolveAddr(src, dst SockAddr, timeoutMS int) error {
	enter()
	defer leave()
	return check("rdma_resolve_addr", int(C.rb_cm_resolve_addr(id.p, toSock(src), toSock(dst), C.int(timeoutMS))))
}

// ResolveRoute starts resolving the path; EINVAL when the id has no device.
//
// Implements: int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
func (id ID) ResolveRoute(timeoutMS int) error {
	enter()
	defer leave()
	return check("rdma_resolve_route", int(C.rb_cm_resolve_route(id.p, C.int(timeoutMS))))
}

// Listen starts listening.
//
// Implements: int rdma_listen(struct rdma_cm_id *id, int backlog)
func (id ID) Listen(backlog int) error {
	enter()
	defer leave()
	return check("rdma_listen", int(C.rb_cm_listen(id.p, C.int(backlog))))
}

// Connect sends the connection request with at most 255 bytes of private data.
//
// Implements: int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
func (id ID) Connect(p ConnParam, private []byte) error {
	enter()
	defer leave()
	return check("rdma_connect", int(C.rb_cm_connect(id.p, toConn(p), unsafe.Pointer(unsafe.SliceData(private)), C.int(len(private)))))
}

// Accept accepts the request behind the id.
//
// Implements: int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
func (id ID) Accept(p ConnParam, private []byte) error {
	enter()
	defer leave()
	return check("rdma_accept", int(C.rb_cm_accept(id.p, toConn(p), unsafe.Pointer(unsafe.SliceData(private)), C.int(len(private)))))
}

// Reject rejects the request behind the id.
//
// Implements: int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
func (id ID) Reject(private []byte) error {
	enter()
	defer leave()
	return check("rdma_reject", int(C.rb_cm_reject(id.p, unsafe.Pointer(unsafe.SliceData(private)), C.int(len(private)))))
}

// Disconnect moves the id's QP to the error state and tells the peer.
//
// Implements: int rdma_disconnect(struct rdma_cm_id *id)
func (id ID) Disconnect() error {
	enter()
	defer leave()
	return check("rdma_disconnect", int(C.rb_cm_disconnect(id.p)))
}

// CreateQP makes a QP on the id's device, which librdmacm then moves through
// its states.
//
// Implements: int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
// and int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
func (id ID) CreateQP(pd PD, attr *QPInitAttr) (QP, error) {
	enter()
	defer leave()
	if attr.extended() {
		return id.createQPEx(pd, attr)
	}
	var qp QP
	c := toQPInitAttr(attr)
	if err := check("rdma_create_qp", int(C.rb_cm_create_qp(id.p, pd.p, &c, &qp.p))); err != nil {
		return QP{}, err
	}
	fromQPCap(&c.cap, &attr.Cap)
	return qp, nil
}

// MayHaveQP asks the kernel for what a QP of this id is set to first: EINVAL
// where the id's connection is over before it began.
//
// Implements: int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
func (id ID) MayHaveQP() error {
	enter()
	defer leave()
	return check("rdma_init_qp_attr", int(C.rb_cm_may_have_qp(id.p)))
}

// DestroyQP destroys the id's QP. It must not run beside Next of the channel's
// reader, which may be moving the same QP.
//
// Implements: void rdma_destroy_qp(struct rdma_cm_id *id)
func (id ID) DestroyQP() {
	enter()
	defer leave()
	C.rb_cm_destroy_qp(id.p)
}

// SetOption sets an option of the id.
//
// Implements: int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
func (id ID) SetOption(level, name int, value []byte) error {
	enter()
	defer leave()
	return check("rdma_set_option", int(C.rb_cm_set_option(id.p, C.int(level), C.int(name), unsafe.Pointer(unsafe.SliceData(value)), C.int(len(value)))))
}

// CMDevices opens every device that librdmacm can use and pins their contexts
// until Free.
//
// Implements: struct ibv_context **rdma_get_devices(int *num_devices)
func CMDevices() (DeviceList, []Context, error) {
	enter()
	defer leave()
	var l DeviceList
	var n int
	const op = "rdma_get_devices"
	err := listing(op, func() error {
		n = int(C.rb_cm_get_devices(&l.p))
		return check(op, n)
	})
	if err != nil {
		return DeviceList{}, nil, err
	}
	out := make([]Context, n)
	for i, p := range unsafe.Slice(l.p, n) {
		out[i] = Context{p}
	}
	return l, out, nil
}

// Free unpins the contexts.
//
// Implements: void rdma_free_devices(struct ibv_context **list)
func (l DeviceList) Free() {
	enter()
	defer leave()
	C.rdma_free_devices(l.p)
}

// Index returns the kernel's index of the context's device, -1 when unknown.
//
// Implements: int ibv_get_device_index(struct ibv_device *device)
func (c Context) Index() int { return int(C.ibv_get_device_index(c.p.device)) }

func toSock(a SockAddr) C.struct_rb_sockaddr {
	return *(*C.struct_rb_sockaddr)(unsafe.Pointer(&a))
}

func fromSock(a *C.struct_rb_sockaddr) SockAddr { return *(*SockAddr)(unsafe.Pointer(a)) }

// SockAddr and struct rb_sockaddr are one layout.
const (
	_ = uint(unsafe.Sizeof(SockAddr{}) - C.sizeof_struct_rb_sockaddr)
	_ = uint(C.sizeof_struct_rb_sockaddr - unsafe.Sizeof(SockAddr{}))
)

func toConn(p ConnParam) C.struct_rb_cm_conn {
	return C.struct_rb_cm_conn{
		responder_resources: C.uint8_t(p.ResponderResources),
		initiator_depth:     C.uint8_t(p.InitiatorDepth),
		flow_control:        bit(p.FlowControl),
		retry_count:         C.uint8_t(p.RetryCount),
		rnr_retry_count:     C.uint8_t(p.RNRRetryCount),
		srq:                 bit(p.SRQ),
		qp_num:              C.uint32_t(p.QPNum),
	}
}

func fromConn(c *C.struct_rb_cm_conn) ConnParam {
	return ConnParam{
		ResponderResources: uint8(c.responder_resources),
		InitiatorDepth:     uint8(c.initiator_depth),
		FlowControl:        c.flow_control != 0,
		RetryCount:         uint8(c.retry_count),
		RNRRetryCount:      uint8(c.rnr_retry_count),
		SRQ:                c.srq != 0,
		QPNum:              uint32(c.qp_num),
	}
}

func bit(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}

func fromInfo(c *C.struct_rb_cm_info) IDInfo {
	return IDInfo{
		Verbs:        Context{c.verbs},
		Device:       C.GoString(&c.device[0]),
		DeviceIndex:  int(c.device_index),
		Transport:    int(c.transport),
		Port:         uint8(c.port_num),
		Local:        fromSock(&c.local).AddrPort(),
		Peer:         fromSock(&c.peer).AddrPort(),
		SGID:         *(*[16]byte)(unsafe.Pointer(&c.sgid)),
		DGID:         *(*[16]byte)(unsafe.Pointer(&c.dgid)),
		PKey:         uint16(c.pkey),
		NumPaths:     int(c.num_paths),
		PathMTU:      uint8(c.path_mtu),
		PathHopLimit: uint8(c.path_hop_limit),
		PathSGID:     *(*[16]byte)(unsafe.Pointer(&c.path_sgid)),
		PathDGID:     *(*[16]byte)(unsafe.Pointer(&c.path_dgid)),
	}
}
