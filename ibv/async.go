package ibv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"weak"

	"github.com/railbind/railbind/cgo"
)

// AsyncEventType is what an AsyncEvent tells of.
type AsyncEventType uint32

// The async events of libibverbs.
const (
	EventCQErr AsyncEventType = iota // a CQ overran, or its device failed it: it is of no use any more (ErrCQFailed)
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst     // a packet came before the connection manager's last word
	EventSQDrained   // the send queue of a QP in SQD has come to rest
	EventPathMig     // the QP went over to its alternate path
	EventPathMigErr  // it should have, and could not
	EventDeviceFatal // the device is lost: close everything on it
	EventPortActive  // the port's link came up
	EventPortErr     // it went down
	EventLIDChange   // the subnet manager gave the port another LID
	EventPKeyChange  // the port's table of partitions changed
	EventSMChange    // another subnet manager took over
	EventSRQErr
	EventSRQLimitReached  // the shared receive queue has less left than its limit
	EventQPLastWQEReached // a QP on a shared receive queue in error has taken its last receive
	EventClientReregister // the subnet manager lost what was registered there
	EventGIDChange        // the port's GID table changed
	EventWQFatal
)

var asyncNames = map[AsyncEventType]string{
	EventCQErr: "CQ_ERR", EventQPFatal: "QP_FATAL", EventQPReqErr: "QP_REQ_ERR", EventQPAccessErr: "QP_ACCESS_ERR",
	EventCommEst: "COMM_EST", EventSQDrained: "SQ_DRAINED", EventPathMig: "PATH_MIG", EventPathMigErr: "PATH_MIG_ERR",
	EventDeviceFatal: "DEVICE_FATAL", EventPortActive: "PORT_ACTIVE", EventPortErr: "PORT_ERR", EventLIDChange: "LID_CHANGE",
	EventPKeyChange: "PKEY_CHANGE", EventSMChange: "SM_CHANGE", EventSRQErr: "SRQ_ERR", EventSRQLimitReached: "SRQ_LIMIT_REACHED",
	EventQPLastWQEReached: "QP_LAST_WQE_REACHED", EventClientReregister: "CLIENT_REREGISTER", EventGIDChange: "GID_CHANGE",
	EventWQFatal: "WQ_FATAL",
}

func (t AsyncEventType) String() string { return name("AsyncEventType", asyncNames, t) }

// AsyncEvent is something that happened to a device, a port or a queue without
// being asked for.
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8 // of a port's event, from 1
	QP   *QP   // of a queue pair's event; nil where it is closed by now
	CQ   *CQ   // of a completion queue's event; nil where it is closed by now
	SRQ  *SRQ  // of a shared receive queue's event; nil where it is closed by now
}

func (e AsyncEvent) String() string {
	switch {
	case e.Port != 0:
		return fmt.Sprintf("%v on port %d", e.Type, e.Port)
	case e.QP != nil:
		return fmt.Sprintf("%v on %s", e.Type, e.QP.node.name)
	case e.CQ != nil:
		return fmt.Sprintf("%v on %s", e.Type, e.CQ.node.name)
	case e.SRQ != nil:
		return fmt.Sprintf("%v on %s", e.Type, e.SRQ.node.name)
	}
	return e.Type.String()
}

// asyncEvents reads a context's async events, when somebody asks for them; until
// then they wait in the kernel.
type asyncEvents struct {
	turn chan struct{} // of the one who reads

	mu   sync.Mutex // held from fetching an event to finding its object
	file *os.File   // a duplicate of the context's descriptor, on Go's poller
	// What is open; weak, so that what the program drops can be told from what
	// it uses.
	qps  map[cgo.QP]weak.Pointer[QP]
	cqs  map[cgo.CQ]weak.Pointer[CQ]
	srqs map[cgo.SRQ]weak.Pointer[SRQ]
}

func newAsyncEvents() *asyncEvents {
	return &asyncEvents{
		turn: make(chan struct{}, 1),
		qps:  make(map[cgo.QP]weak.Pointer[QP]),
		cqs:  make(map[cgo.CQ]weak.Pointer[CQ]),
		srqs: make(map[cgo.SRQ]weak.Pointer[SRQ]),
	}
}

// NextAsyncEvent waits for the next async event of the device, the port or a
// queue. Each event goes to one caller; what came while nobody asked waits. The
// event is acknowledged already, so that its object can be closed at any time.
// It costs no OS thread. The error is the context's, or matches ErrClosed or
// ErrDeviceRemoved.
//
// A context of package cm is shared by the whole process, and so are its events.
//
// Implements: int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
// and void ibv_ack_async_event(struct ibv_async_event *event)
func (c *Context) NextAsyncEvent(ctx context.Context) (AsyncEvent, error) {
	const op = "wait for an async event"
	if c.life().gone() {
		return AsyncEvent{}, &Error{Op: op, Object: c.Name(), Kind: ErrClosed}
	}
	select {
	case c.async.turn <- struct{}{}:
	case <-ctx.Done():
		return AsyncEvent{}, ctx.Err()
	case <-c.node.done:
		return AsyncEvent{}, &Error{Op: op, Object: c.name, Kind: ErrClosed}
	}
	defer func() { <-c.async.turn }()
	ev, err := c.readAsync(ctx)
	switch {
	case err == nil:
		return ev, nil
	case ctx.Err() != nil:
		return ev, ctx.Err()
	case errors.Is(err, ErrClosed):
		return ev, &Error{Op: op, Object: c.name, Kind: ErrClosed}
	}
	return ev, fail(op, c.name, err)
}

func (c *Context) readAsync(ctx context.Context) (ev AsyncEvent, err error) {
	file, err := c.asyncFile()
	if err != nil {
		return ev, err
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return ev, err
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = file.SetReadDeadline(time.Unix(1, 0))
		close(woken)
	})
	defer func() {
		if !stop() { // it runs, or has run: the next one waits without it
			<-woken
			_ = file.SetReadDeadline(time.Time{})
		}
	}()
	var failed error
	err = conn.Read(func(uintptr) bool {
		var ok bool
		ev, ok, failed = c.fetchAsync()
		return ok || failed != nil
	})
	if failed != nil {
		err = failed
	}
	if err != nil && c.async.closedUnder(file) {
		err = ErrClosed
	}
	return ev, err
}

// fetchAsync takes an event that is queued and finds its object.
func (c *Context) fetchAsync() (ev AsyncEvent, ok bool, err error) {
	if err := c.node.enter("wait for an async event"); err != nil {
		return ev, false, err
	}
	defer c.node.leave()
	a := c.async
	a.mu.Lock()
	defer a.mu.Unlock()
	raw, ok, err := c.h.AsyncEvent()
	if !ok {
		return ev, false, err
	}
	ev.Type, ev.Port = AsyncEventType(raw.Type), uint8(raw.Port)
	ev.QP, ev.CQ = a.qps[raw.QP].Value(), a.cqs[raw.CQ].Value()
	ev.SRQ = a.srqs[raw.SRQ].Value()
	if ev.CQ != nil && ev.Type == EventCQErr {
		ev.CQ.poison()
	}
	if ev.SRQ != nil && ev.Type == EventSRQLimitReached {
		ev.SRQ.unarm.Store(true)
	}
	return ev, true, nil
}

// asyncFile opens the descriptor on first use.
func (c *Context) asyncFile() (*os.File, error) {
	if err := c.node.enter("wait for an async event"); err != nil {
		return nil, err
	}
	defer c.node.leave()
	a := c.async
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		return a.file, nil
	}
	fd, err := c.h.DupAsyncFD()
	if err != nil {
		return nil, err
	}
	a.file = os.NewFile(fd, "async events of "+c.name)
	return a.file, nil
}

// closedUnder says whether Close has taken the file away from its reader.
func (a *asyncEvents) closedUnder(file *os.File) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file != file
}

// close wakes whoever waits.
func (a *asyncEvents) close() {
	a.mu.Lock()
	file := a.file
	a.file = nil
	a.mu.Unlock()
	_ = file.Close() // waits for a read's callback, which takes mu
}

// know makes an object findable by its handle in one of a's tables, until it is
// forgotten, which must be before it is destroyed: the handle may be used again
// then.
func know[H comparable, T any](a *asyncEvents, open map[H]weak.Pointer[T], handle H, object *T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	open[handle] = weak.Make(object)
}

func forget[H comparable, T any](a *asyncEvents, open map[H]weak.Pointer[T], handle H) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(open, handle)
}
