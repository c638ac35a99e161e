//go:build linux && cgo

package ibv

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPairRun lets the engine write real data, and a combined call read it back.
func TestPairRun(t *testing.T) {
	const n, size = 500, 100
	a, b := newPair(t, endConfig{qp: QPConfig{MaxSend: 32}})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	fill(a.mr.Bytes()[:n*size], 7)
	s := sendBatch(t, a.qp, BatchConfig{Requests: n})
	for i := range n {
		require.NoError(t, s.Write(i, b.mr.Remote(i*size), a.mr.SGE(i*size, size)))
	}
	done, err := s.Run(ctx, RunConfig{Window: 32})
	require.NoError(t, err)
	require.Equal(t, n, done)
	requirePattern(t, b.mr.Bytes()[:n*size], 7)

	back := sendBatch(t, a.qp, BatchConfig{Requests: 4})
	clear(a.mr.Bytes()[:4*size])
	for i := range 4 {
		require.NoError(t, back.Read(i, b.mr.Remote(i*size), a.mr.SGE(i*size, size)))
	}
	wcs := make([]WC, 8)
	accepted, got, err := back.PostPoll(a.scq, wcs)
	require.NoError(t, err)
	require.Equal(t, 4, accepted)
	if got < 4 {
		waitOK(t, a.scq, 4-got)
	}
	requirePattern(t, a.mr.Bytes()[:4*size], 7)
}

// TestPairTransfer moves memory that is longer than the queue is deep, there and
// back, while completions are waited for with and without spinning.
func TestPairTransfer(t *testing.T) {
	const size, piece = 200_001, 1000
	a, b := newPair(t, endConfig{mr: size, qp: QPConfig{MaxSend: 16}})
	for _, c := range []*CQ{a.scq, b.rcq} {
		c.patience.limit = maxSpin
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	fill(a.mr.Bytes(), 3)
	t.Cleanup(func() { SetMaxSpinners(0) })
	for _, spinners := range []int{-1, 1} {
		SetMaxSpinners(spinners)
		clear(b.mr.Bytes())
		out, err := a.qp.NewTransfer(a.mr.SGE(0, size), b.mr.Remote(0), TransferConfig{Piece: piece})
		require.NoError(t, err)
		done, err := out.Run(ctx, RunConfig{})
		require.NoError(t, err)
		require.Equal(t, size/piece+1, done)
		requirePattern(t, b.mr.Bytes(), 3)
		clear(a.mr.Bytes())
		back, err := a.qp.NewTransfer(a.mr.SGE(0, size), b.mr.Remote(0), TransferConfig{Read: true})
		require.NoError(t, err)
		_, err = back.Run(ctx, RunConfig{})
		require.NoError(t, err)
		requirePattern(t, a.mr.Bytes(), 3)

		for i := range 50 {
			require.NoError(t, b.qp.PostRecv(RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(0, 8)}}))
			require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(0, 8)}}))
			require.Equal(t, uint64(i), waitOK(t, b.rcq, 1)[0].ID())
			waitOK(t, a.scq, 1)
		}
	}
}

// TestPairRunClosed closes the queue pair in the middle of a list.
func TestPairRunClosed(t *testing.T) {
	const n = 20000
	a, b := newPair(t, endConfig{qp: QPConfig{MaxSend: 32}})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	s := sendBatch(t, a.qp, BatchConfig{Requests: n})
	for i := range n {
		require.NoError(t, s.Write(i, b.mr.Remote(0), a.mr.SGE(0, 64)))
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, RunConfig{})
		ended <- err
	}()
	require.Eventually(t, func() bool { _, done := s.Progress(); return done > 0 }, 20*time.Second, time.Millisecond)
	require.NoError(t, a.qp.Close())
	require.ErrorIs(t, <-ended, ErrClosed)
	_, done := s.Progress()
	require.Less(t, done, n)
	require.NoError(t, a.mr.Close())
}

// TestPairRunPeerGone: the peer goes in the middle of a list, and each request
// either succeeded or is reported.
func TestPairRunPeerGone(t *testing.T) {
	const n = 20000
	needRDMA(t)
	cfg := endConfig{qp: QPConfig{MaxSend: 32}}
	a, b := newEnd(t, cfg), newEnd(t, cfg)
	connect(t, a, b, ConnectConfig{RetryCount: 2}) // so that it does not take long
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	s := sendBatch(t, a.qp, BatchConfig{Requests: n})
	for i := range n {
		require.NoError(t, s.Write(i, b.mr.Remote(0), a.mr.SGE(0, 64)))
	}
	type result struct {
		done int
		err  error
	}
	c := make(chan result, 1)
	go func() {
		done, err := s.Run(ctx, RunConfig{Window: 32})
		c <- result{done, err}
	}()
	require.Eventually(t, func() bool { _, done := s.Progress(); return done > 0 }, 20*time.Second, time.Millisecond)
	require.NoError(t, b.qp.ToError())
	r := <-c
	var e *WCError
	require.ErrorAs(t, r.err, &e)
	require.Equal(t, uint64(r.done), e.ID)
	require.Positive(t, r.done)
	posted, done := s.Progress()
	require.Equal(t, r.done, done)
	require.Greater(t, posted, done)
	require.Less(t, posted, n)
	// Nothing is left on its way, and the memory is free to go.
	require.Equal(t, QPErr, a.qp.State())
	require.Empty(t, drain(t, a.scq))
	require.NoError(t, a.mr.Close())
}
