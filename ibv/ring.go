package ibv

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// RingConfig says how a completion ring is made.
type RingConfig struct {
	// Size is how many completions the ring has room for, rounded up to a power
	// of two. Default 4096, at most 1<<24.
	Size int
	// Spin is how long the thread looks before it sleeps, at most a second.
	// Default 50 microseconds. It takes up to a processor meanwhile.
	Spin time.Duration
}

// CompletionRing is for services with many queue pairs on a few CQs: a thread in
// C polls the CQs that were created with it, a few completions of each in turn, and
// writes them to memory that Poll reads without a crossing. It takes no more off a
// CQ than the ring has room for. Safe for concurrent use; each completion goes to
// one caller.
type CompletionRing struct {
	node *node
	ctx  *Context
	r    *cgo.Ring
	ch   cgo.CompChannel
	bell *bell
	stop func() error

	mu sync.Mutex // one taker at a time
}

func (r *CompletionRing) life() *node {
	if r == nil {
		return nil
	}
	return r.node
}

// NewCompletionRing starts a ring. CQs join it by CQConfig.Ring.
func (c *Context) NewCompletionRing(cfg RingConfig) (*CompletionRing, error) {
	const op = "create completion ring"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	if err := cfg.check(op, c.name); err != nil {
		return nil, err
	}
	ch, err := c.h.CreateCompChannel()
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	r, err := c.startRing(cfg, ch, ch.Destroy)
	if err != nil {
		_ = ch.Destroy()
		return nil, fail(op, c.name, err)
	}
	return r, nil
}

func (cfg *RingConfig) check(op, name string) error {
	if cfg.Size == 0 {
		cfg.Size = 4096
	}
	if cfg.Spin == 0 {
		cfg.Spin = 50 * time.Microsecond
	}
	if cfg.Size < 0 || cfg.Size > 1<<24 || cfg.Spin < 0 || cfg.Spin > time.Second {
		return invalid(op, name, ErrInvalid, "a size of %d (at most %d), spin %v (at most 1s)", cfg.Size, 1<<24, cfg.Spin)
	}
	size := 1
	for size < cfg.Size {
		size *= 2
	}
	cfg.Size = size
	return nil
}

// startRing starts the thread, and the goroutine that hears its bell.
func (c *Context) startRing(cfg RingConfig, ch cgo.CompChannel, destroy func() error) (*CompletionRing, error) {
	cr, err := cgo.NewRing(cfg.Size, uint64(cfg.Spin), ch)
	if err != nil {
		return nil, err
	}
	fd, err := cr.DupBell()
	if err != nil {
		cr.Stop()
		return nil, err
	}
	b, file, deaf := newBell(), os.NewFile(fd, "completion ring"), make(chan struct{})
	go func() {
		defer close(deaf)
		var count [8]byte
		for {
			if _, err := file.Read(count[:]); err != nil {
				return
			}
			b.ring()
		}
	}()
	end := sync.OnceFunc(func() {
		cr.Stop()
		file.Close()
		<-deaf
	})
	r := &CompletionRing{ctx: c, r: cr, ch: ch, bell: b, stop: func() error { end(); return destroy() }}
	r.node = newNode("completion ring on "+c.name, cr, c.node)
	return watch(r, r.node), nil
}

// Poll takes up to len(wcs) completions from the ring, in the order of each CQ, and
// returns how many. It does not block, does not allocate and makes no crossing.
// The error matches ErrClosed, or ErrCQFailed once a CQ could not be polled any more
// and the ring is empty.
func (r *CompletionRing) Poll(wcs []WC) (int, error) {
	const op = "poll"
	if r == nil || r.node == nil {
		return 0, &Error{Op: op, Object: "nil completion ring", Kind: ErrClosed}
	}
	if len(wcs) == 0 {
		return 0, nil
	}
	r.mu.Lock()
	n := r.r.Take((*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs))
	r.mu.Unlock()
	switch {
	case n > 0:
		return n, nil
	case r.node.gone():
		return 0, &Error{Op: op, Object: r.node.name, Kind: ErrClosed}
	case r.r.Failed():
		return 0, &Error{Op: op, Object: r.node.name, Kind: ErrCQFailed}
	}
	return 0, nil
}

// Wait is Poll that waits for the first completion: it returns at least one, or an
// error, which is the context's when that ends first.
func (r *CompletionRing) Wait(ctx context.Context, wcs []WC) (int, error) {
	n, err := r.Poll(wcs)
	if n > 0 || err != nil {
		return n, err
	}
	if len(wcs) == 0 {
		return 0, &Error{Op: "wait", Object: r.node.name, Kind: ErrInvalid, Hint: "no room for a completion"}
	}
	r.bell.join()
	defer r.bell.leave()
	for {
		r.r.Sleep()
		if n, err := r.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		if err := r.bell.wait(ctx, r.node.done); err != nil {
			if errors.Is(err, ErrClosed) {
				err = &Error{Op: "wait", Object: r.node.name, Kind: ErrClosed}
			}
			return 0, err
		}
	}
}

// Stalls is how often the thread found the ring full: completions waited in their
// CQs then, which overrun where that goes on. More room, or a quicker reader,
// helps.
func (r *CompletionRing) Stalls() uint64 {
	if r == nil || r.r == nil {
		return 0
	}
	return r.r.Stalls()
}

// Close ends the thread and frees the ring; a *BusyError names the CQs that are
// left on it. Completions that nobody took are gone.
func (r *CompletionRing) Close() error {
	return r.life().close(func() error {
		if err := r.stop(); err != nil {
			return fail("destroy completion channel", r.ctx.name, err)
		}
		return nil
	})
}

// join has the ring's thread poll a CQ.
func (r *CompletionRing) join(c *CQ) error {
	if r == nil {
		return nil
	}
	return r.r.Add(c.rec)
}

// part waits for the thread to leave the CQ.
func (r *CompletionRing) part(c *CQ) {
	if r != nil {
		r.r.Remove(c.rec)
	}
}
