package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// server accepts connections and waits for their ends.
type server struct {
	*options
	r      *result
	l      *cm.Listener
	shared peer.Shared

	accepted, over sync.WaitGroup

	mu    sync.Mutex
	began time.Time       // of the first accept
	took  []time.Duration // of each
	errs  []error
}

func serve(ctx context.Context, o *options, r *result, stderr io.Writer) (err error) {
	s := &server{options: o, r: r}
	if s.l, err = o.Listen(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.l.Close(), s.shared.Close()) }()
	fmt.Fprintf(stderr, "%s: %s\n", o.Name, peer.Listening(s.l))
	turns, err := awaitClient(ctx, o)
	if err != nil {
		return err
	}
	defer turns.close()
	// The connections end before what they share is closed.
	defer s.over.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, n := range o.series() {
		if err := s.connections(ctx, n, turns); err != nil {
			return err
		}
	}
	return nil
}

// connections accepts n of them, or all until ctx ends, and waits for their ends.
func (s *server) connections(ctx context.Context, n int, turns *turns) error {
	s.took, s.errs = nil, nil
	wait := func(g *sync.WaitGroup) func() error {
		return func() error { g.Wait(); return nil }
	}
	err := turns.answer(ctx, begin, func() error { return nil })
	for i := 0; err == nil && (n == 0 || i < n); i++ {
		if i == 0 || n == 0 { // it may be long in coming
			err = s.next(ctx, ctx)
		} else {
			err = peer.WithLimit(ctx, s.Timeout, func(limit context.Context) error { return s.next(ctx, limit) })
		}
	}
	if err == nil {
		err = turns.answer(ctx, connected, wait(&s.accepted))
	}
	if err == nil {
		err = turns.answer(ctx, disconnected, wait(&s.over))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) > 0 {
		s.r.Connections = len(s.took)
		s.r.Steps = []step{newStep("accept", time.Since(s.began), s.took)}
	}
	return errors.Join(append(s.errs, err)...)
}

// next takes the next request, and goes on with it in the background.
func (s *server) next(ctx, limit context.Context) error {
	req, err := s.l.Accept(limit)
	if err != nil {
		return err
	}
	s.accepted.Add(1)
	s.over.Go(func() { s.take(ctx, req) })
	return nil
}

// take accepts a connection and waits for its end.
func (s *server) take(ctx context.Context, req *cm.Request) {
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	c, err := req.Accept(limit, cm.AcceptConfig{Resources: s.shared.Resources})
	s.note(c, began, err)
	s.accepted.Done()
	if c == nil {
		return
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
	}
	if err := c.Close(); err != nil {
		s.note(nil, began, err)
	}
}

func (s *server) note(c *cm.Conn, began time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, cm.ErrDisconnected): // the client was done with it before this end heard
	case err != nil:
		s.errs = append(s.errs, err)
		return
	}
	if len(s.took) == 0 {
		s.began = began
	}
	s.took = append(s.took, time.Since(began))
	if c != nil && !s.r.Connected {
		s.r.Place(c)
	}
}
