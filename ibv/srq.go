package ibv

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// SRQ is a shared receive queue: receives that any queue pair on it takes from.
// Safe for concurrent use.
//
// Receives complete on the queue pair that took them, in any order between
// queue pairs. So a memory region that receives of an SRQ name can be closed
// (ErrBusy otherwise) once no receive at all is left on it, or the SRQ is closed.
type SRQ struct {
	poster
	h       cgo.SRQ
	rec     *cgo.SRQRecord
	caps    SRQAttr
	xrc     bool
	destroy func() error

	room  atomic.Int64 // receives that it has room for
	limit atomic.Int64 // what to arm the event with; 0: do not
	unarm atomic.Bool  // the limit event came, or never was armed
	arm   sync.Mutex
	tags  map[*MR]*node // what tagged receives name; nil where it matches none; guarded by arm

	one     oneRecv
	errFull *Error
}

// SRQConfig says how a shared receive queue is made.
type SRQConfig struct {
	// MaxRecv is how many receives it has room for. Default 128, or what the
	// device can do. The device may grant more: see SRQ.Cap.
	MaxRecv int
	// MaxSGE is how many pieces of memory a receive may name. Default 1.
	MaxSGE int
	// Limit raises EventSRQLimitReached once fewer receives than this are left.
	// The event is armed again by the post that fills the queue up to the limit.
	// Default 0, no event.
	Limit int

	// XRCD and CQ make it one that XRC targets of the domain receive into; its
	// completions go to CQ.
	XRCD *XRCD
	CQ   *CQ
	// MaxTags and MaxTagOps make it one that matches tags, on a device that can;
	// it needs CQ as well.
	MaxTags, MaxTagOps int
}

// SRQAttr is the size and the limit of a shared receive queue.
type SRQAttr struct{ MaxRecv, MaxSGE, Limit int }

// Types of shared receive queues, enum ibv_srq_type.
const (
	srqBasic = iota
	srqXRC
	srqTM
)

func (s *SRQ) life() *node {
	if s == nil {
		return nil
	}
	return s.node
}

// CreateSRQ creates a shared receive queue.
//
// Implements: struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
// and struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *srq_init_attr_ex)
func (p *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	return NewSRQ(p.Context(), p, cfg, func(pd cgo.PD, a *cgo.SRQInitAttr) (h cgo.SRQ, destroy func() error, err error) {
		if a.Type == srqBasic {
			h, err = pd.CreateSRQ(&a.Attr)
		} else {
			h, err = pd.CreateSRQEx(a)
		}
		return h, h.Destroy, err
	})
}

// NewSRQ is CreateSRQ for package cm, which makes and destroys its queues through
// librdmacm. create writes the granted size into the attributes.
func NewSRQ(ctx *Context, pd *PD, cfg SRQConfig, create func(cgo.PD, *cgo.SRQInitAttr) (cgo.SRQ, func() error, error)) (*SRQ, error) {
	const op = "create SRQ"
	if err := pd.life().enter(op); err != nil {
		return nil, err
	}
	defer pd.node.leave()
	if err := sameContext(op, pd.node.name, ctx, pd.ctx); err != nil {
		return nil, err
	}
	lim, err := ctx.known()
	if err != nil {
		return nil, err
	}
	parents := []*node{pd.node}
	a, err := cfg.attr(op, pd, &lim.dev)
	if err != nil {
		return nil, err
	}
	if cfg.XRCD != nil {
		if err := cfg.XRCD.life().enter(op); err != nil {
			return nil, err
		}
		defer cfg.XRCD.node.leave()
		if err := sameContext(op, pd.node.name, ctx, cfg.XRCD.ctx); err != nil {
			return nil, err
		}
		parents = append(parents, cfg.XRCD.node)
		a.XRCD = cfg.XRCD.h
	}
	if cfg.CQ != nil {
		if err := cfg.CQ.life().enter(op); err != nil {
			return nil, err
		}
		defer cfg.CQ.node.leave()
		if err := sameContext(op, pd.node.name, ctx, cfg.CQ.ctx); err != nil {
			return nil, err
		}
		parents = append(parents, cfg.CQ.node)
		a.CQ = cfg.CQ.h
	}
	h, destroy, err := create(pd.h, a)
	if err != nil {
		return nil, cfg.explain(op, pd.node.name, &lim.dev, err)
	}
	rec, err := cgo.NewSRQRecord(h)
	if err != nil {
		return nil, errors.Join(fail(op, pd.node.name, err), destroy())
	}
	s := &SRQ{
		poster: sharedPoster(pd, rec),
		h:      h, rec: rec, xrc: cfg.XRCD != nil, destroy: destroy,
		caps: SRQAttr{MaxRecv: int(a.Attr.MaxWR), MaxSGE: int(a.Attr.MaxSGE), Limit: cfg.Limit},
	}
	if cfg.MaxTags > 0 {
		s.tags = make(map[*MR]*node)
	}
	s.refused = s.postError
	s.room.Store(int64(s.caps.MaxRecv))
	s.limit.Store(int64(cfg.Limit))
	s.unarm.Store(true)
	s.node = newNode(fmt.Sprintf("SRQ of %d on %s", s.caps.MaxRecv, ctx.name), rec, parents...)
	s.errFull = &Error{Op: "post receive", Object: s.node.name, Kind: ErrQueueFull,
		Hint: "receives that queue pairs took make room once they are done"}
	know(ctx.async, ctx.async.srqs, h, s)
	return watch(s, s.node), nil
}

func (cfg *SRQConfig) attr(op string, pd *PD, dev *DeviceAttr) (*cgo.SRQInitAttr, error) {
	for _, v := range []struct {
		field string
		v     int
	}{{"MaxRecv", cfg.MaxRecv}, {"MaxSGE", cfg.MaxSGE}, {"Limit", cfg.Limit}, {"MaxTags", cfg.MaxTags}, {"MaxTagOps", cfg.MaxTagOps}} {
		if v.v < 0 || v.v > 1<<30 {
			return nil, invalid(op, pd.node.name, ErrInvalid, "%s is %d", v.field, v.v)
		}
	}
	a := &cgo.SRQInitAttr{
		Attr: cgo.SRQAttr{MaxWR: uint32(or(cfg.MaxRecv, min(128, max(dev.MaxSRQWR, 1)))), MaxSGE: uint32(or(cfg.MaxSGE, 1))},
	}
	switch {
	case cfg.Limit > int(a.Attr.MaxWR):
		return nil, invalid(op, pd.node.name, ErrInvalid, "Limit is %d, the queue has room for %d", cfg.Limit, a.Attr.MaxWR)
	case cfg.XRCD != nil:
		a.Type = srqXRC
		if cfg.CQ == nil {
			return nil, invalid(op, pd.node.name, ErrInvalid, "an SRQ of an XRC domain needs a CQ")
		}
	case cfg.MaxTags > 0:
		a.Type = srqTM
		a.MaxTags, a.MaxOps = uint32(cfg.MaxTags), uint32(cfg.MaxTagOps)
		if cfg.CQ == nil {
			return nil, invalid(op, pd.node.name, ErrInvalid, "an SRQ that matches tags needs a CQ")
		}
	case cfg.CQ != nil:
		return nil, invalid(op, pd.node.name, ErrInvalid, "a plain SRQ has no CQ: its completions go to the queue pairs'")
	}
	return a, nil
}

func (cfg *SRQConfig) explain(op, object string, dev *DeviceAttr, err error) error {
	e := fail(op, object, err)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOMEM) {
		e.Hint = beyond("",
			limitOf{"MaxRecv", cfg.MaxRecv, dev.MaxSRQWR}, limitOf{"MaxSGE", cfg.MaxSGE, dev.MaxSRQSGE})
	}
	return e
}

// Close destroys the queue; a *BusyError names the queue pairs that are left on
// it. The memory that its receives named is free then.
//
// Implements: int ibv_destroy_srq(struct ibv_srq *srq)
func (s *SRQ) Close() error {
	return s.life().close(func() error {
		s.rec.Shut()
		async := s.pd.ctx.async
		forget(async, async.srqs, s.h)
		if err := s.destroy(); err != nil {
			know(async, async.srqs, s.h, s)
			s.rec.Reopen()
			return fail("destroy SRQ", s.node.name, err)
		}
		s.rec.Gone()
		s.forget()
		for _, n := range s.tags {
			_ = n.close(func() error { return nil })
		}
		return nil
	})
}

// Cap is what the queue was granted, and the limit that was set.
func (s *SRQ) Cap() SRQAttr {
	if s == nil {
		return SRQAttr{}
	}
	a := s.caps
	a.MaxRecv, a.Limit = int(s.room.Load()), int(s.limit.Load())
	return a
}

// PD returns the queue's protection domain.
func (s *SRQ) PD() *PD {
	if s == nil {
		return nil
	}
	return s.pd
}

// Query asks the device for the queue's size, and for the limit that is armed: 0
// once its event was raised.
//
// Implements: int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
func (s *SRQ) Query() (SRQAttr, error) {
	const op = "query SRQ"
	if err := s.life().enter(op); err != nil {
		return SRQAttr{}, err
	}
	defer s.node.leave()
	a, err := s.h.Query()
	if err != nil {
		return SRQAttr{}, fail(op, s.node.name, err)
	}
	return SRQAttr{MaxRecv: int(a.MaxWR), MaxSGE: int(a.MaxSGE), Limit: int(a.Limit)}, nil
}

// Number is the number by which an XRC initiator names the queue.
//
// Implements: int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
func (s *SRQ) Number() (uint32, error) {
	const op = "query SRQ number"
	if err := s.life().enter(op); err != nil {
		return 0, err
	}
	defer s.node.leave()
	n, err := s.h.Number()
	if err != nil {
		return 0, fail(op, s.node.name, err)
	}
	return n, nil
}

// SetLimit arms the limit event now, and after each event again as SRQConfig.Limit
// does; 0 ends that.
//
// Implements: int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
func (s *SRQ) SetLimit(n int) error {
	if s.life() != nil && int64(n) > s.room.Load() {
		return invalid("set SRQ limit", s.node.name, ErrInvalid, "Limit is %d, the queue has room for %d", n, s.room.Load())
	}
	return s.modify("set SRQ limit", cgo.SRQAttr{Limit: uint32(max(n, 0))}, cgo.SRQLimit, func() {
		s.limit.Store(int64(n))
		s.unarm.Store(false)
	}, "Limit", n)
}

// Resize changes how many receives the queue has room for, on a device that can.
//
// Implements: int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
func (s *SRQ) Resize(n int) error {
	return s.modify("resize SRQ", cgo.SRQAttr{MaxWR: uint32(max(n, 0))}, cgo.SRQMaxWR, func() { s.room.Store(int64(n)) }, "MaxRecv", n)
}

func (s *SRQ) modify(op string, a cgo.SRQAttr, mask uint32, then func(), field string, n int) error {
	if err := s.life().enter(op); err != nil {
		return err
	}
	defer s.node.leave()
	if n < 0 || n > 1<<30 {
		return invalid(op, s.node.name, ErrInvalid, "%s is %d", field, n)
	}
	s.arm.Lock()
	defer s.arm.Unlock()
	if err := s.h.Modify(&a, mask); err != nil {
		lim, e := s.pd.ctx.known()
		if e != nil {
			return e
		}
		return &Error{Op: op, Object: s.node.name, Err: err, Hint: beyond("", limitOf{field, n, lim.dev.MaxSRQWR})}
	}
	then()
	return nil
}

// posted is told of each post; a WQ, which has no limit, has no SRQ.
func (s *SRQ) posted() {
	if s != nil && s.unarm.Load() {
		s.rearm()
	}
}

// rearm arms the limit event once enough is posted for it to mean something.
func (s *SRQ) rearm() {
	limit := s.limit.Load()
	if limit == 0 || s.rec.Left() < uint64(limit) {
		return
	}
	if s.life().enter("arm SRQ limit") != nil {
		return
	}
	defer s.node.leave()
	s.arm.Lock()
	defer s.arm.Unlock()
	if s.unarm.Load() && s.h.Modify(&cgo.SRQAttr{Limit: uint32(limit)}, cgo.SRQLimit) == nil {
		s.unarm.Store(false)
	}
}

// NewRecvBatch makes a batch of receives for the queue.
func (s *SRQ) NewRecvBatch(cfg BatchConfig) (*RecvBatch, error) {
	const op = "make receive batch"
	if err := s.life().enter(op); err != nil {
		return nil, err
	}
	defer s.node.leave()
	b, err := newRecvBatch(op, &s.poster, cfg, s.caps.MaxSGE)
	if b != nil {
		b.srq, b.shared = s, true
	}
	return b, err
}

// PostRecv posts one receive. It does not allocate but for the first call.
//
// Implements: int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr, struct ibv_recv_wr **bad_recv_wr)
func (s *SRQ) PostRecv(w RecvWR) error {
	if s.life() == nil {
		return s.life().enter("post receive")
	}
	return s.one.post(w, s.caps.MaxSGE, s.NewRecvBatch)
}

func (s *SRQ) postError(op string, p cgo.Posted, n int) error {
	return sharedError(op, s.node.name, s.errFull, p, n)
}

// sharedError turns the outcome of a post of n receives to an SRQ or WQ into an
// error.
func sharedError(op, object string, full *Error, p cgo.Posted, n int) error {
	switch p.Why {
	case cgo.RefusedClosed:
		return &Error{Op: op, Object: object, Kind: ErrClosed}
	case cgo.RefusedMRClosed:
		return &Error{Op: op, Object: object, Kind: ErrClosed, Hint: "a memory region of the batch was closed"}
	}
	errno := syscall.Errno(p.Errno)
	switch {
	case errno == syscall.ENOMEM && p.Why == cgo.ProviderRefused && p.Accepted == 0:
		return full
	case p.Why == cgo.AcceptedUnknown:
		return &Error{Op: op, Object: object, Kind: ErrAcceptedUnknown, Err: errno,
			Hint: fmt.Sprintf("take all %d for posted until the queue is closed", n)}
	}
	e := &Error{Op: op, Object: object, Err: errno,
		Hint: fmt.Sprintf("receive %d of %d; the %d before it are posted", p.Accepted, n, p.Accepted)}
	if errno == syscall.ENOMEM {
		e.Kind = ErrQueueFull
	}
	return e
}
