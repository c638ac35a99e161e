package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// talk is what the ends say to each other beside the test: over TCP, or over a
// connection of its own of the connection manager.
type talk interface {
	say(b []byte) error
	hear(b []byte) error // all of b
	local() netip.Addr
	Close() error
}

// wire is TCP.
type wire struct {
	net.Conn
	o *options
}

func (w wire) say(b []byte) error {
	_, err := w.Write(b)
	return err
}

func (w wire) hear(b []byte) error {
	if err := w.SetDeadline(time.Now().Add(w.o.Timeout)); err != nil {
		return err
	}
	_, err := io.ReadFull(w, b)
	return w.o.Late(err)
}

func (w wire) local() netip.Addr { return w.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap() }

// messages are a connection.
type messages struct {
	*cm.Conn
	o   *options
	ctx context.Context
}

// queues are those of the connection that is talked over; perftest posts one
// receive, as one message goes to and fro.
var queues = cm.QueueConfig{SendDepth: 2, RecvDepth: 2, MaxMessage: 256}

func (m messages) say(b []byte) error {
	return peer.WithLimit(m.ctx, m.o.Timeout, func(ctx context.Context) error { return m.Send(ctx, b) })
}

func (m messages) hear(b []byte) error {
	return peer.WithLimit(m.ctx, m.o.Timeout, func(ctx context.Context) error {
		n, err := m.Recv(ctx, b)
		if err == nil && n != len(b) {
			err = fmt.Errorf("%w: a message of %d bytes instead of %d", peer.ErrProtocol, n, len(b))
		}
		return err
	})
}

func (m messages) local() netip.Addr { return m.LocalAddr().Addr() }

// swap says something and hears the same of the peer. The client begins.
func (e *end) swap(ours []byte) (theirs []byte, err error) {
	theirs = make([]byte, len(ours))
	steps := []func() error{func() error { return e.talk.say(ours) }, func() error { return e.talk.hear(theirs) }}
	if e.Host == "" {
		steps[0], steps[1] = steps[1], steps[0]
	}
	return theirs, inTurn(steps...)
}

// meet finds the peer.
func (e *end) meet(ctx context.Context) error {
	if err := peer.AnyDevice(); err != nil {
		return err
	}
	if !e.cm {
		c, err := e.Meet(ctx, e.stderr)
		e.talk = wire{c, e.options}
		return err
	}
	var c *cm.Conn
	var err error
	if e.Host != "" {
		d := e.dialer()
		d.Queues = queues
		c, err = d.Dial(ctx, net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
	} else {
		c, err = e.accept(ctx)
	}
	e.talk = messages{c, e.options, ctx}
	return err
}

func (e *end) accept(ctx context.Context) (*cm.Conn, error) {
	at := e.Addr
	if !at.IsValid() {
		at = netip.IPv4Unspecified()
	}
	var err error
	if e.Device != "" {
		if at, err = peer.AddressOf(e.Device, at); err != nil {
			return nil, err
		}
	}
	if e.listener, err = cm.Listen(netip.AddrPortFrom(at, e.Port), cm.ListenConfig{}); err != nil {
		return nil, err
	}
	fmt.Fprintf(e.stderr, "%s: %s\n", name, peer.Listening(e.listener))
	req, err := e.listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return req.Accept(ctx, cm.AcceptConfig{Queues: queues})
}

func (e *end) dialer() cm.Dialer {
	d := cm.Dialer{LocalDevice: e.Device, Policy: e.policy, Timeouts: cm.Timeouts{Connect: e.Timeout}}
	if e.Addr.IsValid() {
		d.LocalAddr = netip.AddrPortFrom(e.Addr, 0)
	}
	return d
}

// second makes the connection that is tested. perftest begins to listen for it
// when it has told its keys, so that the client may be too early.
func (e *end) second(ctx context.Context, first *cm.Conn) error {
	return peer.WithLimit(ctx, e.Timeout, func(ctx context.Context) (err error) {
		if e.Host == "" {
			req, err := e.listener.Accept(ctx)
			if err != nil {
				return err
			}
			e.conn, err = req.Accept(ctx, cm.AcceptConfig{Resources: e.resources})
			return err
		}
		d := e.dialer()
		d.Resources = e.resources
		for {
			if e.conn, err = d.DialAddr(ctx, first.RemoteAddr()); !errors.Is(err, cm.ErrConnRefused) {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// inTurn does one thing after the other.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
