package ibv

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// CompChannel carries the notifications of any number of CQs. One goroutine
// reads it through Go's poller, so that waiters cost goroutines and no threads.
// Safe for concurrent use.
type CompChannel struct {
	node *node
	h    cgo.CompChannel
	ctx  *Context
	pump *pump
}

func (ch *CompChannel) life() *node {
	if ch == nil {
		return nil
	}
	return ch.node
}

// NewCompChannel creates a completion channel.
//
// Implements: struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (c *Context) NewCompChannel() (*CompChannel, error) {
	const op = "create completion channel"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	h, err := c.h.CreateCompChannel()
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	p, err := startPump(h)
	if err != nil {
		_ = h.Destroy()
		return nil, fail(op, c.name, err)
	}
	n := newNode("completion channel on "+c.name, nil, c.node)
	return watch(&CompChannel{node: n, h: h, ctx: c, pump: p}, n), nil
}

// Close destroys the channel; a *BusyError names the CQs that are left on it.
//
// Implements: int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (ch *CompChannel) Close() error {
	return ch.life().close(func() error {
		ch.pump.stop()
		if err := ch.h.Destroy(); err != nil {
			return fail("destroy completion channel", ch.ctx.name, err)
		}
		return nil
	})
}

// pump hands the events of one channel to the CQs that wait for them.
type pump struct {
	h    cgo.CompChannel
	file *os.File // a duplicate of the channel's descriptor, on Go's poller
	done chan struct{}

	mu   sync.Mutex
	next uint64
	bell map[uint64]*bell
	err  error
}

func startPump(h cgo.CompChannel) (*pump, error) {
	fd, err := h.DupFD()
	if err != nil {
		return nil, err
	}
	p := &pump{
		h:    h,
		file: os.NewFile(fd, "completion channel"),
		done: make(chan struct{}),
		bell: make(map[uint64]*bell),
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		p.file.Close()
		return nil, err
	}
	go p.run(raw)
	return p, nil
}

// run returns when the file is closed, or when the channel fails for good.
func (p *pump) run(raw syscall.RawConn) {
	defer close(p.done)
	var cookies [64]uint64
	var failed error
	err := raw.Read(func(uintptr) bool {
		for {
			n, err := p.h.Events(cookies[:])
			if err != nil {
				failed = err
				return true
			}
			p.mu.Lock()
			for _, c := range cookies[:n] {
				// A cookie is never used again, so an event of a CQ that is
				// gone finds nobody.
				if b := p.bell[c]; b != nil {
					b.ring()
				}
			}
			p.mu.Unlock()
			if n < len(cookies) {
				return false
			}
		}
	})
	if failed == nil {
		failed = err
	}
	p.mu.Lock()
	p.err = failed
	for _, b := range p.bell {
		b.fail(failed)
	}
	p.mu.Unlock()
}

// stop ends the goroutine. Closing the file waits for a callback in flight, and
// only then may the channel be destroyed.
func (p *pump) stop() {
	p.file.Close()
	<-p.done
}

// add gives a CQ's bell the cookie that its events will carry.
func (p *pump) add(b *bell) (cookie uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	p.bell[p.next] = b
	if p.err != nil {
		b.fail(p.err)
	}
	return p.next
}

func (p *pump) remove(cookie uint64) {
	p.mu.Lock()
	delete(p.bell, cookie)
	p.mu.Unlock()
}

// bell wakes those who wait for a CQ. A notification is raised once and wakes
// one waiter; a waiter that leaves passes it on, because the CQ is not armed
// then and the next one has to look for itself.
type bell struct {
	wake    chan struct{}
	failed  chan struct{}
	err     error // set before failed is closed
	once    sync.Once
	waiters atomic.Int32
}

func newBell() *bell {
	return &bell{wake: make(chan struct{}, 1), failed: make(chan struct{})}
}

func (b *bell) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *bell) fail(err error) {
	b.once.Do(func() {
		b.err = &Error{Op: "wait", Object: "completion channel", Kind: ErrCQFailed, Err: err}
		close(b.failed)
	})
}

func (b *bell) join() { b.waiters.Add(1) }

func (b *bell) leave() {
	if b.waiters.Add(-1) > 0 {
		b.ring()
	}
}

// wait sleeps until the bell rings.
func (b *bell) wait(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-b.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return ErrClosed
	case <-b.failed:
		return b.err
	}
}
