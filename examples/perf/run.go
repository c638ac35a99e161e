package main

import (
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// ready prepares an end for a run, before the peer's messages can come.
func (l *link) ready(j job) error {
	l.count.Store(0)
	l.rx()[j.Size-1] = 0 // where a ping-pong of WRITEs counts
	if l.op == opAtomic {
		clear(l.word())
	}
	if j.Seed != 0 {
		clear(l.rx())
		fillSlots(l.tx(), l.plan, j.Size, j.Seed)
	}
	return l.aim(j.Size)
}

// active is the client's part of a run: messages until enough says that it is
// over. It returns how many.
func (l *link) active(w *watch, j job, clock *laps, enough func(n int) bool) (int, error) {
	switch l.kind {
	case stream:
		return l.source(w, enough, func(arrived int) {
			l.count.Store(int64(arrived))
			clock.batch(arrived)
		})
	case pingPong:
		return l.strokes((&rally{link: l, w: w, job: j, opens: true}).stroke, clock, enough)
	default:
		return l.strokes((&solo{link: l, w: w, job: j}).stroke, clock, enough)
	}
}

func (l *link) strokes(stroke func(i int) error, clock *laps, enough func(n int) bool) (int, error) {
	n := 0
	for ; !enough(n); n++ {
		if err := stroke(n); err != nil {
			return n, err
		}
		clock.lap()
		if n&0xff == 0 {
			l.count.Store(int64(n))
		}
	}
	return n, nil
}

// check is what the client can say of a run that had a seed.
func (l *link) check(j job) error {
	if l.kind == stream && l.op == opRead {
		return verifySlots(l.rx(), l.plan, j.Size, j.Seed)
	}
	return nil
}

// passive is the server's part of a run.
type passive struct {
	*link
	job  job
	sent atomic.Int64 // what the client says at the end
	stop func()
	done chan error
	cpu  time.Duration
}

// start plays the server's part until end; late is for what comes after that.
func (l *link) start(w, late *watch, j job, stop func()) *passive {
	p := &passive{link: l, job: j, stop: stop, done: make(chan error, 1), cpu: cpuTime()}
	p.sent.Store(math.MaxInt64)
	go func() {
		err := p.play(w, late)
		if errors.Is(err, errStopped) {
			err = nil
		}
		p.done <- err
	}()
	return p
}

func (p *passive) play(w, late *watch) error {
	switch {
	case p.kind == pingPong:
		r := &rally{link: p.link, w: w, job: p.job}
		for i := 0; ; i++ {
			if err := r.stroke(i); err != nil {
				return err
			}
		}
	case p.op == opSend:
		return p.sink(w, late, func() int { return int(p.sent.Load()) })
	}
	return nil
}

// end is told how many messages the client has sent, and says what became of
// them.
func (p *passive) end(sent int) (answer, error) {
	p.sent.Store(int64(sent))
	p.stop()
	err := <-p.done
	a := answer{CPU: cpuTime() - p.cpu}
	switch {
	case err != nil:
		return a, err
	case p.op == opAtomic:
		return a, p.checkWord(sent)
	case p.job.Seed != 0 && p.kind == stream && p.op != opRead:
		return a, verifySlots(p.rx(), p.plan, p.job.Size, p.job.Seed)
	}
	return a, nil
}
