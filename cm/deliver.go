package cm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// deliver takes an event of this id on the pump's goroutine; it never blocks.
func (id *ID) deliver(ev *cgo.Event) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closing {
		return
	}
	id.notice(ev)
	switch ev.Type {
	case cgo.EventDisconnected:
		id.noAnswerAwaited()
		if !id.handOver(ev) {
			id.hangUp()
		}
	case cgo.EventDeviceRemoval:
		id.handOver(ev)
		id.lost(StateRemoved, ibv.ErrDeviceRemoved)
		if id.qp != nil {
			// A soft device works on until it is let go of: this moves the QP to
			// error, so that every request ends.
			id.disconnectLater()
		}
	case cgo.EventUser: // a notice, and no step's
	case cgo.EventAddrChange, cgo.EventTimewaitExit:
		// The binding is looked at again before and after each step.
	case cgo.EventMulticastJoin, cgo.EventMulticastError:
		id.groups.deliver(ev)
	case cgo.EventUnreachable, cgo.EventConnectError, cgo.EventRejected:
		id.noAnswerAwaited()
		if id.handOver(ev) {
			return
		}
		switch id.state {
		case StateRequested, StateConnecting, StateResponded, StateConnected:
			id.lost(StateDisconnected, ErrDisconnected)
		}
	default:
		id.handOver(ev)
	}
}

// handOver gives the event to the waiting step, if there is one.
func (id *ID) handOver(ev *cgo.Event) bool {
	if id.pending == nil {
		return false
	}
	id.pending <- *ev // has room for one, and takes one
	id.pending = nil
	return true
}

// noAnswerAwaited notes that the peer will not, or need not, acknowledge the
// end any more; id.mu is held.
func (id *ID) noAnswerAwaited() {
	select {
	case <-id.answered:
	default:
		close(id.answered)
	}
}

// hangUp ends the connection from below: the peer has ended it, or the QP has
// failed. id.mu is held, and the pump may be the caller: what can block in the
// kernel, telling the peer, is left to the background.
func (id *ID) hangUp() {
	if id.closing || id.state == StateDisconnected {
		return
	}
	id.lost(StateDisconnected, ErrDisconnected)
	id.disconnectLater()
}

// disconnectLater leaves the call, which can block, to the background. id.mu is held.
func (id *ID) disconnectLater() {
	id.acks.Add(1)
	go func() {
		defer id.acks.Done()
		_ = id.call(cgo.ID.Disconnect)
	}()
}

// qpFailed is told by whoever polls the QP's completions that it is in error.
// Before the connection is established that is only noted.
func (id *ID) qpFailed() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.fault = true
	if id.state == StateConnected {
		id.hangUp()
	}
}

// lost ends the connection; id.mu is held.
func (id *ID) lost(s State, err error) {
	id.state, id.cause = s, err
	if id.qp != nil {
		id.qp.Track(ibv.QPErr, 0, 0)
	}
	if id.requests != nil {
		id.requests.fail(err)
	}
	id.finish(err)
}

// channelBroke is the end of all events.
func (id *ID) channelBroke(err error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closing {
		return
	}
	id.lost(StatePoisoned, err)
}

// await starts a kernel step and waits for its event. The deadline is the
// earlier of the context's and now plus limit; start is given what is left of
// it. Whatever fails here poisons the id, which the caller sees to.
func (id *ID) await(ctx context.Context, phase string, limit time.Duration, start func(h cgo.ID, left time.Duration) error) (cgo.Event, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if ctx.Err() != nil {
		return cgo.Event{}, &unasked{id.timedOut(ctx, phase, began)}
	}
	events, err := id.expect()
	if err != nil {
		return cgo.Event{}, err
	}
	defer id.expectNone()

	deadline, _ := ctx.Deadline()
	err = id.callWithin(ctx, func(h cgo.ID) error { return start(h, time.Until(deadline)) })
	if err != nil {
		return cgo.Event{}, err
	}
	return id.wait(ctx, events, phase, began)
}

// callWithin is call, on iWARP at most until ctx ends or the id does. Its kernel code
// connects a TCP socket within rdma_connect, for two minutes where the peer's host is
// silent: that goes on in the background then, and Close waits for it. It is no error
// of the call: the event that was awaited may have come, and wait looks for it first.
func (id *ID) callWithin(ctx context.Context, f func(h cgo.ID) error) error {
	if id.transport() != policy.IWARP {
		return id.call(f)
	}
	called := make(chan error, 1)
	go func() { called <- id.call(f) }()
	select {
	case err := <-called:
		return err
	case <-id.over:
	case <-ctx.Done():
	}
	return nil
}

// expect makes the place where the next event of a step goes.
func (id *ID) expect() (chan cgo.Event, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closing {
		return nil, ErrClosed
	}
	if id.overErr != nil {
		return nil, id.overErr
	}
	id.pending = make(chan cgo.Event, 1)
	return id.pending, nil
}

func (id *ID) expectNone() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.pending = nil
}

// wait takes the event that comes to pending, also where the id ends or ctx does
// at the same moment.
func (id *ID) wait(ctx context.Context, pending chan cgo.Event, phase string, began time.Time) (cgo.Event, error) {
	select {
	case ev := <-pending:
		return ev, nil
	default:
	}
	select {
	case ev := <-pending:
		return ev, nil
	case <-id.over:
		select {
		case ev := <-pending:
			return ev, nil
		default:
			return cgo.Event{}, id.Err()
		}
	case <-ctx.Done():
		select {
		case ev := <-pending:
			return ev, nil
		default:
			return cgo.Event{}, id.timedOut(ctx, phase, began)
		}
	}
}

// errNotAsked matches a step whose time was up before the kernel was asked: the
// id is as it was.
var errNotAsked = errors.New("not asked")

type unasked struct{ *TimeoutError }

func (u *unasked) Is(target error) bool { return target == errNotAsked }

func (u *unasked) Unwrap() error { return u.TimeoutError }

func (id *ID) timedOut(ctx context.Context, phase string, began time.Time) *TimeoutError {
	return &TimeoutError{Phase: phase, After: time.Since(began), cause: ctx.Err()}
}

// eventError turns a failed step's event into an error; nil for the event that
// the step wanted.
func eventError(ev *cgo.Event, want ...uint32) error {
	for _, w := range want {
		if ev.Type == w && ev.Status == 0 {
			return nil
		}
	}
	switch ev.Type {
	case cgo.EventRejected:
		return &RejectError{Status: int(ev.Status), PrivateData: ev.PrivateData}
	case cgo.EventDisconnected:
		return ErrDisconnected
	case cgo.EventDeviceRemoval:
		return ibv.ErrDeviceRemoved
	case cgo.EventUnreachable:
		if ev.Status > 0 { // the answer to a request for a service
			return &RejectError{Status: int(ev.Status), Datagram: true, PrivateData: ev.PrivateData}
		}
		return fmt.Errorf("%w: %w", ErrUnreachable, statusError(ev))
	}
	return statusError(ev)
}
