package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railbind/railbind/ibv"
)

// rally is one end of a ping-pong. Message i of one direction has a seed of its
// own, where the data is checked at all.
type rally struct {
	*link
	w          *watch
	job        job
	opens      bool // this end sends first
	sent, seen int  // completions of sends, of receives
	owed       int  // receives that are to be posted again
}

// slack is how many messages of a ping-pong may be on the send queue: an answer's
// completion can come after the next message.
const slack = 8

// stroke is message i there and back, or back and there.
func (r *rally) stroke(i int) error {
	if r.opens {
		if err := r.serve(i); err != nil {
			return err
		}
		return r.await(i)
	}
	if err := r.await(i); err != nil {
		return err
	}
	return r.serve(i)
}

// serve sends message i.
func (r *rally) serve(i int) error {
	for i-r.sent >= slack/2 {
		if err := r.more(); err != nil {
			return err
		}
	}
	b := r.sends[0]
	msg := r.tx()[:r.job.Size]
	if r.job.Seed != 0 {
		fill(msg, r.seed(i, r.opens))
	}
	if r.op == opWrite {
		msg[len(msg)-1] = byte(i + 1)
	}
	if r.job.Size <= r.Inline && (r.op == opWrite || r.job.Seed != 0) {
		if err := r.request(b, 0, r.job.Size); err != nil {
			return err
		}
	}
	want := i + 1 - r.sent
	if r.op == opSend {
		want++ // the peer's next message
	}
	_, n, err := b.PostWait(r.cq, r.wcs, want, r.spin())
	wcs, err := r.good(n, err)
	if err != nil {
		return err
	}
	r.note(wcs)
	if r.op != opWrite {
		return nil
	}
	// As perftest: a WRITE is done before the answer is looked for.
	for r.sent <= i {
		if err := r.more(); err != nil {
			return err
		}
	}
	return nil
}

// await waits for message i of the peer, and checks it.
func (r *rally) await(i int) error {
	if r.op == opWrite {
		return r.look(i)
	}
	for r.seen <= i || r.opens && r.sent <= i || r.owed >= r.chunk() {
		if err := r.more(); err != nil {
			return err
		}
	}
	return r.check(i)
}

// look spins until the last byte of message i is there.
func (r *rally) look(i int) error {
	msg := r.rx()[:r.job.Size]
	for n := 0; last(msg) != byte(i+1); n++ {
		if n&0xff == 0xff && r.w.over.Load() {
			return context.Cause(r.w.ctx)
		}
	}
	if r.job.Seed == 0 {
		return nil
	}
	// The last byte may be seen before its neighbours are.
	err := r.check(i)
	for n := 0; err != nil && n < 1000 && !r.w.over.Load(); n++ {
		time.Sleep(time.Millisecond)
		err = r.check(i)
	}
	return err
}

// last is the last byte as the device has left it: a call, so that it is read
// from memory each time.
//
//go:noinline
func last(b []byte) byte { return b[len(b)-1] }

func (r *rally) check(i int) error {
	if r.job.Seed == 0 {
		return nil
	}
	n := r.job.Size
	if r.op == opWrite {
		n-- // that byte is the count
	}
	err := verify(r.rx()[:n], r.seed(i, !r.opens), fmt.Sprintf("message %d", i))
	clear(r.rx()[:n])
	return err
}

func (r *rally) seed(i int, opener bool) uint64 {
	s := r.job.Seed + uint64(2*i)
	if opener {
		s++
	}
	return s
}

// more takes completions; a receive that is to be posted again goes along.
func (r *rally) more() error {
	if r.owed >= r.chunk() {
		r.owed -= r.chunk()
		_, n, err := r.recvs[0].PostPoll(r.cq, r.wcs)
		wcs, err := r.good(n, err)
		r.note(wcs)
		return err
	}
	wcs, err := r.take(r.w)
	r.note(wcs)
	return err
}

func (r *rally) note(wcs []ibv.WC) {
	for i := range wcs {
		if wcs[i].Opcode() == ibv.WCRecv {
			r.seen++
			r.owed++
		} else {
			r.sent++
		}
	}
}

// solo does one request after another, each until it is done.
type solo struct {
	*link
	w   *watch
	job job
}

func (s *solo) stroke(i int) error {
	_, n, err := s.sends[0].PostWait(s.cq, s.wcs, 1, s.spin())
	if _, err = s.good(n, err); err != nil {
		return err
	}
	if n == 0 {
		if _, err = s.take(s.w); err != nil {
			return err
		}
	}
	return s.check(i)
}

func (s *solo) check(i int) error {
	switch {
	case s.job.Seed == 0:
		return nil
	case s.op == opAtomic:
		return s.checkAtomic(i)
	}
	got := s.rx()[:s.job.Size]
	err := verify(got, s.job.Seed, fmt.Sprintf("READ %d", i))
	clear(got)
	return err
}

// errStopped ends the passive end's part of a run.
var errStopped = errors.New("the run is over")
