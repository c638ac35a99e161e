//go:build linux && cgo

package ibv

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// withBell lets a CQ of the fake provider be waited for; the test rings.
func withBell(c *CQ) *bell {
	c.bell = newBell()
	return c.bell
}

// TestWaitFindsWhatIsThere: a completion between a poll and arming raises no
// event, so Wait has to look again after it armed.
func TestWaitFindsWhatIsThere(t *testing.T) {
	f := newBench(t, benchConfig{})
	withBell(f.scq)
	m := f.mr(t, 64, LocalWrite)
	require.NoError(t, f.qp.PostSend(SendWR{ID: 9, SGEs: []SGE{m.SGE(0, 8)}}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // completions come first, whatever the context says
	var wcs [2]WC
	n, err := f.scq.Wait(ctx, wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, uint64(9), wcs[0].ID())
	require.False(t, f.fscq.Armed())
	n, err = f.scq.Wait(ctx, wcs[:])
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)
	require.True(t, f.fscq.Armed())
}

// TestArmRace: a completion that comes in between the first look and arming is
// returned, though no event will ever tell of it.
func TestArmRace(t *testing.T) {
	f := newBench(t, benchConfig{})
	withBell(f.scq)
	f.fqp.Hold(true)
	m := f.mr(t, 64, LocalWrite)
	require.NoError(t, f.qp.PostSend(SendWR{ID: 4, SGEs: []SGE{m.SGE(0, 8)}}))
	f.fscq.CompleteOnArm(f.fqp)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wcs [2]WC
	n, err := f.scq.Wait(ctx, wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, uint64(4), wcs[0].ID())
}

// TestWaitersPassTheBell: one notification, several waiters and more completions
// than one of them takes: each gets its own.
func TestWaitersPassTheBell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBench(t, benchConfig{depth: 16})
		bell := withBell(f.scq)
		m := f.mr(t, 64, LocalWrite)
		b := sendBatch(t, f.qp, BatchConfig{Requests: 8})
		for i := range 8 {
			require.NoError(t, b.Send(i, m.SGE(0, 8)))
		}
		var got atomic.Int32
		for range 8 {
			go func() {
				var wcs [1]WC
				if n, err := f.scq.Wait(context.Background(), wcs[:]); n != 1 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
				got.Add(1)
			}()
		}
		synctest.Wait() // all asleep
		require.Zero(t, got.Load())
		require.NoError(t, second(b.Post()))
		bell.ring()
		synctest.Wait()
		require.Equal(t, int32(8), got.Load())
	})
}

// TestWaitEnds: by the context's deadline, by Close, by a dead channel.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBench(t, benchConfig{})
		var wcs [1]WC
		wait := func(c *CQ, ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() { done <- second(c.Wait(ctx, wcs[:])) }()
			synctest.Wait()
			return done
		}
		withBell(f.scq)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, <-wait(f.scq, ctx), context.DeadlineExceeded)

		c, _ := f.newCQ(t, 4)
		withBell(c)
		done := wait(c, context.Background())
		require.NoError(t, c.Close())
		err := <-done
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, os.ErrClosed)
		require.ErrorIs(t, second(c.Wait(context.Background(), wcs[:])), ErrClosed)

		c, _ = f.newCQ(t, 4)
		bell := withBell(c)
		done = wait(c, context.Background())
		bell.fail(syscall.ENODEV)
		err = <-done
		require.ErrorIs(t, err, ErrCQFailed)
		require.ErrorIs(t, err, syscall.ENODEV)
		require.NoError(t, c.Close())
	})
}

// TestWaitRefusals: what can never return anything.
func TestWaitRefusals(t *testing.T) {
	f := newBench(t, benchConfig{})
	var wcs [1]WC
	require.ErrorIs(t, second(f.scq.Wait(context.Background(), wcs[:])), ErrNoChannel)
	withBell(f.scq)
	require.ErrorIs(t, second(f.scq.Wait(context.Background(), nil)), ErrInvalid)
	n, err := f.scq.Poll(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	f.fscq.FailNotify(syscall.EOPNOTSUPP)
	require.ErrorIs(t, second(f.scq.Wait(context.Background(), wcs[:])), errors.ErrUnsupported)
	f.fscq.FailPoll(-2)
	err = second(f.scq.Poll(wcs[:]))
	require.ErrorIs(t, err, ErrCQFailed)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, second(f.scq.Wait(context.Background(), wcs[:])), ErrCQFailed)
	f.fscq.FailPoll(0)
	require.NoError(t, second(f.scq.Poll(wcs[:])))
}

// TestWaitAllocatesNothing, neither with a completion at hand nor asleep.
func TestWaitAllocatesNothing(t *testing.T) {
	f := newBench(t, benchConfig{})
	bell := withBell(f.scq)
	m := f.mr(t, 64, LocalWrite)
	b := sendBatch(t, f.qp, BatchConfig{})
	require.NoError(t, b.Send(0, m.SGE(0, 8)))
	var wcs [4]WC
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := b.Post(); err != nil {
			t.Fatal(err)
		}
		if n, err := f.scq.Wait(ctx, wcs[:]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}))
	// Asleep: the waiter is woken by the bell alone, and finds a completion the
	// second time.
	ask, answer := make(chan struct{}), make(chan struct{})
	go func() {
		for range ask {
			for bell.waiters.Load() == 0 {
				runtime.Gosched()
			}
			if _, err := b.Post(); err != nil {
				t.Error(err)
			}
			bell.ring()
			answer <- struct{}{}
		}
	}()
	n := testing.AllocsPerRun(100, func() {
		ask <- struct{}{}
		if n, err := f.scq.Wait(ctx, wcs[:]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		<-answer
	})
	close(ask)
	if asan { // package context allocates then
		n--
	}
	require.Zero(t, n)
}

// TestPollAndCloseRace: Close under the hands of pollers, posters and waiters is
// an error for them, nothing worse.
func TestPollAndCloseRace(t *testing.T) {
	for range 50 {
		f := newBench(t, benchConfig{})
		withBell(f.scq)
		m := f.mr(t, 64, LocalWrite)
		var wg sync.WaitGroup
		worker := func(call func() error) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for {
					err := call()
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, ErrQueueFull) && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
						return
					}
				}
			}()
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var a, b [2]WC
		sge := []SGE{m.SGE(0, 8)}
		worker(func() error { return second(f.scq.Poll(a[:])) })
		worker(func() error { return second(f.scq.Wait(ctx, b[:])) })
		worker(func() error { return f.qp.PostSend(SendWR{SGEs: sge}) })
		worker(func() error { return f.qp.PostRecv(RecvWR{SGEs: sge}) })
		require.NoError(t, f.qp.Close())
		require.NoError(t, f.scq.Close())
		wg.Wait()
	}
}
