package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/railbind/railbind/cm"
)

// atOnce is how many clients connect at the same time: fewer than wait in a
// listener's backlog.
const atOnce = 32

// dial connects so many clients, and when all are there lets them talk at once.
func dial(ctx context.Context, local netip.Addr, server string, clients, messages int) error {
	d := cm.Dialer{LocalAddr: netip.AddrPortFrom(local, 0), Queues: cm.QueueConfig{SendDepth: 1, RecvDepth: 1, MaxMessage: size}}
	conns, errs := make([]*cm.Conn, clients), make([]error, clients)
	each := func(f func(i int) error) error {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { errs[i] = f(i) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	defer func() { _ = each(func(i int) error { return conns[i].Close() }) }()
	turn := make(chan struct{}, atOnce)
	err := each(func(i int) (err error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		conns[i], err = d.Dial(ctx, server)
		return err
	})
	if err != nil {
		return err
	}
	return each(func(i int) error { return talk(ctx, conns[i], i, messages) })
}

// talk sends messages of this client's own, and compares what comes back.
func talk(ctx context.Context, c *cm.Conn, client, messages int) error {
	buf := make([]byte, size)
	for i := range messages {
		m := fmt.Appendf(nil, "message %d of client %d", i, client)
		if err := c.Send(ctx, m); err != nil {
			return err
		}
		n, err := c.Recv(ctx, buf)
		if err != nil {
			return err
		}
		if !bytes.Equal(m, buf[:n]) {
			return fmt.Errorf("%q was answered with %q", m, buf[:n])
		}
	}
	return nil
}
