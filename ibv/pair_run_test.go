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

// halfWay runs a list of which the peer takes some and keeps the rest waiting,
// until then.
func halfWay(t *testing.T, a, b *end) (s *SendBatch, ended chan error) {
	t.Helper()
	const n, taken = 200, 16
	for range taken {
		require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 64)}}))
	}
	s = sendBatch(t, a.qp, BatchConfig{Requests: n})
	for i := range n {
		require.NoError(t, s.Send(i, a.mr.SGE(0, 64)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	ended = make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, RunConfig{Window: 32, Interval: 8})
		ended <- err
	}()
	require.Eventually(t, func() bool { _, done := s.Progress(); return done == taken }, 20*time.Second, time.Millisecond)
	return s, ended
}

// TestPairRunClosed closes the queue pair in the middle of a list.
func TestPairRunClosed(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxSend: 32}})
	s, ended := halfWay(t, a, b)
	require.NoError(t, a.qp.Close())
	require.ErrorIs(t, <-ended, ErrClosed)
	posted, done := s.Progress()
	require.Equal(t, []int{48, 16}, []int{posted, done})
	require.NoError(t, a.mr.Close())
}

// TestPairRunPeerGone: the peer goes in the middle of a list, and each request
// either succeeded or is reported.
func TestPairRunPeerGone(t *testing.T) {
	needRDMA(t)
	cfg := endConfig{qp: QPConfig{MaxSend: 32}}
	a, b := newEnd(t, cfg), newEnd(t, cfg)
	connect(t, a, b, ConnectConfig{RetryCount: 2}) // so that it does not take long
	s, ended := halfWay(t, a, b)
	require.NoError(t, b.qp.ToError())
	var e *WCError
	require.ErrorAs(t, <-ended, &e)
	posted, done := s.Progress()
	require.Equal(t, uint64(done), e.ID)
	require.Equal(t, []int{48, 16}, []int{posted, done})
	// Nothing is left on its way, and the memory is free to go.
	require.Equal(t, QPErr, a.qp.State())
	require.Empty(t, drain(t, a.scq))
	require.NoError(t, a.mr.Close())
}
