package cm

import (
	"context"
	"fmt"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// StartAccept is the first half of Accept: it sends the answer and does not wait
// for the peer's. The queue pair is ready then, and may receive before
// FinishAccept returns.
func (id *ID) StartAccept(p ConnParam) error {
	const op = "accept"
	return id.accept(op, p, func(param cgo.ConnParam) error { return id.startAnswer(op, answer(param, p.PrivateData)) })
}

// startAnswer is establish up to the answer's departure.
func (id *ID) startAnswer(op string, start func(cgo.ID, *ibv.QP) error) error {
	if err := id.advance(op, StateRequested, StateConnecting); err != nil {
		return err
	}
	a, err := id.try(op)
	if err != nil {
		return err
	}
	if a.events, err = id.expect(); err == nil {
		err = id.call(func(h cgo.ID) error {
			if err := id.sameQP(a.qp); err != nil {
				return err
			}
			return start(h, a.qp)
		})
	}
	if err != nil {
		id.expectNone()
		return id.established(a, cgo.Event{}, err)
	}
	id.mu.Lock()
	id.answering = &a
	id.mu.Unlock()
	return nil
}

// FinishAccept is the second half: it waits until the connection is established
// and checks it. Where ctx ends before, the id is poisoned, as by Accept.
func (id *ID) FinishAccept(ctx context.Context) error {
	const op = "accept"
	if err := id.begin(op, StateConnecting, StateConnected); err != nil {
		return err
	}
	defer id.step.Unlock()
	id.mu.Lock()
	a := id.answering
	id.answering = nil
	id.mu.Unlock()
	if a == nil {
		if id.cfg.PortSpace.datagrams() {
			return nil
		}
		return id.fail(op, fmt.Errorf("%w: call StartAccept before", ErrState))
	}
	defer id.expectNone()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, id.cfg.Timeouts.Connect)
	defer cancel()
	ev, err := id.wait(ctx, a.events, op, began)
	if err == nil {
		err = eventError(&ev, cgo.EventEstablished)
	}
	return id.established(*a, ev, err)
}
