//go:build linux && cgo

package ibv

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

// TestExtendedPost: what the extended way of posting gives the device is what the
// classic way gives it, and a batch that it refuses is refused as a whole.
func TestExtendedPost(t *testing.T) {
	f := newBench(t, benchConfig{inline: 64})
	f.ctx.limits.dev.CapFlags = capMemExtensions | capMemWindow
	plain, ex := f.extendable(t, false), f.extendable(t, true)
	m := newMR(f.pd, make([]byte, 4096), LocalWrite, 7, 8, f.gone, nil)
	t.Cleanup(func() {
		for _, e := range []*extendable{plain, ex} {
			require.NoError(t, e.qp.Close())
			e.free()
		}
		require.NoError(t, m.Close())
	})
	at := Remote{Addr: 0x1000, RKey: 0x77}
	wrs := []SendWR{
		{Op: OpSend, SGEs: []SGE{m.SGE(0, 8)}},
		{Op: OpSend, SGEs: []SGE{m.SGE(0, 8), m.SGE(64, 9)}, Flags: Fence | Solicited},
		{Op: OpSend},
		{Op: OpSendImm, Imm: 0x01020304, SGEs: []SGE{m.SGE(8, 8)}},
		{Op: OpSendInv, RKey: 0x55, SGEs: []SGE{m.SGE(8, 8)}},
		{Op: OpWrite, Remote: at, SGEs: []SGE{m.SGE(1, 2)}, Flags: Unsignaled},
		{Op: OpWriteImm, Remote: at, Imm: 9, SGEs: []SGE{m.SGE(1, 2)}},
		{Op: OpRead, Remote: at, SGEs: []SGE{m.SGE(1, 2)}},
		{Op: OpCompareSwap, Remote: at, Compare: 1, Swap: 2, SGEs: []SGE{m.SGE(0, 8)}},
		{Op: OpFetchAdd, Remote: at, Add: 3, SGEs: []SGE{m.SGE(0, 8)}},
		{Op: OpLocalInv, RKey: 0x66},
		{Op: OpSend, Inline: []byte("inline")},
		{Op: OpWrite, Remote: at, Inline: []byte{}},
	}
	for _, e := range []*extendable{plain, ex} {
		b := sendBatch(t, e.qp, BatchConfig{Requests: len(wrs), SGEs: 2, Inline: 64})
		for i, w := range wrs {
			w.ID = uint64(100 + i)
			require.NoError(t, b.Set(i, w))
		}
		n, err := b.Post()
		require.NoError(t, err)
		require.Equal(t, len(wrs), n)
		wcs := drain(t, f.scq)
		require.Len(t, wcs, len(wrs)-1, "one is not signalled")
		require.Equal(t, uint64(100), wcs[0].ID())
		require.Equal(t, uint64(112), wcs[len(wcs)-1].ID())
	}
	for i := range wrs {
		want, got := plain.fake.Request(false, i), ex.fake.Request(false, i)
		if wrs[i].Inline != nil { // each batch has its own memory for it
			want.Addr, got.Addr = [2]uint64{}, [2]uint64{}
		}
		require.Equal(t, want, got, "request %d, %v", i, wrs[i].Op)
	}

	ex.ex.Fail(syscall.ENOMEM)
	b := sendBatch(t, ex.qp, BatchConfig{Requests: 3})
	for i := range 3 {
		require.NoError(t, b.Send(i, m.SGE(0, 8)))
	}
	n, err := b.Post()
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Zero(t, n)
	require.Equal(t, len(wrs), ex.fake.Posted(false))
	ex.ex.Fail(0)
	n, err = b.Post()
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, drain(t, f.scq), 3)
	wcs := make([]WC, 4)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = b.Post()
		_, _ = f.scq.Poll(wcs)
	}))
}

// TestPairExtendedPost: the extended way is refused where the provider is wrong,
// with the version that mended it, and moves data where it is right.
func TestPairExtendedPost(t *testing.T) {
	needRDMA(t)
	a, b := newEnd(t, endConfig{}), newEnd(t, endConfig{})
	cfg := QPConfig{SendCQ: a.scq, RecvCQ: a.rcq, MaxSendSGE: 2, ExtendedPost: true}
	if !cgo.ExtendedPostsRight() {
		_, err := a.pd.CreateQP(cfg)
		require.ErrorIs(t, err, syscall.ENOSYS)
		require.ErrorContains(t, err, "needs rdma-core 64 or later")
		return
	}
	a.addQP(t, cfg)
	connect(t, a, b, ConnectConfig{})
	fill(a.mr.Bytes()[:100], 4)
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 60), a.mr.SGE(60, 40)}}))
	waitOK(t, a.scq, 1)
	requirePattern(t, b.mr.Bytes()[:100], 4)

	w := SendWR{Op: OpAtomicWrite, Remote: b.mr.Remote(8), Value: 1<<63 | 5}
	if err := a.ctx.Can(RC, OpAtomicWrite); err != nil { // before kernel 6.2
		t.Log(err)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorIs(t, a.qp.PostSend(w), errors.ErrUnsupported)
		return
	}
	require.NoError(t, a.qp.PostSend(w))
	wc := waitOK(t, a.scq, 1)[0]
	require.Equal(t, WCAtomicWrite, wc.Opcode())
	require.Equal(t, w.Value, binary.NativeEndian.Uint64(b.mr.Bytes()[8:16]))
	requirePattern(t, b.mr.Bytes()[:8], 4)

	// FLUSH: of places, of a region; and of one that does not let it be.
	mr, err := b.pd.AllocMR(4096, allAccess|FlushGlobal)
	flushed := autoClose(t, mr, err)
	attr := QPAttr{Access: allAccess | FlushGlobal}
	require.NoError(t, b.qp.Modify(attr, AttrAccess))
	for _, length := range []int{100, 0} {
		fill(a.mr.Bytes()[:100], 5+length)
		require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, Flags: Unsignaled, Remote: flushed.Remote(7), SGEs: []SGE{a.mr.SGE(0, 100)}}))
		require.NoError(t, a.qp.PostSend(SendWR{Op: OpFlush, Remote: flushed.Remote(7), Length: length, Flush: FlushGlobal}))
		require.Equal(t, WCFlush, waitOK(t, a.scq, 1)[0].Opcode())
		requirePattern(t, flushed.Bytes()[7:107], 5+length)
	}
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpFlush, Remote: b.mr.Remote(0), Length: 8, Flush: FlushGlobal}))
	require.ErrorIs(t, wait(t, a.scq, 1)[0].Err(), WCRemAccessErr)
}

// extendable is one more queue pair of a bench.
type extendable struct {
	qp   *QP
	fake *fakeverbs.QP
	ex   *fakeverbs.Ex
}

func (e *extendable) free() {
	if e.ex != nil {
		e.ex.Free()
	}
	e.fake.Free()
}

func (b *bench) extendable(t testing.TB, extended bool) *extendable {
	t.Helper()
	num := uint32(40)
	if extended {
		num++
	}
	e := &extendable{fake: b.dev.NewQP(b.fscq, b.frcq, num, 16)}
	cfg := QPConfig{SendCQ: b.scq, RecvCQ: b.rcq, MaxSend: 16, MaxRecv: 16, MaxSendSGE: 2, MaxInline: 64, ExtendedPost: extended}
	if extended {
		e.ex = e.fake.Extend()
		cfg.fakeEx = e.ex.Handle()
	}
	var err error
	e.qp, err = NewQP(b.ctx, b.pd, cfg, func(cgo.PD, *cgo.QPInitAttr) (cgo.QP, error) { return e.fake.Handle(), nil }, b.gone)
	require.NoError(t, err)
	e.qp.Track(QPRTS, 16, 16)
	return e
}
