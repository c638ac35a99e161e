package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railbind/railbind/cm"
)

const (
	patience = 5 * time.Second        // with one step of a rail
	pause    = 200 * time.Millisecond // before a rail is tried again
)

// rail is one way to the peer.
type rail struct {
	local    netip.Addr
	peer     netip.AddrPort
	log      io.Writer
	sent     int
	failures int
}

// work are the messages: those that come next, and those that failed, which go
// first. So each rail has one at most, and there is always room to give it back.
type work struct{ next, back chan int }

func (w *work) take(ctx context.Context, c *cm.Conn) (int, error) {
	select {
	case i := <-w.back:
		return i, nil
	default:
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-c.Done():
		return 0, c.Err()
	case i := <-w.back:
		return i, nil
	case i := <-w.next:
		return i, nil
	}
}

// send shares n messages out among the rails, whichever is free takes the next one,
// until all are sent or ctx ends.
func send(ctx context.Context, rails []*rail, n int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := work{next: make(chan int), back: make(chan int, len(rails))}
	go func() {
		for i := range n {
			select {
			case w.next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var left atomic.Int64 // messages
	left.Store(int64(n))
	done := func() {
		if left.Add(-1) == 0 {
			cancel() // and so the rails end
		}
	}
	var group sync.WaitGroup
	for _, r := range rails {
		group.Go(func() {
			for ctx.Err() == nil {
				err := r.serve(ctx, w, done)
				if ctx.Err() != nil {
					return
				}
				r.failures++
				fmt.Fprintf(r.log, "without %v for now: %v\n", r.local, err)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	group.Wait()
}

// serve sends messages over a connection until one fails, which goes back to work.
func (r *rail) serve(ctx context.Context, w work, done func()) error {
	d := cm.Dialer{LocalAddr: netip.AddrPortFrom(r.local, 0)}
	var c *cm.Conn
	err := within(ctx, func(ctx context.Context) (err error) {
		c, err = d.DialAddr(ctx, r.peer)
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(r.log, "with %v on %s\n", r.local, c.Binding().Device)
	answer := make([]byte, 4096)
	for {
		i, err := w.take(ctx, c)
		if err != nil {
			return err
		}
		message := fmt.Appendf(nil, "message %d", i)
		err = within(ctx, func(ctx context.Context) error {
			if err := c.Send(ctx, message); err != nil {
				return err
			}
			n, err := c.Recv(ctx, answer)
			if err == nil && !bytes.Equal(answer[:n], message) {
				err = fmt.Errorf("sent %q, got %q", message, answer[:n])
			}
			return err
		})
		if err != nil {
			w.back <- i // it may have arrived: a service would have to expect it twice
			return err
		}
		r.sent++
		done()
	}
}

func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return f(ctx)
}
