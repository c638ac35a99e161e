package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// client makes connections, each step for all of them at once.
type client struct {
	*options
	r        *result
	src, dst netip.AddrPort
	shared   peer.Shared
	ids      []*cm.ID
}

func measure(ctx context.Context, o *options, r *result, stderr io.Writer) (err error) {
	to, err := o.Lookup(ctx, o.Server)
	if err != nil {
		return err
	}
	c := &client{options: o, r: r, dst: netip.AddrPortFrom(to, o.Port)}
	if c.src, err = o.Source(to); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.shared.Close()) }()
	turns, err := c.meet(ctx)
	if err != nil {
		return err
	}
	defer turns.close()
	for _, n := range o.series() {
		fmt.Fprintf(stderr, "%s: %d connections to %v\n", o.Name, n, c.dst)
		if err := c.connections(ctx, n, turns); err != nil {
			return err
		}
	}
	return nil
}

// connections makes n of them, and ends them.
func (c *client) connections(ctx context.Context, n int, turns *turns) (err error) {
	c.ids = make([]*cm.ID, n)
	defer func() { err = errors.Join(err, c.closeAll()) }()
	c.r.Steps = nil
	if err := turns.ask(ctx, begin); err != nil {
		return err
	}
	began := time.Now()
	for _, s := range c.making() {
		if err := c.step(ctx, s.name, s.do); err != nil {
			return err
		}
	}
	c.r.Steps = append(c.r.Steps, newStep("full connect", time.Since(began), nil))
	c.r.Place(c.ids[0])
	c.r.Connections = n
	if err := turns.ask(ctx, connected); err != nil {
		return err
	}
	if err := c.step(ctx, "disconnect", func(_ context.Context, i int) error { return c.ids[i].Disconnect() }); err != nil {
		return err
	}
	if err := turns.ask(ctx, disconnected); err != nil {
		return err
	}
	return c.step(ctx, "destroy", func(_ context.Context, i int) error { return c.ids[i].Close() })
}

type todo struct {
	name string
	do   func(ctx context.Context, i int) error
}

// making are the steps to a connection.
func (c *client) making() []todo {
	config := cm.IDConfig{Policy: c.Policy, Timeouts: c.Steps(), Options: cm.Options{TypeOfService: c.TOS}}
	steps := []todo{{"create id", func(_ context.Context, i int) (err error) {
		c.ids[i], err = cm.NewID(config)
		return err
	}}}
	if c.src.IsValid() {
		steps = append(steps, todo{"bind address", func(_ context.Context, i int) error { return c.ids[i].Bind(c.src) }})
	}
	return append(steps,
		todo{"resolve address", func(ctx context.Context, i int) error { return c.ids[i].ResolveAddr(ctx, netip.AddrPort{}, c.dst) }},
		todo{"resolve route", func(ctx context.Context, i int) error { return c.ids[i].ResolveRoute(ctx) }},
		todo{"create queue pair", func(_ context.Context, i int) error { return c.shared.CreateQP(c.ids[i]) }},
		todo{"connect", func(ctx context.Context, i int) error { return c.ids[i].Connect(ctx, cm.ConnParam{}) }},
	)
}

// step takes one step for all connections.
func (c *client) step(ctx context.Context, name string, do func(ctx context.Context, i int) error) error {
	took := make([]time.Duration, len(c.ids))
	began := time.Now()
	err := peer.WithLimit(ctx, c.Timeout, func(ctx context.Context) error {
		return peer.Each(len(c.ids), func(i int) error {
			began := time.Now()
			err := do(ctx, i)
			took[i] = time.Since(began)
			return err
		})
	})
	c.r.Steps = append(c.r.Steps, newStep(name, time.Since(began), took))
	return err
}

func (c *client) closeAll() error {
	return peer.Each(len(c.ids), func(i int) error { return c.ids[i].Close() })
}
