//go:build linux && cgo

package ibv

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPostPoll: one call posts and polls, and says of each half what came of it.
func TestPostPoll(t *testing.T) {
	f := newBench(t, benchConfig{depth: 4})
	m := f.mr(t, 64, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 4})
	for i := range 4 {
		require.NoError(t, s.Send(i, m.SGE(i, 1)))
		s.SetID(i, uint64(10+i))
	}
	wcs := make([]WC, 8)
	do := func(from, n int, room []WC) (int, int, []uint64, error) {
		accepted, polled, err := s.PostPollRange(from, n, f.scq, room)
		var ids []uint64
		for i := range wcs[:polled] {
			require.NoError(t, wcs[i].Err())
			ids = append(ids, wcs[i].ID())
		}
		return accepted, polled, ids, err
	}
	accepted, polled, ids, err := do(0, 4, wcs)
	require.NoError(t, err)
	require.Equal(t, []int{4, 4}, []int{accepted, polled})
	require.Equal(t, []uint64{10, 11, 12, 13}, ids)

	// No room, no requests.
	accepted, polled, _, err = do(1, 2, nil)
	require.NoError(t, err)
	require.Equal(t, []int{2, 0}, []int{accepted, polled})
	accepted, polled, ids, err = do(0, 0, wcs)
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, []int{accepted, polled})
	require.Equal(t, []uint64{11, 12}, ids)

	// A full queue polls all the same, and goes on.
	f.fqp.Hold(true)
	_, _, _, err = do(0, 4, wcs)
	require.NoError(t, err)
	require.Equal(t, 3, f.fqp.Complete(false, 3, 0, 0, 0))
	accepted, polled, ids, err = do(0, 3, wcs)
	require.ErrorIs(t, err, ErrQueueFull)
	require.Equal(t, []int{0, 3}, []int{accepted, polled})
	require.Equal(t, []uint64{10, 11, 12}, ids)
	accepted, polled, _, err = do(0, 3, wcs)
	require.NoError(t, err)
	require.Equal(t, []int{3, 0}, []int{accepted, polled})
	require.Equal(t, 4, f.fqp.Complete(false, 4, 0, 0, 0))
	f.fqp.Hold(false)

	// The provider refuses the third; those before it and the held ones are polled.
	f.fqp.Fail(false, 2, syscall.EIO, false)
	_, err = f.scq.Poll(wcs[:4])
	require.NoError(t, err)
	accepted, polled, ids, err = do(0, 4, wcs)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, []int{2, 2}, []int{accepted, polled})
	require.Equal(t, []uint64{10, 11}, ids)

	// A poll that fails does not hide that the post went through.
	f.fscq.FailPoll(-7)
	accepted, polled, _, err = do(0, 1, wcs)
	require.ErrorIs(t, err, ErrCQFailed)
	require.Equal(t, []int{1, 0}, []int{accepted, polled})
	f.fscq.FailPoll(0)
	require.Len(t, drain(t, f.scq), 1)

	posted := f.fqp.Posted(false)
	for _, r := range [][2]int{{-1, 2}, {0, 5}, {4, 1}, {2, -1}} {
		_, _, _, err = do(r[0], r[1], wcs)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, _, err = s.PostPoll(nil, wcs)
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = (*SendBatch)(nil).PostPoll(f.scq, wcs)
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = (*RecvBatch)(nil).PostPoll(f.scq, wcs)
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, posted, f.fqp.Posted(false))
}

// TestRepostPoll takes messages in a ring of receives, each turn reposting what
// the last one took.
func TestRepostPoll(t *testing.T) {
	const ring, messages = 8, 100
	f := newBench(t, benchConfig{depth: ring})
	m := f.mr(t, ring*8, LocalWrite)
	r := recvBatch(t, f.qp, BatchConfig{Requests: ring})
	for i := range ring {
		require.NoError(t, r.Recv(i, m.SGE(8*i, 8)))
		r.SetID(i, uint64(i))
	}
	wcs := make([]WC, 3)
	_, err := r.Post()
	require.NoError(t, err)
	next, last := 0, 0
	for got := 0; got < messages; {
		f.fqp.Complete(true, 1+got%3, 0, 0, 8)
		n := min(last, ring-next)
		accepted, polled, err := r.PostPollRange(next, n, f.rcq, wcs)
		require.NoError(t, err)
		require.Equal(t, n, accepted)
		next, last = (next+n)%ring, last-n+polled
		for i := range wcs[:polled] {
			require.Equal(t, uint64(got%ring), wcs[i].ID())
			got++
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		f.fqp.Complete(true, 1, 0, 0, 8)
		if _, polled, err := r.PostPollRange(0, min(last, 1), f.rcq, wcs); err != nil || polled == 0 {
			t.Fatal(polled, err)
		} else {
			last += polled - min(last, 1)
		}
	}))
}
