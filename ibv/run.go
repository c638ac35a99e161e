package ibv

import (
	"context"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// RunConfig says how SendBatch.Run works its list off.
type RunConfig struct {
	// Interval is how many requests are posted at once, the last of them
	// signalled. Default a quarter of Window.
	Interval int
	// Window is how many requests are in flight at most. Default and maximum:
	// what both the send queue and its CQ have room for, so that neither can overrun.
	Window int
	// Spin is how long C looks for completions before the goroutine sleeps, or
	// yields where the CQ has no channel. Default 20 microseconds; at most one
	// millisecond; negative for none. See SetMaxSpinners.
	Spin time.Duration
}

// engine is a run's state, in C memory: who reads the progress makes no
// crossing.
type engine struct {
	mem *cgo.Memory
	r   *cgo.Run
	hdr *cgo.Batch
}

// Run works the whole batch off, thousands of requests, in C: it posts what the
// window allows and polls the send CQ until the last request is done. It
// returns how many requests, from the first on, are known to have succeeded;
// all, unless there is an error:
//   - the context's. Nothing further is posted, and Run returns once what is
//     in flight came to its end. The retries of the queue pair bound that, if
//     they are bounded: Soft-RoCE takes a RetryCount of 7 for ever,
//     and QP.ToError or QP.Close ends it then.
//   - a *WCError, whose ID is the index of the request that failed. Those before it
//     succeeded; of those after it none did, as far as this side can know, and
//     none is in flight.
//   - that of a post that was refused; see PostRange. Requests that the device
//     took before it refused one of the same interval may be in flight still.
//   - ErrInvalid where the send CQ serves another queue too, ErrBusy where
//     signalled sends are still to be polled, ErrClosed.
//
// Run sets IDs (to the index) and signalling itself; other flags stay. While it
// runs nobody else may use the batch, post sends on the queue pair or poll its
// send CQ. Progress may be called at any time. Run does not allocate but for the
// first call.
func (b *SendBatch) Run(ctx context.Context, cfg RunConfig) (done int, err error) {
	if err := b.startRun(&cfg); err != nil {
		return 0, err
	}
	c, r := b.qp.sendCQ, b.run.Load().r
	if c.bell != nil {
		c.bell.join()
		defer c.bell.leave()
	}
	defer b.alive()
	for {
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
			r.Stop = 1
		}
		switch n := spinning(r, cfg.Spin, c.bell != nil); {
		case n == cgo.RunDone:
			return b.endRun(err)
		case n < 0:
			return int(r.Done), c.pollError(n)
		case n == cgo.RunTurn || c.bell == nil:
			runtime.Gosched()
		default:
			wait := ctx
			if err != nil {
				wait = context.Background()
			}
			// The context's error is taken up above; what else ends the wait is final.
			if e := c.bell.wait(wait, b.q.node.done); e != nil && ctx.Err() == nil {
				return int(r.Done), &Error{Op: "run", Object: b.q.node.name, Kind: e}
			}
		}
	}
}

// spinning is one step; it spins if not too many do.
func spinning(r *cgo.Run, spin time.Duration, arm bool) int {
	if spin > 0 {
		if maySpin() {
			defer spun()
		} else {
			spin = 0
		}
	}
	return r.Step(uint64(max(spin, 0)), arm)
}

// startRun checks and prepares.
func (b *SendBatch) startRun(cfg *RunConfig) error {
	const op = "run"
	if b == nil || b.hdr == nil {
		return b.base().span(op, 0, 0)
	}
	c := b.qp.sendCQ
	if c.ring != nil {
		return invalid(op, b.qp.node.name, ErrInvalid, "the send CQ's completions go to a ring")
	}
	most := min(b.qp.caps.MaxSend, c.Size())
	if cfg.Window == 0 {
		cfg.Window = most
	}
	if cfg.Interval == 0 {
		cfg.Interval = max(1, cfg.Window/4)
	}
	if cfg.Spin == 0 {
		cfg.Spin = 20 * time.Microsecond
	}
	if cfg.Window < 1 || cfg.Window > most || cfg.Interval < 1 || cfg.Interval > cfg.Window || cfg.Spin > maxSpin {
		return invalid(op, b.q.node.name, ErrInvalid, "a window of %d (at most %d), an interval of %d (at most the window), spin %v (at most 1ms)",
			cfg.Window, most, cfg.Interval, cfg.Spin)
	}
	if !b.whole {
		if err := b.aim(op, 0, b.n); err != nil {
			return err
		}
		b.whole, b.reads = true, b.hdr.Reads
	}
	// The last range's end may have been cut off; and posts count the signals anew.
	b.link(max(b.to, 1) - 1)
	b.from = -1
	s := b.run.Load()
	if s == nil {
		const line = 128
		mem, err := cgo.Alloc(line + int(unsafe.Sizeof(cgo.Batch{})))
		if err != nil {
			return fail(op, b.q.node.name, err)
		}
		s = &engine{mem, (*cgo.Run)(mem.Pointer()), (*cgo.Batch)(unsafe.Add(mem.Pointer(), line))}
		b.run.Store(s)
	}
	*s.hdr = *b.hdr
	s.hdr.Signaled, s.hdr.Tail, s.hdr.Reads = 1, 0, b.reads
	atomic.StoreUint32(&s.r.Posted, 0)
	atomic.StoreUint32(&s.r.Done, 0)
	r := s.r
	r.Batch, r.WRs = uintptr(unsafe.Pointer(s.hdr)), uintptr(unsafe.Pointer(&b.wrs[0]))
	r.N, r.Window, r.Chunk = uint32(b.n), uint32(cfg.Window), uint32(cfg.Interval)
	r.Refused, r.Failed, r.Stop, r.End, r.Status, r.VendorErr, r.Drained = 0, 0, 0, 0, 0, 0, 0
	switch syscall.Errno(-r.Start()) {
	case 0:
		return nil
	case syscall.EBUSY:
		return invalid(op, b.q.node.name, ErrBusy, "poll the completions of what was posted before")
	case syscall.EINVAL:
		return invalid(op, b.q.node.name, ErrInvalid, "the engine needs a send CQ that serves no other queue: give the queue pair a RecvCQ, and others SendCQs, of their own (QPConfig)")
	}
	return &Error{Op: op, Object: b.q.node.name, Kind: ErrClosed}
}

// endRun says what became of the list.
func (b *SendBatch) endRun(stopped error) (int, error) {
	r := b.run.Load().r
	done := int(r.Done)
	switch p := r.Outcome(); {
	case r.Status != 0:
		return done, &WCError{Status: WCStatus(r.Status), VendorErr: r.VendorErr, QPNum: b.qp.num, ID: r.Failed, Queue: SendQueue}
	case p.Why != cgo.Accepted:
		return done, b.q.refused("run", p, int(min(r.Chunk, r.N-r.End)))
	case done == b.n:
		return done, nil
	}
	return done, stopped
}

// Progress is how far the present Run came, or the last one: how many requests
// were posted, and how many are known to have succeeded. Safe at any time, for
// any goroutine, and no crossing.
func (b *SendBatch) Progress() (posted, done int) {
	if b == nil {
		return 0, 0
	}
	s := b.run.Load()
	if s == nil {
		return 0, 0
	}
	done = int(atomic.LoadUint32(&s.r.Done))
	posted = int(atomic.LoadUint32(&s.r.Posted))
	runtime.KeepAlive(s.mem)
	return posted, done
}
