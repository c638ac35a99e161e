package ibv

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// CQ is a completion queue. Safe for concurrent use; several goroutines may
// poll and wait, and each completion goes to one of them.
type CQ struct {
	node      *node
	h         cgo.CQ
	rec       *cgo.CQRecord
	ctx       *Context
	pump      *pump // nil without a channel
	bell      *bell
	ring      *CompletionRing // or nil
	cookie    uint64
	solicited bool
	size      atomic.Int64
	extended  bool
	patience  patience

	destroy   func() error
	errClosed error
	errFailed error
}

// CQConfig says how a CQ is made.
type CQConfig struct {
	// Size is how many completions it has room for at least; more than it
	// holds at once is fatal for its queue pairs. Default 256; the device may
	// grant more, see CQ.Size.
	Size int
	// Channel carries the CQ's notifications; without one the CQ can be polled
	// and not waited for.
	Channel *CompChannel
	// Ring takes the CQ's completions, instead of a Channel. What is polled from the
	// CQ itself does not come to the ring; SendBatch.Run does not work on such a CQ.
	Ring *CompletionRing
	// Vector is the interrupt vector, below the device's number of them. Default 0.
	Vector int
	// SolicitedOnly lets Wait sleep until a message that the sender marked
	// Solicited arrived, or an error.
	SolicitedOnly bool
	// Extended makes it one that can be polled by PollEx as well; Fields are what
	// its completions say there beyond WC, and IgnoreOverrun tells the device that
	// the program makes sure there is room. A device that cannot: errors.ErrUnsupported.
	Extended      bool
	Fields        WCFields
	IgnoreOverrun bool
	// Spin is how long Wait looks in C before it sleeps, at most a millisecond:
	// what comes meanwhile is had without the way through the kernel and Go's
	// scheduler. It adapts: Wait looks for as long as lately was worth it, and for
	// a 64th of Spin where completions take longer. Default 0, none. See SetMaxSpinners.
	Spin time.Duration
}

func (c *CQ) life() *node {
	if c == nil {
		return nil
	}
	return c.node
}

// CreateCQ creates a completion queue.
//
// Implements: struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
// and struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *cq_attr)
func (c *Context) CreateCQ(cfg CQConfig) (*CQ, error) {
	const op = "create CQ"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	if cfg.Size == 0 {
		cfg.Size = 256
	}
	if cfg.Size < 0 || cfg.Size > 1<<30 {
		return nil, invalid(op, c.name, ErrInvalid, "size %d", cfg.Size)
	}
	if cfg.Vector < 0 {
		return nil, invalid(op, c.name, ErrInvalid, "Vector is %d", cfg.Vector)
	}
	if cfg.Spin < 0 || cfg.Spin > maxSpin {
		return nil, invalid(op, c.name, ErrInvalid, "spin %v, at most %v", cfg.Spin, maxSpin)
	}
	if err := c.ballast.keep(c); err != nil {
		return nil, err
	}
	if !cfg.Extended && (cfg.Fields != 0 || cfg.IgnoreOverrun) {
		return nil, invalid(op, c.name, ErrInvalid, "Fields and IgnoreOverrun go with Extended")
	}
	cq := &CQ{ctx: c, extended: cfg.Extended, solicited: cfg.SolicitedOnly, patience: patience{limit: cfg.Spin}}
	parents := []*node{c.node}
	var ch cgo.CompChannel
	if cfg.Ring != nil {
		if cfg.Channel != nil {
			return nil, invalid(op, c.name, ErrInvalid, "a channel and a ring: a CQ has one of both")
		}
		if err := cfg.Ring.life().enter(op); err != nil {
			return nil, err
		}
		defer cfg.Ring.node.leave()
		if err := sameContext(op, c.name, c, cfg.Ring.ctx); err != nil {
			return nil, err
		}
		cq.ring, ch = cfg.Ring, cfg.Ring.ch
		parents = append(parents, cfg.Ring.node)
	}
	if cfg.Channel != nil {
		if err := cfg.Channel.life().enter(op); err != nil {
			return nil, err
		}
		defer cfg.Channel.node.leave()
		if err := sameContext(op, c.name, c, cfg.Channel.ctx); err != nil {
			return nil, err
		}
		ch = cfg.Channel.h
		parents = append(parents, cfg.Channel.node)
		cq.pump, cq.bell = cfg.Channel.pump, newBell()
		cq.cookie = cq.pump.add(cq.bell)
	}
	var h cgo.CQ
	var err error
	if cfg.Extended {
		h, err = c.createEx(&cfg, cq.cookie, ch)
	} else {
		h, err = c.h.CreateCQ(cfg.Size, cq.cookie, ch, cfg.Vector)
	}
	if err != nil {
		cq.silence()
		return nil, c.cqError(op, c.name, err, limitOf{"Vector", cfg.Vector, c.h.Vectors() - 1}, limitOf{"Size", cfg.Size, 0})
	}
	if err := cq.finish(h, h.Destroy, parents...); err != nil {
		_ = h.Destroy()
		cq.silence()
		return nil, fail(op, c.name, err)
	}
	if cfg.Extended {
		cq.rec.SetFields(uint64(cfg.Fields) | cgo.WCStandard)
	}
	return watch(cq, cq.node), nil
}

// finish completes a CQ around its handle.
func (c *CQ) finish(h cgo.CQ, destroy func() error, parents ...*node) error {
	rec, err := cgo.NewCQRecord(h)
	if err != nil {
		return err
	}
	c.h, c.rec, c.destroy = h, rec, destroy
	c.size.Store(int64(h.Size()))
	if lim, err := c.ctx.known(); err == nil && lim.dev.VendorID == vendorRXE {
		rec.SetRXE()
	}
	if err := c.ring.join(c); err != nil {
		return err
	}
	c.node = newNode(fmt.Sprintf("CQ of %d on %s", h.Size(), c.ctx.name), rec, parents...)
	c.errClosed = &Error{Op: "poll", Object: c.node.name, Kind: ErrClosed}
	c.errFailed = &Error{Op: "poll", Object: c.node.name, Kind: ErrCQFailed}
	know(c.ctx.async, c.ctx.async.cqs, h, c)
	return nil
}

// vendorRXE is the vendor that Soft-RoCE calls itself.
const vendorRXE = 0xffffff

func (c *CQ) record() *cgo.CQRecord {
	if c == nil {
		return nil
	}
	return c.rec
}

func (c *CQ) silence() {
	if c.pump != nil {
		c.pump.remove(c.cookie)
	}
}

// Size is how many completions the CQ has room for.
func (c *CQ) Size() int {
	if c == nil {
		return 0
	}
	return int(c.size.Load())
}

// Close destroys the CQ and wakes those who wait for it; a *BusyError names the
// queue pairs that are left on it.
//
// Implements: int ibv_destroy_cq(struct ibv_cq *cq)
func (c *CQ) Close() error {
	return c.life().close(func() error {
		c.ring.part(c)
		c.rec.Shut()
		async := c.ctx.async
		forget(async, async.cqs, c.h)
		if err := c.destroy(); err != nil {
			know(async, async.cqs, c.h, c)
			c.rec.Reopen()
			return errors.Join(fail("destroy CQ", c.node.name, err), c.ring.join(c))
		}
		c.silence()
		return nil
	})
}

// Poll takes up to len(wcs) completions off the queue and returns how many;
// none is 0 and no error. It does not block and does not allocate. The error
// matches ErrClosed or ErrCQFailed.
//
// Implements: int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
func (c *CQ) Poll(wcs []WC) (int, error) {
	if c == nil || c.rec == nil {
		return 0, errNilCQ
	}
	if len(wcs) == 0 {
		return 0, nil
	}
	n := c.rec.Poll((*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs))
	if n < 0 {
		return 0, c.pollError(n)
	}
	return n, nil
}

var errNilCQ error = &Error{Op: "poll", Object: "nil CQ", Kind: ErrClosed}

func (c *CQ) pollError(n int) error {
	switch syscall.Errno(-n) {
	case syscall.EBADF:
		return c.errClosed
	case syscall.EIO:
		return c.errFailed
	}
	return &Error{Op: "poll", Object: c.node.name, Err: syscall.Errno(-n)}
}

// Wait is Poll that waits for the first completion: it returns at least one, or
// an error, which is the context's when that ends first. It does not allocate,
// and spins only where CQConfig.Spin says so. Completions that are there are returned whatever the
// context says.
//
// Implements: int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
// and static inline int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
// and static inline int rdma_get_recv_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
func (c *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	if c == nil || c.rec == nil {
		return 0, errNilCQ
	}
	if c.bell == nil {
		return 0, &Error{Op: "wait", Object: c.node.name, Kind: ErrNoChannel}
	}
	if len(wcs) == 0 {
		return 0, &Error{Op: "wait", Object: c.node.name, Kind: ErrInvalid, Hint: "no room for a completion"}
	}
	c.bell.join()
	defer c.bell.leave()
	var asleep time.Time
	var spent time.Duration
	if c.patience.limit > 0 {
		var n int
		if n, spent = c.spin(wcs); n > 0 {
			return n, nil
		} else if n < 0 {
			return 0, c.pollError(n)
		}
		asleep = time.Now()
	}
	for {
		n := c.rec.PollArm((*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs), c.solicited)
		switch {
		case n > 0:
			if c.patience.limit > 0 {
				c.patience.learn(spent + time.Since(asleep))
			}
			return n, nil
		case n < 0:
			return 0, c.pollError(n)
		}
		if err := c.bell.wait(ctx, c.node.done); err != nil {
			if errors.Is(err, ErrClosed) {
				err = c.errClosed
			}
			return 0, err
		}
	}
}

// spin polls for as long as it is worth it; 0 where nothing came, or where too
// many goroutines spin already.
func (c *CQ) spin(wcs []WC) (n int, spent time.Duration) {
	if !maySpin() {
		return 0, 0
	}
	defer spun()
	n, ns := c.rec.PollSpin((*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs), 1, uint64(c.patience.now()))
	if n > 0 && ns > 0 {
		c.patience.learn(time.Duration(ns))
	}
	return n, time.Duration(ns)
}
