//go:build linux && cgo

package ibv

import (
	"testing"
	"unsafe"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

// bench is a queue pair on the fake provider, and everything it stands on.
type bench struct {
	dev    *fakeverbs.Device
	ctx    *Context
	pd     *PD
	scq    *CQ
	rcq    *CQ
	fscq   *fakeverbs.CQ
	frcq   *fakeverbs.CQ
	qp     *QP
	fqp    *fakeverbs.QP
	closed int // how often something was destroyed
}

type benchConfig struct {
	depth  int // default 16
	sges   int // default 2
	inline int
	one    bool // both queues on one CQ
	state  QPState
	reset  bool // leave the QP in RESET
}

func newBench(t testing.TB, cfg benchConfig) *bench {
	t.Helper()
	b := &bench{dev: fakeverbs.Open()}
	t.Cleanup(b.dev.Free)
	b.ctx = newContext("fake0", b.dev.Context(), b.gone)
	b.ctx.limits = &limits{
		dev:    DeviceAttr{MaxQPWR: 1 << 16, MaxSGE: 32, AtomicCap: AtomicHCA, MaxQPReadAtomic: 16, MaxQPInitReadAtomic: 16},
		maxMsg: 1 << 20,
	}
	b.pd = newPD(b.ctx, b.dev.PD(), b.gone)
	depth := or(cfg.depth, 16)
	b.scq, b.fscq = b.newCQ(t, 2*depth)
	b.rcq, b.frcq = b.scq, b.fscq
	if !cfg.one {
		b.rcq, b.frcq = b.newCQ(t, 2*depth)
	}
	b.qp, b.fqp = b.newQP(t, b.scq, b.rcq, b.fscq, b.frcq, 17, QPConfig{MaxSend: depth, MaxRecv: depth,
		MaxSendSGE: or(cfg.sges, 2), MaxRecvSGE: or(cfg.sges, 2), MaxInline: cfg.inline})
	if !cfg.reset {
		b.qp.Track(or(cfg.state, QPRTS), 16, 16)
	}
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{b.qp, b.rcq, b.scq, b.pd, b.ctx} {
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	return b
}

func (b *bench) gone() error { b.closed++; return nil }

func (b *bench) newCQ(t testing.TB, size int) (*CQ, *fakeverbs.CQ) {
	t.Helper()
	f := b.dev.NewCQ(size)
	t.Cleanup(f.Free)
	c := &CQ{ctx: b.ctx}
	if err := c.finish(f.Handle(), b.gone, b.ctx.node); err != nil {
		t.Fatal(err)
	}
	return c, f
}

func (b *bench) newQP(t testing.TB, scq, rcq *CQ, fs, fr *fakeverbs.CQ, num uint32, cfg QPConfig) (*QP, *fakeverbs.QP) {
	t.Helper()
	f := b.dev.NewQP(fs, fr, num, cfg.MaxSend)
	t.Cleanup(f.Free)
	cfg.SendCQ, cfg.RecvCQ = scq, rcq
	q, err := NewQP(b.pd.Context(), b.pd, cfg, func(cgo.PD, *cgo.QPInitAttr) (cgo.QP, error) { return f.Handle(), nil }, b.gone)
	if err != nil {
		t.Fatal(err)
	}
	return q, f
}

// mr is a region over Go memory, which the fake provider never touches.
func (b *bench) mr(t testing.TB, size int, access Access) *MR {
	t.Helper()
	m := newMR(b.pd, make([]byte, size), access.full(), 0x1100+uint32(size), 0x2200, b.gone, nil)
	t.Cleanup(func() {
		if err := b.qp.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// newMR is makeMR for memory of this process, named by its own addresses.
func newMR(p *PD, mem []byte, access Access, lkey, rkey uint32, destroy, free func() error, parents ...*node) *MR {
	return makeMR(p, region{mem: mem, size: len(mem), addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
		lkey: lkey, rkey: rkey, access: access, destroy: destroy, free: free}, parents...)
}
