package ibv

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// QP is a queue pair, reliable and connected unless its QPType says otherwise. Safe for concurrent use: posts to one
// queue are taken one after another.
type QP struct {
	poster
	h         cgo.QP
	rec       *cgo.QPRecord
	sendCQ    *CQ
	recvCQ    *CQ
	srq       *SRQ // receives for it, or nil
	caps      QPCap
	num       uint32
	maxMsg    atomic.Uint32
	maxTSO    uint32 // bytes of a message, of a header
	maxHeader int
	destroy   func() error

	typ QPType
	ops uint32 // what it can do, a bit for each C opcode

	modify sync.Mutex // one transition at a time

	// For PostSend and PostRecv: batches of one.
	oneSend struct {
		sync.Mutex
		b *SendBatch
	}
	oneRecv oneRecv

	errFull atomic.Pointer[Error] // made once: a full queue is no exception
}

// QPConfig says how a queue pair is made.
type QPConfig struct {
	// Type is the service. Default RC.
	Type QPType
	// SendCQ and RecvCQ take the completions; they may be one, and be shared with
	// other queue pairs, but for SendBatch.Run, and so for NewTransfer: that needs a
	// SendCQ that serves no other queue. Required, but for RecvCQ of an XRC
	// initiator and both of an XRC target.
	SendCQ, RecvCQ *CQ
	// SRQ has the receives, instead of a queue of the queue pair's own. It may be
	// of another PD. An XRC target has none: it receives into all of its domain's.
	SRQ *SRQ
	// ExtendedPost posts sends by ibv_wr_*, the newer way, where the device has it:
	// all of a batch is taken then, or nothing. The classic way is the default,
	// and as fast here. Soft-RoCE's is right since rdma-core 64 only: with an older
	// one the error matches errors.ErrUnsupported.
	ExtendedPost bool
	// XRCD is the domain of an XRC target.
	XRCD *XRCD
	// MaxSend and MaxRecv are how many requests may be in flight on each
	// queue: posted, and not yet retired by a polled completion. Default 128,
	// or what the device can do. The device may grant more: see QP.Cap.
	MaxSend, MaxRecv int
	// MaxSendSGE and MaxRecvSGE are how many pieces of memory a request may
	// name. Default 1.
	MaxSendSGE, MaxRecvSGE int
	// MaxInline is how many bytes a request may carry inline. Default 0.
	MaxInline int
	// MaxTSOHeader is how many bytes the header of a TSO may have. Default 0: none
	// can be sent.
	MaxTSOHeader int

	fakeEx cgo.QPEx  // of the fake provider
	table  *RSSTable // has the queues, instead of those here
}

// QPCap is what a queue pair was granted; see QPConfig.
type QPCap struct {
	MaxSend, MaxRecv, MaxSendSGE, MaxRecvSGE, MaxInline int
}

func (q *QP) life() *node {
	if q == nil {
		return nil
	}
	return q.node
}

// CreateQP creates a queue pair, in state RESET.
//
// Implements: struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
func (p *PD) CreateQP(cfg QPConfig) (*QP, error) {
	var h cgo.QP
	return NewQP(p.Context(), p, cfg,
		func(pd cgo.PD, a *cgo.QPInitAttr) (_ cgo.QP, err error) {
			h, err = pd.CreateQP(a)
			return h, err
		},
		func() error { return h.Destroy() })
}

// NewQP is CreateQP for package cm, which makes and destroys its queue pairs
// through librdmacm, on the context that librdmacm has opened. create writes the
// granted capacities into the attributes.
func NewQP(ctx *Context, pd *PD, cfg QPConfig, create func(cgo.PD, *cgo.QPInitAttr) (cgo.QP, error), destroy func() error) (*QP, error) {
	const op = "create QP"
	if err := pd.life().enter(op); err != nil {
		return nil, err
	}
	defer pd.node.leave()
	if err := sameContext(op, pd.node.name, ctx, pd.ctx); err != nil {
		return nil, err
	}
	parents := []*node{pd.node}
	join := func(n *node, of *Context) error {
		if err := sameContext(op, pd.node.name, ctx, of); err != nil {
			return err
		}
		if n != parents[len(parents)-1] {
			parents = append(parents, n)
		}
		return nil
	}
	if err := cfg.queues(op, pd); err != nil {
		return nil, err
	}
	for _, cq := range []*CQ{cfg.SendCQ, cfg.RecvCQ} {
		if cq == nil {
			continue
		}
		if err := cq.life().enter(op); err != nil {
			return nil, err
		}
		defer cq.node.leave()
		if err := join(cq.node, cq.ctx); err != nil {
			return nil, err
		}
	}
	if s := cfg.SRQ; s != nil {
		if err := s.life().enter(op); err != nil {
			return nil, err
		}
		defer s.node.leave()
		if err := join(s.node, s.pd.ctx); err != nil {
			return nil, err
		}
	}
	if x := cfg.table; x != nil {
		if err := join(x.node, x.ctx); err != nil {
			return nil, err
		}
	}
	if x := cfg.XRCD; x != nil {
		if err := x.life().enter(op); err != nil {
			return nil, err
		}
		defer x.node.leave()
		if err := join(x.node, x.ctx); err != nil {
			return nil, err
		}
	}
	lim, err := ctx.known()
	if err != nil {
		return nil, err
	}
	if s := rcOnly(ctx.transport(), or(cfg.Type, RC)); s != "" {
		return nil, invalid(op, pd.node.name, errors.ErrUnsupported, "%s", s)
	}
	attr, err := cfg.attr(pd, lim)
	if err != nil {
		return nil, err
	}
	if cfg.ExtendedPost {
		if lim.dev.VendorID == vendorRXE && !cgo.ExtendedPostsRight() {
			return nil, &Error{Op: op, Object: pd.node.name, Err: &cgo.Error{Op: "ibv_wr_start", Errno: syscall.ENOSYS, Since: 64},
				Hint: "an older Soft-RoCE counts the bytes of extended posts wrong"}
		}
		attr.SendOps = sendOps(cfg.ops(ctx, lim))
	}
	h, err := create(pd.h, attr)
	if err != nil {
		return nil, createError(op, pd.node.name, attr, lim, err)
	}
	rec, err := cgo.NewQPRecord(h, cfg.SendCQ.record(), or(cfg.RecvCQ, cfg.SendCQ).record(), attr.Cap.MaxSendWR, attr.Cap.MaxRecvWR)
	if err != nil {
		return nil, errors.Join(fail(op, pd.node.name, err), destroy())
	}
	q := &QP{
		poster: poster{pd: pd, uses: make(map[*held]*use), keep: rec, addr: rec.Addr(),
			record: func() (*cgo.UseRecord, error) { return cgo.NewUseRecord(rec) }},
		h: h, rec: rec, sendCQ: cfg.SendCQ, recvCQ: cfg.RecvCQ, srq: cfg.SRQ, num: h.Number(), destroy: destroy,
		caps: QPCap{
			MaxSend: int(attr.Cap.MaxSendWR), MaxRecv: int(attr.Cap.MaxRecvWR),
			MaxSendSGE: int(attr.Cap.MaxSendSGE), MaxRecvSGE: int(attr.Cap.MaxRecvSGE),
			MaxInline: int(attr.Cap.MaxInline),
		},
		typ: or(cfg.Type, RC),
	}
	q.ops, q.maxTSO, q.maxHeader = cfg.ops(ctx, lim), lim.tso.MaxTSO, cfg.MaxTSOHeader
	q.refused = q.postError
	if q.srq != nil {
		rec.SetSRQ(q.srq.rec)
	}
	if cfg.ExtendedPost {
		if err := rec.Extend(cfg.fakeEx); err != nil {
			rec.Shut()
			return nil, errors.Join(fail(op, pd.node.name, err), destroy())
		}
	}
	q.maxMsg.Store(lim.maxMsg)
	if q.typ == UD {
		q.maxMsg.Store(lim.maxMTU)
	}
	q.node = newNode(fmt.Sprintf("%sQP %d on %s", q.typ.prefix(), q.num, ctx.name), rec, parents...)
	know(ctx.async, ctx.async.qps, h, q)
	return watch(q, q.node), nil
}

func (cfg *QPConfig) attr(pd *PD, lim *limits) (*cgo.QPInitAttr, error) {
	pick := func(v, def, most int) uint32 {
		if v == 0 {
			v = min(def, most)
		}
		return uint32(v)
	}
	for _, v := range []struct {
		field string
		v     int
	}{{"MaxSend", cfg.MaxSend}, {"MaxRecv", cfg.MaxRecv}, {"MaxSendSGE", cfg.MaxSendSGE},
		{"MaxRecvSGE", cfg.MaxRecvSGE}, {"MaxInline", cfg.MaxInline}, {"MaxTSOHeader", cfg.MaxTSOHeader}} {
		if v.v < 0 || v.v > 1<<30 {
			return nil, invalid("create QP", pd.node.name, ErrInvalid, "%s is %d", v.field, v.v)
		}
	}
	if cfg.MaxTSOHeader > math.MaxUint16 {
		return nil, invalid("create QP", pd.node.name, ErrInvalid, "MaxTSOHeader is %d", cfg.MaxTSOHeader)
	}
	a := &cgo.QPInitAttr{
		Type: uint32(or(cfg.Type, RC)), TSOHeader: uint16(cfg.MaxTSOHeader),
		Cap: cgo.QPCap{
			MaxSendWR: pick(cfg.MaxSend, 128, lim.dev.MaxQPWR), MaxRecvWR: pick(cfg.MaxRecv, 128, lim.dev.MaxQPWR),
			MaxSendSGE: pick(cfg.MaxSendSGE, 1, lim.dev.MaxSGE), MaxRecvSGE: pick(cfg.MaxRecvSGE, 1, lim.dev.MaxSGE),
			MaxInline: uint32(cfg.MaxInline),
		},
	}
	if cfg.SendCQ != nil {
		a.SendCQ = cfg.SendCQ.h
	}
	if cfg.RecvCQ != nil {
		a.RecvCQ = cfg.RecvCQ.h
	}
	if cfg.SRQ != nil {
		a.SRQ = cfg.SRQ.h
		a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE = 0, 0
	}
	if cfg.XRCD != nil {
		a.XRCD = cfg.XRCD.h
	}
	switch cfg.Type {
	case XRCRecv:
		a.Cap = cgo.QPCap{}
	case XRCSend:
		a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE = 0, 0
	}
	return a, nil
}

// queues checks which queues the type needs, and which it does not take.
func (cfg *QPConfig) queues(op string, pd *PD) error {
	switch {
	case cfg.table != nil:
		return nil
	case cfg.Type == XRCRecv && (cfg.SendCQ != nil || cfg.RecvCQ != nil || cfg.SRQ != nil || cfg.XRCD == nil):
		return invalid(op, pd.node.name, ErrInvalid, "an XRC target needs XRCD, and takes no CQ and no SRQ")
	case cfg.Type != XRCRecv && cfg.XRCD != nil:
		return invalid(op, pd.node.name, ErrInvalid, "XRCD goes with an XRC target")
	case cfg.Type == XRCRecv:
		return nil
	case cfg.Type == XRCSend && (cfg.SendCQ == nil || cfg.RecvCQ != nil || cfg.SRQ != nil):
		return invalid(op, pd.node.name, ErrInvalid, "an XRC initiator needs SendCQ, and takes no RecvCQ and no SRQ")
	case cfg.Type != XRCSend && (cfg.SendCQ == nil || cfg.RecvCQ == nil):
		return invalid(op, pd.node.name, ErrInvalid, "SendCQ and RecvCQ are required")
	case cfg.SRQ != nil && cfg.SRQ.xrc:
		return invalid(op, pd.node.name, ErrInvalid, "%s is of an XRC domain, whose targets alone use it", cfg.SRQ.life().name)
	}
	return nil
}

// createError names what was asked beyond the device's limits.
func createError(op, object string, a *cgo.QPInitAttr, lim *limits, err error) error {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
		return fail(op, object, err)
	}
	hint := beyond("",
		limitOf{"MaxSend", int(a.Cap.MaxSendWR), lim.dev.MaxQPWR}, limitOf{"MaxRecv", int(a.Cap.MaxRecvWR), lim.dev.MaxQPWR},
		limitOf{"MaxSendSGE", int(a.Cap.MaxSendSGE), lim.dev.MaxSGE}, limitOf{"MaxRecvSGE", int(a.Cap.MaxRecvSGE), lim.dev.MaxSGE})
	if hint == "" && a.Cap.MaxInline > 0 {
		hint = fmt.Sprintf("MaxInline is %d, and no device tells what it does", a.Cap.MaxInline)
	}
	if hint == "" {
		hint = fmt.Sprintf("asked for %d sends, %d receives, %d and %d SGEs; the device does %d requests, %d SGEs",
			a.Cap.MaxSendWR, a.Cap.MaxRecvWR, a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE, lim.dev.MaxQPWR, lim.dev.MaxSGE)
	}
	return &Error{Op: op, Object: object, Err: err, Hint: hint}
}

// Close destroys the queue pair, whatever is in flight; the memory that its
// requests used is free then. Completions that were not polled are lost.
//
// Implements: int ibv_destroy_qp(struct ibv_qp *qp)
func (q *QP) Close() error {
	return q.life().close(func() error {
		q.rec.Shut()
		async := q.pd.ctx.async
		forget(async, async.qps, q.h)
		if err := q.destroy(); err != nil {
			know(async, async.qps, q.h, q)
			return errors.Join(fail("destroy QP", q.node.name, err), q.rec.Reopen())
		}
		q.rec.Gone()
		q.forget()
		return nil
	})
}

// Num is the queue pair's number, 24 bits.
func (q *QP) Num() uint32 {
	if q == nil {
		return 0
	}
	return q.num
}

// Cap is what the queue pair was granted.
func (q *QP) Cap() QPCap {
	if q == nil {
		return QPCap{}
	}
	return q.caps
}

// Type is the queue pair's service.
func (q *QP) Type() QPType {
	if q == nil {
		return 0
	}
	return q.typ
}

// PD returns the queue pair's protection domain.
func (q *QP) PD() *PD {
	if q == nil {
		return nil
	}
	return q.pd
}

// State is the state that the queue pair is in as far as this process knows:
// from Modify, Track, and completions in error. Query asks the device.
func (q *QP) State() QPState {
	if q == nil || q.rec == nil {
		return QPReset
	}
	return QPState(q.rec.State())
}

// Track is for package cm, which sees the transitions that librdmacm makes, with
// the depths that the connection agreed on. A negative initiatorDepth leaves the
// known one; responderResources is the device's to enforce.
func (q *QP) Track(s QPState, initiatorDepth, responderResources int) {
	if err := q.life().enter("track QP"); err != nil {
		return
	}
	defer q.node.leave()
	if initiatorDepth >= 0 {
		q.rec.SetReadDepth(uint32(initiatorDepth))
	}
	q.moved(s)
}

func (q *QP) moved(s QPState) {
	if s == QPReset {
		q.rec.Reset()
	}
	q.rec.SetState(uint32(s))
}

// postError turns the outcome of a post of n requests into an error.
func (q *QP) postError(op string, p cgo.Posted, n int) error {
	switch p.Why {
	case cgo.RefusedClosed:
		return &Error{Op: op, Object: q.node.name, Kind: ErrClosed}
	case cgo.RefusedState:
		return &Error{Op: op, Object: q.node.name, Kind: ErrQPState, Hint: "it is in " + q.State().String()}
	case cgo.RefusedDepth:
		return &Error{Op: op, Object: q.node.name, Kind: ErrReadDepthZero,
			Hint: "set MaxRdAtomic, or the initiator depth of the connection, and the peer's responder resources"}
	case cgo.RefusedFull:
		if e := q.errFull.Load(); e != nil {
			return e
		}
		e := &Error{Op: op, Object: q.node.name, Kind: ErrQueueFull, Hint: fmt.Sprintf(
			"room for %d sends and %d receives; polled completions make room, signalled ones for the unsignalled before them",
			q.caps.MaxSend, q.caps.MaxRecv)}
		q.errFull.CompareAndSwap(nil, e)
		return e
	case cgo.RefusedMRClosed:
		return &Error{Op: op, Object: q.node.name, Kind: ErrClosed, Hint: "a memory region or address handle of the batch was closed"}
	case cgo.AcceptedUnknown:
		return &Error{Op: op, Object: q.node.name, Kind: ErrAcceptedUnknown, Err: syscall.Errno(p.Errno),
			Hint: fmt.Sprintf("take all %d for in flight until the QP is flushed or closed", n)}
	}
	return &Error{Op: op, Object: q.node.name, Err: syscall.Errno(p.Errno),
		Hint: fmt.Sprintf("request %d of %d; the %d before it are in flight", p.Accepted, n, p.Accepted)}
}
