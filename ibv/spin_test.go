//go:build linux && cgo

package ibv

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPatience: what took long is not waited for, and what did not is again.
func TestPatience(t *testing.T) {
	p := patience{limit: 640}
	require.Equal(t, time.Duration(640), p.now())
	for _, s := range []struct{ took, then time.Duration }{
		{641, 320}, {5000, 160}, {5000, 80}, {5000, 40}, {5000, 20}, {5000, 10}, {5000, 10}, // a 64th at least
		{100, 200}, {640, 640}, {1, 10}, {300, 600}, {700, 300},
	} {
		p.learn(s.took)
		require.Equal(t, s.then, p.now(), "after %v", s.took)
	}
}

func TestMaxSpinners(t *testing.T) {
	places := func() (n int) {
		for maySpin() {
			n++
		}
		for range n {
			spun()
		}
		return n
	}
	require.Zero(t, SetMaxSpinners(3))
	t.Cleanup(func() { SetMaxSpinners(0) })
	require.Equal(t, 3, places())
	require.Equal(t, 3, SetMaxSpinners(-5))
	require.Zero(t, places())
	require.Equal(t, -1, SetMaxSpinners(0))
	require.Equal(t, runtime.GOMAXPROCS(0)-1, places())
	require.Zero(t, spinners.Load())
}

// TestWaitSpin: what is there is had without arming; what is not is slept for.
func TestWaitSpin(t *testing.T) {
	SetMaxSpinners(1) // whatever the machine has
	t.Cleanup(func() { SetMaxSpinners(0) })
	f := newBench(t, benchConfig{})
	b := withBell(f.scq)
	f.scq.patience.limit = maxSpin
	m := f.mr(t, 64, LocalWrite)
	post := func(id uint64) { require.NoError(t, f.qp.PostSend(SendWR{ID: id, SGEs: []SGE{m.SGE(0, 8)}})) }
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wcs [2]WC

	post(1)
	n, err := f.scq.Wait(ctx, wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.False(t, f.fscq.Armed())
	require.Equal(t, maxSpin, f.scq.patience.now(), "nothing is learnt from what was there")

	n, spent := f.scq.spin(wcs[:])
	require.Zero(t, n)
	require.GreaterOrEqual(t, spent, maxSpin)

	// Nothing comes within the limit: Wait arms, sleeps and learns.
	f.fqp.Hold(true)
	post(2)
	go func() {
		for !f.fscq.Armed() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * maxSpin)
		f.fqp.Complete(false, 1, 0, 0, 0)
		b.ring()
	}()
	n, err = f.scq.Wait(ctx, wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, uint64(2), wcs[0].ID())
	require.Equal(t, maxSpin/2, f.scq.patience.now())
	require.Zero(t, spinners.Load())

	// No place to spin: straight to sleep.
	SetMaxSpinners(-1)
	n, spent = f.scq.spin(wcs[:])
	require.Zero(t, n)
	require.Zero(t, spent)

	f.scq.rec.Shut()
	SetMaxSpinners(1)
	_, err = f.scq.Wait(ctx, wcs[:])
	require.ErrorIs(t, err, ErrClosed)
	f.scq.rec.Reopen()
}
