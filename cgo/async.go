//go:build linux && cgo

package cgo

// #include "rb_verbs.h"
import "C"

// AsyncEvent names what happened and to which object. QP, CQ and SRQ are to be
// compared only: the object may be gone.
type AsyncEvent struct {
	Type uint32
	Port int // of a port event
	QP   QP
	CQ   CQ
	SRQ  SRQ
}

// DupAsyncFD makes the context's descriptor of async events non-blocking and
// duplicates it. It becomes readable when an event waits. The duplicate is the
// caller's to close.
func (h Context) DupAsyncFD() (uintptr, error) {
	fd := int(C.rb_dup_async_fd(h.p))
	return uintptr(fd), check("fcntl", fd)
}

// AsyncEvent fetches an async event, if one is queued, and acknowledges it.
//
// Implements: int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
// and void ibv_ack_async_event(struct ibv_async_event *event)
func (h Context) AsyncEvent() (ev AsyncEvent, ok bool, err error) {
	enter()
	defer leave()
	var c C.struct_rb_async_event
	n := int(C.rb_async_event(h.p, &c))
	if n <= 0 {
		return ev, false, check("ibv_get_async_event", n)
	}
	return AsyncEvent{Type: uint32(c._type), Port: int(c.port), QP: QP{c.qp}, CQ: CQ{c.cq}, SRQ: SRQ{c.srq}}, true, nil
}
