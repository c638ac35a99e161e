//go:build linux && cgo

package ibv

import (
	"sync/atomic"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

// fakes makes objects of all kinds on a fake device, for tests that close them
// themselves. The device's memory of one is gone with its Close.
type fakes struct {
	dev *fakeverbs.Device
	num atomic.Uint32 // of the last queue pair
}

// fakeCQ is a CQ with what fake queue pairs are made on.
type fakeCQ struct {
	*CQ
	fake *fakeverbs.CQ
}

func (f *fakes) context() *Context {
	c := newContext("fake0", f.dev.Context(), func() error { return nil })
	c.fakeDereg, c.fakeDealloc = f.dev.Dereg, f.dev.DeallocPD
	c.limits = &limits{
		dev:    DeviceAttr{MaxQPWR: 1 << 16, MaxSGE: 32, MaxQPReadAtomic: 16, MaxQPInitReadAtomic: 16, CapFlags: capXRC},
		maxMsg: 1 << 20, maxMTU: 4096,
	}
	return c
}

func (f *fakes) pd(c *Context) (*PD, error) {
	if err := c.node.enter("allocate PD"); err != nil {
		return nil, err
	}
	defer c.node.leave()
	return newPD(c, f.dev.PD(), func() error { return nil }), nil
}

func (f *fakes) ring(c *Context) (*CompletionRing, error) {
	if err := c.node.enter("make completion ring"); err != nil {
		return nil, err
	}
	defer c.node.leave()
	return c.startRing(RingConfig{Size: 16}, cgo.CompChannel{}, func() error { return nil })
}

// cq makes a CQ that can be waited for, or one on a ring.
func (f *fakes) cq(c *Context, r *CompletionRing) (*fakeCQ, error) {
	parents := []*node{c.node}
	if r != nil {
		parents = append(parents, r.node)
	}
	for _, n := range parents {
		if err := n.enter("create CQ"); err != nil {
			return nil, err
		}
		defer n.leave()
	}
	fake := f.dev.NewCQ(16)
	cq := &CQ{ctx: c, ring: r}
	if r == nil {
		cq.bell = newBell()
	}
	if err := cq.finish(fake.Handle(), func() error { fake.Free(); return nil }, parents...); err != nil {
		fake.Free()
		return nil, err
	}
	return &fakeCQ{watch(cq, cq.node), fake}, nil
}

// qp makes a queue pair whose requests stay in flight.
func (f *fakes) qp(p *PD, send, recv *fakeCQ, t QPType) (*QP, error) {
	var fake *fakeverbs.QP
	q, err := NewQP(p.ctx, p, QPConfig{Type: t, SendCQ: send.CQ, RecvCQ: recv.CQ, MaxSend: 16, MaxRecv: 16},
		func(cgo.PD, *cgo.QPInitAttr) (cgo.QP, error) {
			fake = f.dev.NewQP(send.fake, recv.fake, f.num.Add(1), 16)
			fake.SetType(uint32(t))
			fake.Hold(true)
			return fake.Handle(), nil
		}, func() error { fake.Free(); return nil })
	if err == nil {
		q.Track(QPRTS, 16, 16)
	}
	return q, err
}

// srq makes an SRQ of an XRC domain, or without one, one that matches tags.
func (f *fakes) srq(p *PD, x *XRCD, cq *fakeCQ) (*SRQ, error) {
	cfg := SRQConfig{MaxRecv: 8, CQ: cq.CQ, XRCD: x}
	if x == nil {
		cfg.MaxTags = 4
	}
	return NewSRQ(p.ctx, p, cfg, func(pd cgo.PD, a *cgo.SRQInitAttr) (cgo.SRQ, func() error, error) {
		h, err := pd.CreateSRQEx(a)
		return h, func() error { f.dev.DestroySRQ(h); return nil }, err
	})
}
