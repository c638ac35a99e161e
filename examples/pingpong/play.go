package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// result is what became of the game.
type result struct {
	peer.Outcome
	Size    int     `json:"size"` // bytes of a message
	Rounds  int     `json:"rounds"`
	Bytes   int64   `json:"bytes_verified"` // of what was received
	Seconds float64 `json:"seconds"`
}

// Text is the result on one line.
func (r *result) Text() string {
	return fmt.Sprintf("%s: %d rounds of %d bytes in %.2f s, %.2f us and %.2f Mbit/s, %d bytes verified, %s -> %s on %s/%d (%s)",
		r.Role, r.Rounds, r.Size, r.Seconds, r.Seconds*1e6/float64(max(1, r.Rounds)), float64(r.Rounds)*float64(r.Size)*16/1e6/max(r.Seconds, 1e-9),
		r.Bytes, r.Local, r.Remote, r.Device, r.Port, r.Netdev)
}

// game is the rounds of one end. A queue pair's ball is here when the peer's
// message has come, and goes back with the own one.
type game struct {
	*table
	peer.Messages
	index   map[uint32]int // of the queue pairs, by number
	here    []bool
	sending []bool
	posted  int
}

func play(ctx context.Context, o *options, r *result, stderr io.Writer) (err error) {
	t := &table{options: o}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.join(ctx, r, stderr); err != nil {
		return err
	}
	g := newGame(t)
	began := time.Now()
	err = g.play(ctx)
	r.Rounds = min(g.Count, o.rounds) // C's srq program can send a few more
	r.Bytes, r.Seconds = g.Verified, time.Since(began).Seconds()
	return err
}

// join finds the peer, and connects to it.
func (t *table) join(ctx context.Context, r *result, stderr io.Writer) error {
	if err := peer.AnyDevice(); err != nil {
		return err
	}
	c, err := t.Meet(ctx, stderr)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := newLine(c, t.options)
	if err != nil {
		return peer.OrEnded(ctx, err)
	}
	if err := t.open(l.local()); err != nil {
		return err
	}
	r.At(t.Place, t.IBPort)
	if err := t.lay(); err != nil {
		return err
	}
	err = l.exchange(t.dests(), func(theirs []dest) error {
		r.Remote = theirs[0].gid.Addr().String()
		return t.connect(theirs)
	})
	if err != nil {
		return peer.OrEnded(ctx, err)
	}
	r.Connected = true
	fmt.Fprintf(stderr, "%s: playing: %s -> %s on %s/%d (%s)\n", name, r.Local, r.Remote, r.Device, r.Port, r.Netdev)
	return nil
}

func newGame(t *table) *game {
	g := &game{
		table: t, Messages: peer.Messages{Size: t.size}, index: map[uint32]int{},
		here: make([]bool, len(t.qps)), sending: make([]bool, len(t.qps)),
	}
	for q, qp := range t.qps {
		g.index[qp.Num()] = q
	}
	return g
}

func (g *game) play(ctx context.Context) error {
	if g.Host != "" {
		g.Strict = true // it comes back as it went
		g.fill(peer.Pattern(g.size))
		for q := range g.qps {
			g.here[q] = true
			if err := g.back(q); err != nil {
				return err
			}
		}
	}
	wcs := make([]ibv.WC, 2*len(g.qps))
	for g.Count < g.rounds || g.Sent < g.rounds {
		err := peer.WithLimit(ctx, g.Timeout, func(ctx context.Context) error {
			n, err := g.cq.Wait(ctx, wcs)
			for i := 0; i < n && err == nil; i++ {
				err = g.take(&wcs[i])
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("after %d of %d rounds: %w", g.Count, g.rounds, err)
		}
	}
	return nil
}

// take is what a completion means.
func (g *game) take(wc *ibv.WC) error {
	if err := wc.Err(); err != nil {
		return err
	}
	q := g.index[wc.QPNum()]
	if wc.Queue() == ibv.SendQueue {
		g.Sent++
		g.sending[q] = false
		return g.back(q)
	}
	slot := int(wc.ID())
	b := g.mr.Bytes()[g.at(slot)+g.head : g.at(slot)+wc.Len()]
	if err := g.Take(b); err != nil {
		return err
	}
	if g.Count == 1 && g.Host == "" {
		g.fill(b)
	}
	g.here[q] = true
	return errors.Join(g.receive(slot), g.back(q))
}

// back sends a ball that is here, once the message before has gone.
func (g *game) back(q int) error {
	if !g.here[q] || g.sending[q] || g.posted == g.rounds {
		return nil
	}
	g.here[q], g.sending[q] = false, true
	g.posted++
	return g.send(q)
}
