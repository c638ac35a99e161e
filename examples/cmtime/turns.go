package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
)

// turns is the TCP connection over which the ends go by turns with -sync: the
// client says a byte, and the server says the same when it is ready. Without
// -sync there is none, and nobody waits.
type turns struct {
	conn  net.Conn
	limit time.Duration
}

// What the ends say, as cmtime numbers its steps.
const (
	begin        = 0
	connected    = 12
	disconnected = 14
)

// meet connects the client's end.
func (c *client) meet(ctx context.Context) (*turns, error) {
	if !c.sync {
		return nil, nil
	}
	d := net.Dialer{Timeout: c.Timeout}
	if c.src.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(c.src)
	}
	conn, err := d.DialContext(ctx, "tcp", c.Target())
	return newTurns(ctx, conn, c.Timeout, err)
}

// awaitClient is the server's end.
func awaitClient(ctx context.Context, o *options) (*turns, error) {
	if !o.sync {
		return nil, nil
	}
	at, err := o.Local()
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(at.Addr().String(), strconv.Itoa(int(o.Port))))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	conn, err := l.Accept()
	return newTurns(ctx, conn, o.Timeout, err)
}

func newTurns(ctx context.Context, conn net.Conn, limit time.Duration, err error) (*turns, error) {
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return &turns{conn, limit}, nil
}

// ask says that this end has come so far, and waits for the other.
func (t *turns) ask(ctx context.Context, what byte) error {
	if t == nil {
		return nil
	}
	err := t.say(what)
	if err == nil {
		err = t.hear(what)
	}
	return t.fail(ctx, err)
}

// answer waits for the other end to come so far, and then says so.
func (t *turns) answer(ctx context.Context, what byte, ready func() error) error {
	if t == nil {
		return ready()
	}
	if err := t.hear(what); err != nil {
		return t.fail(ctx, err)
	}
	if err := ready(); err != nil {
		return err
	}
	return t.fail(ctx, t.say(what))
}

func (t *turns) say(what byte) error {
	_, err := t.conn.Write([]byte{what})
	return err
}

func (t *turns) hear(what byte) error {
	if err := t.conn.SetReadDeadline(time.Now().Add(t.limit)); err != nil {
		return err
	}
	var b [1]byte
	if _, err := io.ReadFull(t.conn, b[:]); err != nil {
		return err
	}
	if b[0] != what {
		return fmt.Errorf("%w: it says %d instead of %d over TCP (-sync)", peer.ErrProtocol, b[0], what)
	}
	return nil
}

func (t *turns) fail(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("no answer within %v (-timeout): %w", t.limit, err)
	}
	return fmt.Errorf("going by turns with %v: %w", t.conn.RemoteAddr(), err)
}

func (t *turns) close() {
	if t != nil {
		t.conn.Close()
	}
}
