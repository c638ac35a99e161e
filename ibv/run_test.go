//go:build linux && cgo

package ibv

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

func list(t *testing.T, f *bench, n int) *SendBatch {
	t.Helper()
	m := f.mr(t, 64, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: n})
	for i := range n {
		require.NoError(t, s.Send(i, m.SGE(i%64, 1)))
	}
	return s
}

// TestRun works lists off of every length near an interval's and a window's.
func TestRun(t *testing.T) {
	f := newBench(t, benchConfig{depth: 16})
	for _, n := range []int{1, 2, 15, 16, 17, 31, 33, 1000} {
		s := list(t, f, n)
		for _, cfg := range []RunConfig{{}, {Interval: 1}, {Interval: 5}, {Window: 1}, {Window: 7, Interval: 7}, {Spin: -1}} {
			before := f.fqp.Posted(false)
			done, err := s.Run(context.Background(), cfg)
			require.NoError(t, err)
			require.Equal(t, n, done)
			require.Equal(t, n, f.fqp.Posted(false)-before)
			posted, done := s.Progress()
			require.Equal(t, []int{n, n}, []int{posted, done})
			require.False(t, f.fscq.Overrun())
		}
	}
	// The chain is whole afterwards, for an ordinary post.
	s := list(t, f, 6)
	_, err := s.Run(context.Background(), RunConfig{Interval: 4})
	require.NoError(t, err)
	for i := range 6 {
		s.SetFlags(i, 0)
	}
	n, err := s.Post()
	require.NoError(t, err)
	require.Equal(t, 6, n)
	require.Len(t, drain(t, f.scq), 6)
}

// TestRunWindow holds the device: no more than the window is posted, and only
// completions let the engine go on.
func TestRunWindow(t *testing.T) {
	f := newBench(t, benchConfig{depth: 16})
	s := list(t, f, 40)
	f.fqp.Hold(true)
	cfg := RunConfig{Window: 12, Interval: 4}
	require.NoError(t, s.startRun(&cfg))
	r := s.run.Load().r
	for _, want := range []int{12, 16, 20, 24, 28, 32, 36, 40, 40, 40} {
		require.Equal(t, cgo.RunIdle, r.Step(0, true))
		require.True(t, f.fscq.Armed())
		posted, done := s.Progress()
		require.Equal(t, []int{want, min(want, f.fqp.Posted(false))}, []int{posted, f.fqp.Posted(false)})
		require.LessOrEqual(t, posted-done, 12)
		require.Equal(t, 4, f.fqp.Complete(false, 4, 0, 0, 0))
	}
	require.Equal(t, cgo.RunDone, r.Step(0, false))
	done, err := s.endRun(nil)
	require.NoError(t, err)
	require.Equal(t, 40, done)
	f.fqp.Hold(false)
}

// TestRunErrors: a request that fails, and a post that is refused, are reported
// with how many succeeded before.
func TestRunErrors(t *testing.T) {
	for _, bad := range []int{0, 1, 3, 4, 10, 11} {
		f := newBench(t, benchConfig{depth: 16})
		s := list(t, f, 40)
		f.fqp.Hold(true)
		cfg := RunConfig{Window: 12, Interval: 4}
		require.NoError(t, s.startRun(&cfg))
		r := s.run.Load().r
		require.Equal(t, cgo.RunIdle, r.Step(0, false))
		f.fqp.Complete(false, bad, 0, 0, 0)
		f.fqp.Complete(false, 1, int(WCRetryExcErr), 0, 0)
		if bad < 11 {
			require.Equal(t, cgo.RunIdle, r.Step(0, false), "not drained")
		}
		f.fqp.Complete(false, 100, int(WCFlushErr), 0, 0)
		require.Equal(t, cgo.RunDone, r.Step(0, false))
		done, err := s.endRun(nil)
		var e *WCError
		require.ErrorAs(t, err, &e)
		require.Equal(t, WCRetryExcErr, e.Status)
		require.Equal(t, uint64(bad), e.ID)
		require.Equal(t, bad, done)
		posted, _ := s.Progress()
		require.Equal(t, posted, f.fqp.Posted(false))
		require.Equal(t, QPErr, f.qp.State())
	}

	f := newBench(t, benchConfig{depth: 16})
	s := list(t, f, 40)
	f.fqp.Fail(false, 9, syscall.ENOMEM, false)
	done, err := s.Run(context.Background(), RunConfig{Interval: 4})
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Equal(t, 8, done)
	posted, _ := s.Progress()
	require.Equal(t, 9, posted)
}

// TestRunStops: a context that ended posts nothing further, and the run still
// waits for what is in flight.
func TestRunStops(t *testing.T) {
	f := newBench(t, benchConfig{depth: 16})
	s := list(t, f, 40)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	done, err := s.Run(ctx, RunConfig{})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, done)
	require.Zero(t, f.fqp.Posted(false))

	f.fqp.Hold(true)
	cfg := RunConfig{Window: 8, Interval: 4}
	require.NoError(t, s.startRun(&cfg))
	r := s.run.Load().r
	require.Equal(t, cgo.RunIdle, r.Step(0, false))
	r.Stop = 1
	f.fqp.Complete(false, 4, 0, 0, 0)
	require.Equal(t, cgo.RunIdle, r.Step(0, false))
	f.fqp.Complete(false, 4, 0, 0, 0)
	require.Equal(t, cgo.RunDone, r.Step(0, false))
	done, err = s.endRun(context.Canceled)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 8, done)
	require.Equal(t, 8, f.fqp.Posted(false))
	f.fqp.Hold(false)
}

// TestRunRefusals: what the engine cannot do safely it does not start.
func TestRunRefusals(t *testing.T) {
	ctx := context.Background()
	f := newBench(t, benchConfig{depth: 16})
	s := list(t, f, 4)
	for _, cfg := range []RunConfig{{Window: -1}, {Window: 17}, {Interval: -1}, {Window: 4, Interval: 5}, {Spin: 1 << 40}} {
		_, err := s.Run(ctx, cfg)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err := s.Post() // signalled, and not polled
	require.NoError(t, err)
	_, err = s.Run(ctx, RunConfig{})
	require.ErrorIs(t, err, ErrBusy)
	drain(t, f.scq)
	_, err = sendBatch(t, f.qp, BatchConfig{}).Run(ctx, RunConfig{})
	require.ErrorIs(t, err, ErrInvalid, "no operation")
	_, err = (*SendBatch)(nil).Run(ctx, RunConfig{})
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := s.Run(ctx, RunConfig{}); err != nil {
			t.Fatal(err)
		}
	}))
	require.NoError(t, f.qp.Close())
	_, err = s.Run(ctx, RunConfig{})
	require.ErrorIs(t, err, ErrClosed)

	one := newBench(t, benchConfig{one: true})
	_, err = list(t, one, 4).Run(ctx, RunConfig{})
	require.ErrorIs(t, err, ErrInvalid)
}

// TestRunClosed: the queue pair is closed beneath a run, which may spin, sleep or
// yield meanwhile.
func TestRunClosed(t *testing.T) {
	for name, asleep := range map[string]bool{"asleep": true, "without a channel": false} {
		t.Run(name, func(t *testing.T) {
			f := newBench(t, benchConfig{depth: 16})
			if asleep {
				withBell(f.scq)
			}
			s := list(t, f, 40)
			f.fqp.Hold(true)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := s.Run(ctx, RunConfig{Window: 8})
				ended <- err
			}()
			require.Eventually(t, func() bool { posted, _ := s.Progress(); return posted == 8 }, 20*time.Second, time.Millisecond)
			require.NoError(t, f.qp.Close())
			require.ErrorIs(t, <-ended, ErrClosed)
			posted, done := s.Progress()
			require.Equal(t, []int{8, 0}, []int{posted, done})
		})
	}
}
