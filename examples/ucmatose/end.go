package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// end is one end of the connections.
type end struct {
	*options
	r        *peer.Traffic
	stderr   io.Writer
	conns    []*cm.Conn
	messages []*peer.Messages // what came over each
}

func (e *end) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, e.close()) }()
	connect, move := e.accept, e.serve
	if e.Server != "" {
		connect, move = e.dial, e.ask
	}
	if err := connect(ctx); err != nil {
		return err
	}
	e.r.Place(e.conns[0])
	e.r.Connections = len(e.conns)
	began := time.Now()
	err = peer.Each(len(e.conns), func(i int) error { return move(ctx, i) })
	for _, m := range e.messages {
		e.r.Add(m)
	}
	e.r.Seconds = time.Since(began).Seconds()
	if err == nil && e.migrate {
		err = e.migrateAll()
	}
	if err == nil && e.Server != "" {
		err = e.awaitEnd(ctx)
	}
	return err
}

// add takes a connection. The server knows what the client sends back.
func (e *end) add(c *cm.Conn) {
	e.conns = append(e.conns, c)
	e.messages = append(e.messages, &peer.Messages{Size: e.Size, Strict: e.Server == ""})
}

func (e *end) accept(ctx context.Context) error {
	l, err := e.Listen()
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(e.stderr, "%s: %s\n", e.Name, peer.Listening(l))
	return e.AcceptAll(ctx, func(ctx context.Context) error {
		req, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		c, err := req.Accept(ctx, cm.AcceptConfig{Queues: e.queues()})
		if err != nil {
			return err
		}
		e.add(c)
		fmt.Fprintf(e.stderr, "%s: connection from %s\n", e.Name, c.RemoteAddr())
		return nil
	})
}

func (e *end) dial(ctx context.Context) error {
	d := e.Dialer()
	d.Queues = e.queues()
	d.Options.AckTimeout = uint8(e.ack)
	conns := make([]*cm.Conn, e.Connections)
	err := peer.Each(len(conns), func(i int) (err error) {
		limit, cancel := context.WithTimeout(ctx, e.Timeout)
		defer cancel()
		conns[i], err = d.Dial(limit, e.Target())
		return err
	})
	for _, c := range conns {
		if c != nil {
			e.add(c)
		}
	}
	return err
}

// serve sends the messages and takes back the same.
func (e *end) serve(ctx context.Context, i int) error {
	if err := e.send(ctx, i, peer.Pattern(e.Size)); err != nil {
		return err
	}
	_, err := e.receive(ctx, i)
	return err
}

// ask takes the messages and sends back the last of them as often.
func (e *end) ask(ctx context.Context, i int) error {
	last, err := e.receive(ctx, i)
	if err != nil {
		return err
	}
	return e.send(ctx, i, last)
}

func (e *end) send(ctx context.Context, i int, b []byte) error {
	err := peer.WithLimit(ctx, e.Timeout, func(ctx context.Context) error {
		return peer.Each(e.Count, func(int) error { return e.conns[i].Send(ctx, b) })
	})
	if err == nil {
		e.messages[i].Sent = e.Count
	}
	return err
}

func (e *end) receive(ctx context.Context, i int) ([]byte, error) {
	b := make([]byte, e.queues().MaxMessage)
	for range e.Count {
		err := peer.WithLimit(ctx, e.Timeout, func(ctx context.Context) error {
			n, err := e.conns[i].Recv(ctx, b)
			if err == nil {
				err = e.messages[i].Take(b[:n])
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", e.messages[i].Count+1, e.Count, err)
		}
	}
	return b[:e.Size], nil
}

// migrateAll moves the connections to an event channel of their own.
func (e *end) migrateAll() error {
	ch, err := cm.NewEventChannel()
	if err != nil {
		return err
	}
	for _, c := range e.conns {
		if err := c.ID().Migrate(ch); err != nil {
			return err
		}
	}
	return nil
}

// awaitEnd waits for the server to end the connections, after it has everything.
func (e *end) awaitEnd(ctx context.Context) error {
	return peer.WithLimit(ctx, e.Timeout, func(ctx context.Context) error {
		for _, c := range e.conns {
			select {
			case <-c.Done():
			case <-ctx.Done():
				return fmt.Errorf("the server does not end the connections: %w", ctx.Err())
			}
		}
		return nil
	})
}

func (e *end) close() error {
	return peer.Each(len(e.conns), func(i int) error { return e.conns[i].Close() })
}
