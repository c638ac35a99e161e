package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// link is one end of the connections that are measured: their queue pairs share
// memory and one completion queue.
type link struct {
	*plan
	*test
	conns []*cm.Conn
	pd    *ibv.PD
	ch    *ibv.CompChannel // nil unless -events
	cq    *ibv.CQ
	mr    *ibv.MR // what is sent, then what is received
	peer  region
	sends []*ibv.SendBatch
	recvs []*ibv.RecvBatch
	wcs   []ibv.WC
	count atomic.Int64 // how far the run has come
}

func newLink(p *plan) *link {
	return &link{plan: p, test: tests[p.Test], wcs: make([]ibv.WC, 32)}
}

// tx and rx are the two halves of the memory.
func (l *link) tx() []byte { return l.mr.Bytes()[:l.span()] }
func (l *link) rx() []byte { return l.mr.Bytes()[l.span():] }

// slot is where message i of a batch lies within its half.
func (l *link) slot(i int) int { return i % l.slots() * l.stride() }

// chunk is how many receives are posted with one call.
func (l *link) chunk() int { return max(l.Batch, 16) / l.Batch * l.Batch }

// recvDepth is how many receives are posted: perftest's 512, or fewer where many
// queue pairs share the completion queue.
func (l *link) recvDepth() int {
	if l.op != opSend {
		return 0
	}
	n := max(512, 2*l.Depth)
	if l.QPs > 1 {
		n = min(n, maxDepth/l.QPs)
	}
	return max(2, n/l.chunk()) * l.chunk()
}

// resources makes what the queue pairs share, with the first of them.
func (l *link) resources(ctx *ibv.Context) (cm.Resources, error) {
	if l.cq == nil {
		if err := l.make(ctx); err != nil {
			return cm.Resources{}, err
		}
	}
	qp := ibv.QPConfig{SendCQ: l.cq, RecvCQ: l.cq, MaxSend: max(l.Depth, slack), MaxRecv: max(1, l.recvDepth()), MaxInline: l.Inline}
	return cm.Resources{PD: l.pd, QP: qp, Prepare: l.prepare}, nil
}

func (l *link) make(ctx *ibv.Context) (err error) {
	if l.pd, err = ctx.AllocPD(); err != nil {
		return err
	}
	access := ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead
	if l.op == opAtomic {
		access |= ibv.RemoteAtomic
	}
	if l.mr, err = l.pd.AllocMR(2*l.span(), access); err != nil {
		return err
	}
	if l.Events {
		if l.ch, err = ctx.NewCompChannel(); err != nil {
			return err
		}
	}
	attr, err := ctx.QueryDevice()
	if err != nil {
		return err
	}
	size := min(l.QPs*(max(l.Depth, slack)+l.recvDepth()), attr.MaxCQE)
	l.cq, err = ctx.CreateCQ(ibv.CQConfig{Size: size, Channel: l.ch})
	return err
}

// prepare makes a queue pair's batches and posts its receives.
func (l *link) prepare(qp *ibv.QP) error {
	q := uint64(len(l.sends))
	send, err := qp.NewSendBatch(ibv.BatchConfig{Requests: l.Batch, Inline: l.Inline})
	if err != nil {
		return err
	}
	for i := range l.Batch {
		send.SetID(i, q)
		if i+1 < l.Batch {
			send.SetFlags(i, ibv.Unsignaled)
		}
	}
	l.sends = append(l.sends, send)
	if l.op != opSend {
		return nil
	}
	recv, err := qp.NewRecvBatch(ibv.BatchConfig{Requests: l.chunk()})
	if err != nil {
		return err
	}
	for i := range l.chunk() {
		recv.SetID(i, q)
		if err := recv.Recv(i, l.mr.SGE(l.span()+l.slot(i%l.Batch), l.stride())); err != nil {
			return err
		}
	}
	for range l.recvDepth() / l.chunk() {
		if _, err := recv.Post(); err != nil {
			return err
		}
	}
	l.recvs = append(l.recvs, recv)
	return nil
}

// aim makes the requests of all batches messages of a size.
func (l *link) aim(size int) error {
	for _, b := range l.sends {
		for i := range l.Batch {
			if err := l.request(b, i, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// request makes request i of a batch a message of a size.
func (l *link) request(b *ibv.SendBatch, i, size int) error {
	at := l.slot(i)
	mine := l.mr.SGE(at, size)
	theirs := ibv.Remote{Addr: l.peer.Addr + uint64(l.span()+at), RKey: l.peer.RKey} // where it receives
	inline := size <= l.Inline
	switch {
	case l.op == opSend && inline:
		return b.SendInline(i, l.tx()[at:at+size])
	case l.op == opSend:
		return b.Send(i, mine)
	case l.op == opWrite && inline:
		return b.WriteInline(i, theirs, l.tx()[at:at+size])
	case l.op == opWrite:
		return b.Write(i, theirs, mine)
	case l.op == opRead:
		return b.Read(i, ibv.Remote{Addr: l.peer.Addr + uint64(at), RKey: l.peer.RKey}, l.mr.SGE(l.span()+at, size))
	default:
		return b.FetchAdd(i, theirs, 1, mine)
	}
}

// region is this end's memory, for the peer.
func (l *link) region() *region { return &region{l.mr.Addr(), l.mr.RKey()} }

// add takes a connection that was made with resources.
func (l *link) add(c *cm.Conn) error {
	if c.Binding().Transport == policy.IWARP && l.op == opAtomic {
		return errors.Join(errors.ErrUnsupported, errors.New("iWARP has no atomics"))
	}
	l.conns = append(l.conns, c)
	return nil
}

// close ends the connections and frees what they shared.
func (l *link) close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, l.mr.Close(), l.cq.Close(), l.ch.Close(), l.pd.Close())...)
}

// watch says when a run is over before its end. Polling looks at the flag, which
// costs less than a look at the context.
type watch struct {
	ctx  context.Context
	over atomic.Bool
}

func newWatch(ctx context.Context) *watch {
	w := &watch{ctx: ctx}
	context.AfterFunc(ctx, func() { w.over.Store(true) })
	return w
}

// take gives at least one completion, of which none failed, or an error.
func (l *link) take(w *watch) ([]ibv.WC, error) {
	if l.Events {
		n, err := l.cq.Wait(w.ctx, l.wcs)
		if err != nil && w.ctx.Err() != nil {
			err = context.Cause(w.ctx)
		}
		return l.good(n, err)
	}
	for {
		n, err := l.cq.PollSpin(l.wcs, 1, l.spin())
		if n > 0 || err != nil {
			return l.good(n, err)
		}
		if w.over.Load() {
			return nil, context.Cause(w.ctx)
		}
	}
}

// spin is how long C looks before Go does.
func (l *link) spin() time.Duration {
	if l.Events {
		return 0
	}
	return time.Millisecond
}

// good is what was polled, if all of it succeeded.
func (l *link) good(n int, err error) ([]ibv.WC, error) {
	if err != nil {
		return nil, err
	}
	for i := range l.wcs[:n] {
		if !l.wcs[i].OK() {
			return nil, l.wcs[i].Err()
		}
	}
	return l.wcs[:n], nil
}
