package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// client is the end that measures.
type client struct {
	options
	out   *output
	c     *cm.Conn // for control
	token uint64
	r     *report
}

func runClient(ctx context.Context, o options, out *output) error {
	r := newReport(o)
	err := (&client{options: o, out: out, r: r}).session(ctx)
	return out.finish(r, err)
}

// dialer is how both kinds of connections are made.
func (c *client) dialer(token uint64) *cm.Dialer {
	d := &cm.Dialer{
		LocalDevice: c.device,
		Policy:      c.policy,
		Timeouts:    cm.Timeouts{ResolveAddr: c.timeout, ResolveRoute: c.timeout, Connect: c.timeout},
		Param:       cm.ConnParam{PrivateData: privateData(token)},
	}
	if c.source.IsValid() {
		d.LocalAddr = netip.AddrPortFrom(c.source, 0)
	}
	return d
}

func (c *client) session(ctx context.Context) (err error) {
	err = peer.WithLimit(ctx, c.timeout, func(ctx context.Context) error {
		d := c.dialer(0)
		d.Queues = control
		c.c, err = d.Dial(ctx, net.JoinHostPort(c.host, strconv.Itoa(int(c.port))))
		return err
	})
	if err != nil {
		return err
	}
	defer c.c.Close()
	c.r.place(c.c)
	// Who waits for data that does not come hears here that the server is gone.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.c.Done():
			cancel(c.c.Err())
		case <-ctx.Done():
		}
	}()
	a, err := ask(ctx, c.c, c.timeout, question{Verb: askPlan, Plan: &c.plan})
	if err != nil {
		return err
	}
	c.token = a.Token
	if tests[c.Test].kind == connects {
		return c.connections(ctx)
	}
	return c.messages(ctx)
}

// messages measures all sizes over one set of connections.
func (c *client) messages(ctx context.Context) (err error) {
	l := newLink(&c.plan)
	defer func() {
		if e := l.close(); err == nil {
			err = e
		}
	}()
	for range c.QPs {
		if err := c.connect(ctx, l); err != nil {
			return err
		}
	}
	a, err := ask(ctx, c.c, c.timeout, question{Verb: askRegion, At: l.region()})
	if err != nil {
		return err
	}
	if a.At == nil {
		return fmt.Errorf("%w: no region", errProtocol)
	}
	l.peer = *a.At
	c.out.header(c.r)
	for i, size := range c.Sizes {
		n, err := c.verify(ctx, l, size, i == 0)
		if err != nil {
			return fmt.Errorf("%d bytes, checking the data: %w", size, err)
		}
		r, err := c.measure(ctx, l, size)
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		r.Verified = n
		c.r.Results = append(c.r.Results, r)
		c.out.row(c.r, r)
	}
	return nil
}

// connect adds a connection to those that are measured, on the device of the
// one for control.
func (c *client) connect(ctx context.Context, l *link) error {
	return peer.WithLimit(ctx, c.timeout, func(ctx context.Context) error {
		d := c.dialer(c.token)
		d.Resources = l.resources
		conn, err := d.DialAddr(ctx, c.c.RemoteAddr())
		if err != nil {
			return err
		}
		return l.add(conn)
	})
}

// verify sends messages that are checked, and returns how many. Each run has data
// of its own. Each queue pair of a stream has a run.
func (c *client) verify(ctx context.Context, l *link, size int, all bool) (int, error) {
	if l.kind != stream {
		rounds := max(2, min(16, (4<<20)/size))
		_, n, err := c.run(ctx, l, job{size, mix(uint64(size)) | 1}, func(w *watch, j job) (int, error) {
			return l.active(w, j, newLaps(l.kind, rounds), func(n int) bool { return n == rounds })
		})
		return n, err
	}
	runs, messages := 2, 0
	if all {
		runs = max(runs, c.QPs)
	}
	for i := range runs {
		_, n, err := c.run(ctx, l, job{size, mix(uint64(size)<<16+uint64(i)) | 1}, func(w *watch, _ job) (int, error) {
			return l.Batch, l.once(w, i%c.QPs)
		})
		messages += n
		if err != nil {
			return messages, err
		}
	}
	return messages, nil
}

// measure times one size.
func (c *client) measure(ctx context.Context, l *link, size int) (*result, error) {
	clock := newLaps(l.kind, c.Iters)
	var took, cpu time.Duration
	server, n, err := c.run(ctx, l, job{Size: size}, func(w *watch, j job) (int, error) {
		stop := c.out.progress(l, size)
		defer stop()
		used := cpuTime()
		clock.start()
		n, err := l.active(w, j, clock, c.enough(clock))
		took, cpu = time.Since(clock.began), cpuTime()-used
		return n, err
	})
	if err != nil {
		return nil, err
	}
	r := &result{Size: size, Messages: n, Seconds: took.Seconds(), CPU: perMessage(cpu, n), ServerCPU: perMessage(server, n)}
	if l.kind == stream {
		r.Bandwidth = clock.bandwidth(size, n, took)
	} else {
		clock.drain()
		r.Latency, r.hist = summary(clock.hist), clock.hist
	}
	return r, nil
}

// enough says when a run is over: after -n messages, or the time.
func (c *client) enough(clock *laps) func(n int) bool {
	if c.Duration == 0 {
		return func(n int) bool { return n >= c.Iters }
	}
	return func(int) bool { return time.Since(clock.began) >= c.Duration }
}

// run is one run at both ends: play is this end's part, which returns how many
// messages there were.
func (c *client) run(ctx context.Context, l *link, j job, play func(w *watch, j job) (int, error)) (cpu time.Duration, n int, err error) {
	if err := l.ready(j); err != nil {
		return 0, 0, err
	}
	if _, err := ask(ctx, c.c, c.timeout, question{Verb: askStart, Run: &j}); err != nil {
		return 0, 0, err
	}
	err = c.during(ctx, func() error {
		n, err = play(newWatch(ctx), j)
		return err
	})
	if err != nil {
		return 0, n, err
	}
	a, err := ask(ctx, c.c, c.timeout, question{Verb: askEnd, Count: n})
	if err == nil && j.Seed != 0 {
		err = l.check(j)
	}
	return a.CPU, n, err
}

// during tells the server now and then, while play goes on, that this client is
// there: one that is silent is given up.
func (c *client) during(ctx context.Context, play func() error) error {
	const beat = 2 * time.Second
	over, heard := make(chan struct{}), make(chan error, 1)
	go func() {
		t := time.NewTicker(beat)
		defer t.Stop()
		for {
			select {
			case <-over:
				heard <- nil
				return
			case <-t.C:
				if _, err := ask(ctx, c.c, c.timeout, question{Verb: askWait}); err != nil {
					heard <- err
					return
				}
			}
		}
	}()
	err := play()
	close(over)
	return errors.Join(err, <-heard)
}

func perMessage(d time.Duration, n int) float64 {
	return d.Seconds() * 1e6 / float64(max(n, 1))
}
