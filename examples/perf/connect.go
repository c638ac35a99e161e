package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// step is a part of making or ending a connection.
type step struct {
	Name string `json:"name"`
	latency
}

var stepNames = []string{"create id", "resolve address", "resolve route", "create queue pair", "connect", "disconnect", "close", "all"}

// connections measures how long they take to make and to end.
func (c *client) connections(ctx context.Context) error {
	c.out.header(c.r)
	checked, err := c.checkConnections(ctx)
	if err != nil {
		return fmt.Errorf("checking the data: %w", err)
	}
	if _, err := ask(ctx, c.c, c.timeout, question{Verb: askStart, Run: &job{}}); err != nil {
		return err
	}
	clocks := make([]*laps, len(stepNames))
	for i := range clocks {
		clocks[i] = newLaps(connects, 0)
	}
	s := &peer.Shared{}
	var made atomic.Int64
	l := newLink(&c.plan)
	stop := c.out.progress(l, 0)
	began, cpu := time.Now(), cpuTime()
	err = c.during(ctx, func() error {
		return c.workers(ctx, func(ctx context.Context) error {
			for n := made.Add(1); c.wanted(int(n), began); n = made.Add(1) {
				times, err := c.one(ctx, s)
				if err != nil {
					return err
				}
				l.count.Add(1)
				c.note(clocks, times)
			}
			return nil
		})
	})
	took := time.Since(began)
	cpu = cpuTime() - cpu
	stop()
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	n := int(l.count.Load())
	a, err := ask(ctx, c.c, c.timeout, question{Verb: askEnd, Count: n})
	if err != nil {
		return err
	}
	r := &result{Messages: n, Verified: checked, Seconds: took.Seconds(), Connections: float64(n) / took.Seconds(),
		CPU: perMessage(cpu, n), ServerCPU: perMessage(a.CPU, n)}
	for i, name := range stepNames {
		r.Steps = append(r.Steps, step{name, *summary(clocks[i].hist)})
	}
	r.Latency, r.hist = &r.Steps[len(r.Steps)-1].latency, clocks[len(clocks)-1].hist
	c.r.Results = append(c.r.Results, r)
	c.out.row(c.r, r)
	return nil
}

// wanted says whether there shall be an nth connection.
func (c *client) wanted(n int, began time.Time) bool {
	if c.Duration > 0 {
		return time.Since(began) < c.Duration
	}
	return n <= c.Iters
}

// workers runs -d of them until all are done, or one fails.
func (c *client) workers(ctx context.Context, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range c.Depth {
		all.Go(func() {
			if err := work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// one makes a connection and ends it, step by step.
func (c *client) one(ctx context.Context, s *peer.Shared) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	at := []time.Time{time.Now()}
	var src netip.AddrPort
	if c.source.IsValid() || c.device != "" {
		src = netip.AddrPortFrom(c.c.LocalAddr().Addr(), 0)
	}
	id, err := cm.NewID(cm.IDConfig{Policy: c.policy})
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return id.ResolveAddr(ctx, src, c.c.RemoteAddr()) },
		func() error { return id.ResolveRoute(ctx) },
		func() error { return s.CreateQP(id) },
		func() error { return id.Connect(ctx, cm.ConnParam{PrivateData: privateData(c.token)}) },
		id.Disconnect,
		id.Close,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, id.Close())
		}
		at = append(at, time.Now())
	}
	times := make([]time.Duration, 0, len(stepNames))
	for i, t := range at[1:] {
		times = append(times, t.Sub(at[i]))
	}
	return append(times, at[len(at)-1].Sub(at[0])), nil
}

var noting sync.Mutex

func (c *client) note(clocks []*laps, times []time.Duration) {
	noting.Lock()
	defer noting.Unlock()
	for i, t := range times {
		_ = clocks[i].hist.RecordValue(min(int64(t), clocks[i].hist.HighestTrackableValue()))
	}
}

// checkConnections sends data there and back over connections of their own.
func (c *client) checkConnections(ctx context.Context) (int, error) {
	const rounds, size = 8, 64
	if _, err := ask(ctx, c.c, c.timeout, question{Verb: askStart, Run: &job{Size: size, Seed: 1}}); err != nil {
		return 0, err
	}
	for i := range rounds {
		err := peer.WithLimit(ctx, c.timeout, func(ctx context.Context) error { return c.echo(ctx, size, uint64(i)) })
		if err != nil {
			return i, err
		}
	}
	_, err := ask(ctx, c.c, c.timeout, question{Verb: askEnd, Count: rounds})
	return rounds, err
}

func (c *client) echo(ctx context.Context, size int, seed uint64) error {
	conn, err := c.dialer(c.token).DialAddr(ctx, c.c.RemoteAddr())
	if err != nil {
		return err
	}
	defer conn.Close()
	b := make([]byte, size)
	fill(b, seed)
	if err := conn.Send(ctx, b); err != nil {
		return err
	}
	clear(b)
	n, err := conn.Recv(ctx, b)
	if err != nil {
		return err
	}
	return errors.Join(verify(b[:n], seed, "echo"), sameLength(n, size))
}

func sameLength(got, want int) error {
	if got != want {
		return fmt.Errorf("%w: %d bytes instead of %d", errMismatch, got, want)
	}
	return nil
}

// acceptor takes connections for a run.
type acceptor struct {
	peer.Shared
	s     *server
	stop  context.CancelFunc
	all   sync.WaitGroup
	mu    sync.Mutex
	count int
	errs  []error
	cpu   time.Duration
}

func (s *server) accept(ctx context.Context, j job) *acceptor {
	ctx, stop := context.WithCancel(ctx)
	a := &acceptor{s: s, stop: stop, cpu: cpuTime()}
	a.all.Go(func() {
		for {
			req, err := s.next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					a.note(err)
				}
				return
			}
			a.all.Go(func() { a.note(a.take(ctx, req, j.Seed != 0)) })
		}
	})
	return a
}

func (a *acceptor) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.errs = append(a.errs, err)
	} else {
		a.count++
	}
}

// take accepts a connection and waits for its end.
func (a *acceptor) take(ctx context.Context, req *cm.Request, echo bool) error {
	cfg := cm.AcceptConfig{}
	if !echo {
		cfg.Resources = a.Resources
	}
	// The client may be done with it before this end hears that it is there, and
	// the run is over only then.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.s.timeout)
	defer cancel()
	c, err := req.Accept(limit, cfg)
	if err != nil {
		if errors.Is(err, cm.ErrDisconnected) {
			return nil
		}
		return err
	}
	defer c.Close()
	if echo {
		b := make([]byte, 4096)
		n, err := c.Recv(limit, b)
		if err == nil {
			err = c.Send(limit, b[:n])
		}
		if err != nil {
			return err
		}
	}
	select {
	case <-c.Done():
		return nil
	case <-limit.Done():
		return fmt.Errorf("the client did not end a connection: %w", limit.Err())
	}
}

// end waits until all connections are over, and counts them.
func (a *acceptor) end(count int) (answer, error) {
	a.stop()
	a.all.Wait()
	errs := append(slices.Clone(a.errs), a.Close())
	if a.count != count && errors.Join(errs...) == nil {
		errs = append(errs, fmt.Errorf("%w: %d connections instead of %d", errMismatch, a.count, count))
	}
	return answer{CPU: cpuTime() - a.cpu}, errors.Join(errs...)
}
