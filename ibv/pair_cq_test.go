//go:build linux && cgo

package ibv

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPairExtendedCQ: an extended CQ says by PollEx what a plain one says by
// Poll, its accounts included, and can be polled plainly as well.
func TestPairExtendedCQ(t *testing.T) {
	needRDMA(t)
	a, b := newEnd(t, endConfig{}), newEnd(t, endConfig{})
	cq, err := b.ctx.CreateCQ(CQConfig{Size: 32, Extended: true, Channel: b.ch})
	b.rcq = autoClose(t, cq, err)
	b.addQP(t, QPConfig{MaxRecv: 8})
	connect(t, a, b, ConnectConfig{})
	wcs, extra := make([]WC, 8), make([]WCExtra, 8)
	n, err := b.rcq.PollEx(wcs, extra)
	require.NoError(t, err)
	require.Zero(t, n)
	for i := range 5 {
		require.NoError(t, b.qp.PostRecv(RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(0, 64)}}))
		require.NoError(t, a.qp.PostSend(SendWR{Op: OpSendImm, Imm: 0x0a0b0c00 + uint32(i), SGEs: []SGE{a.mr.SGE(0, 10+i)}}))
	}
	waitOK(t, a.scq, 5)
	require.ErrorIs(t, b.mr.Close(), ErrBusy)
	got := 0
	require.Eventually(t, func() bool {
		n, err := b.rcq.PollEx(wcs[got:], extra[:3])
		require.NoError(t, err)
		require.LessOrEqual(t, n, 3)
		got += n
		return got >= 4
	}, 20*time.Second, time.Millisecond)
	if got == 4 {
		wcs = append(wcs[:4], waitOK(t, b.rcq, 1)...)
	}
	for i := range 5 {
		require.NoError(t, wcs[i].Err())
		require.Equal(t, uint64(i), wcs[i].ID())
		require.Equal(t, b.qp.Num(), wcs[i].QPNum())
		require.Equal(t, WCRecv, wcs[i].Opcode())
		require.Equal(t, 10+i, wcs[i].Len())
		imm, ok := wcs[i].Imm()
		require.True(t, ok)
		require.Equal(t, 0x0a0b0c00+uint32(i), imm)
	}
	require.Zero(t, extra[0].Timestamp(), "not asked for")
	require.NoError(t, b.qp.PostRecv(RecvWR{ID: 77, SGEs: []SGE{b.mr.SGE(0, 64)}}))
	require.NoError(t, b.qp.ToError())
	require.Eventually(t, func() bool {
		n, err := b.rcq.PollEx(wcs[:1], extra)
		require.NoError(t, err)
		return n == 1
	}, 20*time.Second, time.Millisecond)
	require.ErrorIs(t, wcs[0].Err(), WCFlushErr)
	require.Equal(t, uint64(77), wcs[0].ID())

	_, err = b.scq.PollEx(wcs, extra)
	require.ErrorIs(t, err, ErrInvalid, "a plain one")
	_, err = b.ctx.CreateCQ(CQConfig{Extended: true, Fields: WithTimestamp})
	require.ErrorIs(t, err, errors.ErrUnsupported, "Soft-RoCE has no clock")
	_, err = b.ctx.CreateCQ(CQConfig{Fields: WithTimestamp})
	require.ErrorIs(t, err, ErrInvalid)
}

// TestPairResizeCQ: completions outlive a resize; a size over the device's limit is
// named; moderation is not for software.
func TestPairResizeCQ(t *testing.T) {
	a, b := newPair(t, endConfig{cqSize: 4})
	require.NoError(t, a.scq.Resize(100))
	require.GreaterOrEqual(t, a.scq.Size(), 100)
	for range 50 {
		require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}}))
	}
	require.NoError(t, a.scq.Resize(200))
	waitOK(t, a.scq, 50)
	dev, err := a.ctx.QueryDevice()
	require.NoError(t, err)
	err = a.scq.Resize(dev.MaxCQE + 1)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "the device does ")
	_, err = a.ctx.CreateCQ(CQConfig{Size: dev.MaxCQE + 1})
	require.ErrorContains(t, err, "the device does ")
	require.ErrorIs(t, a.scq.Resize(0), ErrInvalid)
	require.ErrorIs(t, a.scq.Moderate(10, time.Millisecond), errors.ErrUnsupported)
	require.ErrorIs(t, a.scq.Moderate(1<<16, 0), ErrInvalid)
	var none *CQ
	require.ErrorIs(t, none.Resize(1), ErrClosed)
	require.ErrorIs(t, none.Moderate(1, 0), ErrClosed)
}

// TestPairOverrun: a CQ that overran is of no use any more, whoever polls or waits.
func TestPairOverrun(t *testing.T) {
	a, b := newPair(t, endConfig{cqSize: 3, qp: QPConfig{MaxSend: 64}})
	// More than the ring has room for, rounded up as it may be.
	for range a.scq.Size() + 20 {
		if err := a.qp.PostSend(SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}}); err != nil {
			break // the queue pair is in error already
		}
	}
	ev := nextOf(t, a.ctx, EventCQErr)
	require.Same(t, a.scq, ev.CQ)
	_, err := a.scq.Poll(make([]WC, 1))
	require.ErrorIs(t, err, ErrCQFailed)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = a.scq.Wait(ctx, make([]WC, 1))
	require.ErrorIs(t, err, ErrCQFailed)
}
