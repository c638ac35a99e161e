//go:build linux && cgo

package ibv

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

// ringEnd is a queue pair of the fake provider whose sends complete into a ring.
type ringEnd struct {
	cq  *CQ
	fcq *fakeverbs.CQ
	qp  *QP
	fqp *fakeverbs.QP
}

func newRing(t testing.TB, f *bench, cfg RingConfig) *CompletionRing {
	t.Helper()
	require.NoError(t, cfg.check("test", "fake0"))
	r, err := f.ctx.startRing(cfg, cgo.CompChannel{}, f.gone)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func (b *bench) onRing(t testing.TB, r *CompletionRing, num uint32, depth int) ringEnd {
	t.Helper()
	fcq := b.dev.NewCQ(2 * depth)
	t.Cleanup(fcq.Free)
	cq := &CQ{ctx: b.ctx, ring: r}
	require.NoError(t, cq.finish(fcq.Handle(), b.gone, b.ctx.node, r.node))
	qp, fqp := b.newQP(t, cq, b.rcq, fcq, b.frcq, num, QPConfig{MaxSend: depth, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1})
	qp.Track(QPRTS, 16, 16)
	t.Cleanup(func() {
		require.NoError(t, qp.Close())
		require.NoError(t, cq.Close())
	})
	return ringEnd{cq, fcq, qp, fqp}
}

// TestRing: what completes on two CQs comes through a ring that is smaller than
// either, each completion once and in the order of its CQ.
func TestRing(t *testing.T) {
	f := newBench(t, benchConfig{})
	r := newRing(t, f, RingConfig{Size: 5, Spin: time.Nanosecond}) // 8
	ends := []ringEnd{f.onRing(t, r, 100, 64), f.onRing(t, r, 101, 64)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	next, wcs := map[uint32]uint64{}, make([]WC, 3)
	for range 20 {
		const n = 30
		for i := range n {
			for _, e := range ends {
				require.NoError(t, e.qp.PostSend(SendWR{ID: next[e.qp.Num()] + uint64(i)}))
			}
		}
		for got := 0; got < 2*n; {
			k, err := r.Wait(ctx, wcs)
			require.NoError(t, err)
			for i := range wcs[:k] {
				require.NoError(t, wcs[i].Err())
				require.Equal(t, next[wcs[i].QPNum()], wcs[i].ID())
				next[wcs[i].QPNum()]++
			}
			got += k
		}
	}
	require.Equal(t, map[uint32]uint64{100: 600, 101: 600}, next)
	require.Positive(t, r.Stalls())
	n, err := r.Poll(wcs)
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestRingFair: a CQ that has much to tell keeps another waiting for one turn only.
func TestRingFair(t *testing.T) {
	f := newBench(t, benchConfig{})
	r := newRing(t, f, RingConfig{Size: 16})
	busy, other := f.onRing(t, r, 100, 128), f.onRing(t, r, 101, 1)
	for range 128 {
		require.NoError(t, busy.qp.PostSend(SendWR{}))
	}
	require.Eventually(t, func() bool { return r.Stalls() > 0 }, 20*time.Second, time.Millisecond)
	// The ring is full of the one's.
	require.NoError(t, other.qp.PostSend(SendWR{}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wcs [1]WC
	at := -1
	for i := range 129 {
		_, err := r.Wait(ctx, wcs[:])
		require.NoError(t, err)
		if wcs[0].QPNum() == 101 {
			at = i
		}
	}
	require.GreaterOrEqual(t, at, 16)
	require.Less(t, at, 16+2*16)
}

// TestRingWait: the reader sleeps, and the context, a completion, a failure and
// a Close wake it.
func TestRingWait(t *testing.T) {
	f := newBench(t, benchConfig{})
	r := newRing(t, f, RingConfig{Spin: time.Nanosecond})
	e := f.onRing(t, r, 100, 4)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wcs [2]WC

	soon, stop := context.WithTimeout(ctx, 10*time.Millisecond)
	defer stop()
	_, err := r.Wait(soon, wcs[:])
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = r.Wait(ctx, nil)
	require.ErrorIs(t, err, ErrInvalid)
	n, err := r.Poll(nil)
	require.NoError(t, err)
	require.Zero(t, n)

	// Two sleep, and each gets one.
	got := make(chan error, 2)
	for range 2 {
		go func() {
			var wcs [1]WC
			_, err := r.Wait(ctx, wcs[:])
			got <- err
		}()
	}
	require.Eventually(t, func() bool { return r.bell.waiters.Load() == 2 }, 20*time.Second, time.Millisecond)
	for range 2 {
		require.NoError(t, e.qp.PostSend(SendWR{}))
		require.NoError(t, <-got)
	}

	go func() {
		_, err := r.Wait(ctx, wcs[:])
		got <- err
	}()
	require.Eventually(t, func() bool { return r.bell.waiters.Load() == 1 }, 20*time.Second, time.Millisecond)
	e.fcq.FailPoll(-1)
	require.ErrorIs(t, <-got, ErrCQFailed)
}

func TestRingClose(t *testing.T) {
	f := newBench(t, benchConfig{})
	r := newRing(t, f, RingConfig{})
	e := f.onRing(t, r, 100, 4)
	var busy *BusyError
	require.ErrorAs(t, r.Close(), &busy)
	require.Contains(t, busy.Error(), e.cq.node.name)
	require.NoError(t, e.qp.PostSend(SendWR{}))
	var wcs [2]WC
	n, err := r.Wait(t.Context(), wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, e.qp.Close())
	require.NoError(t, e.cq.Close())

	waits := make(chan error, 1)
	go func() {
		_, err := r.Wait(context.Background(), wcs[:])
		waits <- err
	}()
	require.Eventually(t, func() bool { return r.bell.waiters.Load() == 1 }, 20*time.Second, time.Millisecond)
	require.NoError(t, r.Close())
	require.ErrorIs(t, <-waits, ErrClosed)
	require.NoError(t, r.Close())
	_, err = r.Poll(wcs[:])
	require.ErrorIs(t, err, ErrClosed)
}

func TestRingRefusals(t *testing.T) {
	f := newBench(t, benchConfig{})
	r := newRing(t, f, RingConfig{})
	for _, cfg := range []RingConfig{{Size: -1}, {Size: 1<<24 + 1}, {Spin: -1}, {Spin: time.Second + 1}} {
		_, err := f.ctx.NewCompletionRing(cfg)
		require.ErrorIs(t, err, ErrInvalid, "%+v", cfg)
	}
	_, err := f.ctx.CreateCQ(CQConfig{Ring: r, Channel: new(CompChannel)})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = f.ctx.CreateCQ(CQConfig{Ring: new(CompletionRing)})
	require.ErrorIs(t, err, ErrClosed)
	e := f.onRing(t, r, 100, 4)
	b := sendBatch(t, e.qp, BatchConfig{})
	require.NoError(t, b.Send(0))
	_, err = b.Run(t.Context(), RunConfig{})
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "ring")
	require.False(t, errors.Is(err, ErrBusy))
}

func TestRingAllocates(t *testing.T) {
	f := newBench(t, benchConfig{})
	r := newRing(t, f, RingConfig{})
	e := f.onRing(t, r, 100, 64)
	b := sendBatch(t, e.qp, BatchConfig{Requests: 64})
	for i := range b.Len() {
		require.NoError(t, b.Send(i))
	}
	wcs := make([]WC, 64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, err := b.Post()
		if err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 64; {
			n, err := r.Wait(t.Context(), wcs)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
	}))
}
