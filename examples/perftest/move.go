package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// source keeps as many messages under way as may be.
func (e *end) source(ctx context.Context) error {
	for k := range e.n {
		if err := e.await(ctx, k-e.most+1, 0); err != nil {
			return err
		}
		if err := e.post(k); err != nil {
			return err
		}
	}
	return e.await(ctx, e.n, 0)
}

// rally sends a message each time one has come. The client begins with a SEND, the
// server with a WRITE.
func (e *end) rally(ctx context.Context) error {
	for k := range e.n {
		turns := []func() error{func() error { return e.serve(ctx, k) }, func() error { return e.answer(ctx, k) }}
		if e.sends() == (e.Host == "") {
			turns[0], turns[1] = turns[1], turns[0]
		}
		if err := inTurn(turns...); err != nil {
			return err
		}
	}
	return e.await(ctx, e.n, 0)
}

// serve sends message k. The last byte of a WRITE counts.
func (e *end) serve(ctx context.Context, k int) error {
	if err := e.await(ctx, k, 0); err != nil {
		return err
	}
	if e.op == ibv.OpWrite {
		e.mr.Bytes()[e.size-1] = byte(k + 1)
	}
	return e.post(k)
}

// answer waits for message k of the peer.
func (e *end) answer(ctx context.Context, k int) error {
	if e.sends() {
		return e.await(ctx, 0, k+1)
	}
	b := e.mr.Bytes()[e.span():][:e.size]
	for late := time.Now().Add(e.Timeout); last(b) != byte(k+1); runtime.Gosched() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("no message %d within %v (-timeout): %w", k, e.Timeout, context.DeadlineExceeded)
		}
	}
	e.came++
	return e.there.take(e, 0, b[:e.size-1])
}

// last is the last byte as the device has left it: a call, so that it is read
// from memory each time.
//
//go:noinline
func last(b []byte) byte { return b[len(b)-1] }

// post posts message k.
func (e *end) post(k int) error {
	at := e.at(k)
	w := ibv.SendWR{Op: e.op, SGEs: []ibv.SGE{e.mr.SGE(at, e.size)}}
	if !e.sends() {
		w.Remote = ibv.Remote{Addr: e.theirs.addr + uint64(at), RKey: e.theirs.rkey}
	}
	if e.fetches() {
		w.SGEs[0] = e.mr.SGE(e.slot(k), e.size)
	}
	if e.atomic() {
		w.Add = 1
	}
	return e.qp.PostSend(w)
}

// receive posts the receive of message k.
func (e *end) receive(k int) error {
	return e.qp.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{e.mr.SGE(e.slot(k), e.size)}})
}

// await takes completions until so many messages are sent, and so many have come.
func (e *end) await(ctx context.Context, sent, came int) error {
	for e.sent < sent || e.came < came {
		err := peer.WithLimit(ctx, e.Timeout, func(ctx context.Context) error {
			n, err := e.cq.Wait(ctx, e.wcs)
			for i := 0; i < n && err == nil; i++ {
				err = e.take(&e.wcs[i])
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%d of %d messages sent, %d have come: %w", e.sent, e.n, e.came, err)
		}
	}
	return nil
}

// take is what a completion means. Each queue completes in order.
func (e *end) take(wc *ibv.WC) error {
	if err := wc.Err(); err != nil {
		return err
	}
	if wc.Queue() == ibv.SendQueue {
		k := e.sent
		e.sent++
		if !e.fetches() {
			return nil
		}
		b := e.mr.Bytes()[e.slot(k):][:e.size]
		if e.atomic() {
			return e.there.takeWord(e, k, b)
		}
		return e.there.take(e, e.span()+e.at(k), b)
	}
	k := e.came
	e.came++
	if wc.Len() != e.size {
		return fmt.Errorf("%w: message %d has %d bytes, not %d (-s must be the same at both ends)", peer.ErrProtocol, k, wc.Len(), e.size)
	}
	if err := e.there.take(e, e.at(k), e.mr.Bytes()[e.slot(k):][:e.size]); err != nil {
		return err
	}
	if k+e.receives() >= e.n {
		return nil
	}
	clear(e.mr.Bytes()[e.slot(k):][:e.size])
	return e.receive(k)
}
