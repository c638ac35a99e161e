//go:build linux && cgo

package ibv

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPostWait: the call is over when what is wanted is there, when something
// failed, or in time.
func TestPostWait(t *testing.T) {
	t.Cleanup(func() { SetMaxSpinners(0) })
	f := newBench(t, benchConfig{depth: 16})
	m := f.mr(t, 64, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 2})
	for i := range 2 {
		require.NoError(t, s.Send(i, m.SGE(i, 1)))
	}
	wcs := make([]WC, 8)
	f.fqp.Hold(true)
	defer f.fqp.Hold(false)
	for name, c := range map[string]struct {
		spinners, want int
		spin           time.Duration
		complete       []int // statuses, before the call
		polled         int
		atLeast        time.Duration
	}{
		"all there":        {1, 2, maxSpin, []int{0, 0}, 2, 0},
		"more than wanted": {1, 1, maxSpin, []int{0, 0}, 2, 0},
		"one missing":      {1, 2, maxSpin, []int{0}, 1, maxSpin},
		"nothing":          {1, 1, time.Second, nil, 0, maxSpin},
		"more than room":   {1, 100, maxSpin, []int{0, 0}, 2, maxSpin},
		"not wanted":       {1, 0, maxSpin, []int{0}, 1, 0},
		"no time":          {1, 2, 0, []int{0}, 1, 0},
		"no place":         {-1, 2, maxSpin, []int{0}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			SetMaxSpinners(c.spinners)
			_, err := s.Post()
			require.NoError(t, err)
			for _, status := range c.complete {
				require.Equal(t, 1, f.fqp.Complete(false, 1, status, 0, 0))
			}
			begin := time.Now()
			accepted, polled, err := s.PostWait(f.scq, wcs, c.want, c.spin)
			took := time.Since(begin)
			require.NoError(t, err)
			require.Equal(t, []int{2, c.polled}, []int{accepted, polled})
			require.GreaterOrEqual(t, took, c.atLeast)
			require.Zero(t, spinners.Load())

			// The rest, by the call for that.
			f.fqp.Complete(false, 4, 0, 0, 0)
			rest, err := f.scq.PollSpin(wcs, 4-polled, maxSpin)
			require.NoError(t, err)
			require.Equal(t, 4, polled+rest)
		})
	}

	// What failed ends it, and a refused post does not wait.
	SetMaxSpinners(1)
	_, err := s.Post()
	require.NoError(t, err)
	f.fqp.Complete(false, 1, int(WCRetryExcErr), 0, 0)
	_, polled, err := s.PostWait(f.scq, wcs, 2, time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, polled)
	require.Error(t, wcs[0].Err())
	f.scq.rec.Shut()
	_, err = f.scq.PollSpin(wcs, 1, maxSpin)
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = s.PostWait(f.scq, wcs, 1, maxSpin)
	require.ErrorIs(t, err, ErrClosed)
	f.scq.rec.Reopen()
	_, _, err = (*SendBatch)(nil).PostWait(f.scq, wcs, 1, maxSpin)
	require.ErrorIs(t, err, ErrClosed)
	_, err = (*CQ)(nil).PollSpin(wcs, 1, maxSpin)
	require.ErrorIs(t, err, ErrClosed)
}
