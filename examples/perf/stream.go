package main

import (
	"errors"

	"github.com/railbind/railbind/ibv"
)

// source keeps as many messages under way as the plan allows, until enough says
// that no more shall be sent. It returns how many arrived; done hears of them on
// the way.
//
// Each batch that is under way is a turn of its queue pair; a completion gives
// the turn back. Turns are taken in order, so that all queue pairs get theirs.
func (l *link) source(w *watch, enough func(sent int) bool, done func(arrived int)) (arrived int, err error) {
	turns := newTurns(l.QPs, l.Depth/l.Batch)
	for sent, stop := 0, false; ; {
		stop = stop || enough(sent)
		if stop && arrived == sent {
			return arrived, nil
		}
		var wcs []ibv.WC
		if !stop && turns.n > 0 {
			accepted, n, e := l.sends[turns.take()].PostPoll(l.cq, l.wcs)
			sent += accepted
			wcs, err = l.good(n, e)
		} else {
			wcs, err = l.take(w)
		}
		if err != nil {
			return arrived, err
		}
		if len(wcs) == 0 {
			continue
		}
		for i := range wcs {
			turns.give(wcs[i].ID())
		}
		arrived += len(wcs) * l.Batch
		done(arrived)
	}
}

// turns is a ring of queue pairs that may post.
type turns struct {
	ring    []uint64
	from, n int
}

func newTurns(qps, each int) *turns {
	t := &turns{ring: make([]uint64, 0, qps*each), n: qps * each}
	for range each {
		for q := range qps {
			t.ring = append(t.ring, uint64(q))
		}
	}
	return t
}

func (t *turns) take() uint64 {
	q := t.ring[t.from]
	t.n--
	if t.from++; t.from == len(t.ring) {
		t.from = 0
	}
	return q
}

func (t *turns) give(q uint64) {
	t.ring[(t.from+t.n)%len(t.ring)] = q
	t.n++
}

// once sends one batch on one queue pair and waits until it has arrived.
func (l *link) once(w *watch, q int) error {
	if _, err := l.sends[q].Post(); err != nil {
		return err
	}
	_, err := l.take(w)
	return err
}

// sink takes messages and posts their receives again, until the run is over and
// as many have come as were sent. What was sent and has not come by then is
// waited for under the second watch.
func (l *link) sink(w, late *watch, sent func() int) error {
	owed := make([]int, l.QPs)
	for got := 0; got < sent(); {
		wcs, err := l.take(w)
		if errors.Is(err, errStopped) {
			w = late
			continue
		}
		if err != nil {
			return err
		}
		got += len(wcs)
		for i := range wcs {
			q := wcs[i].ID()
			if owed[q]++; owed[q] < l.chunk() {
				continue
			}
			owed[q] = 0
			if _, err := l.recvs[q].Post(); err != nil {
				return err
			}
		}
	}
	return nil
}
