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

// newShared makes a sender and a receiver per connection, whose receives come
// from one SRQ and whose completions go to one CQ.
func newShared(t testing.TB, n int, cfg SRQConfig) (srq *SRQ, rcq *CQ, mr *MR, senders []*end) {
	t.Helper()
	needRDMA(t)
	hub := newEnd(t, endConfig{one: true})
	var err error
	srq, err = hub.pd.CreateSRQ(cfg)
	srq = autoClose(t, srq, err)
	for range n {
		s := newEnd(t, endConfig{})
		r := *hub
		qp, err := hub.pd.CreateQP(QPConfig{SendCQ: hub.scq, RecvCQ: hub.rcq, SRQ: srq})
		r.qp = autoClose(t, qp, err)
		connect(t, s, &r, ConnectConfig{})
		senders = append(senders, s)
	}
	return srq, hub.rcq, hub.mr, senders
}

// TestPairSRQ: two connections take receives from one queue, whose limit event
// comes once for each time that the queue runs low, armed by the posts.
func TestPairSRQ(t *testing.T) {
	srq, rcq, mr, senders := newShared(t, 2, SRQConfig{MaxRecv: 16, MaxSGE: 2, Limit: 3})
	require.GreaterOrEqual(t, srq.Cap().MaxRecv, 16)
	b, err := srq.NewRecvBatch(BatchConfig{Requests: 4, SGEs: 2})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for round := range 3 {
		for i := range 4 {
			require.NoError(t, b.Recv(i, mr.SGE(4096*i, 100), mr.SGE(4096*i+2048, 100)))
			b.SetID(i, uint64(10*round+i))
		}
		n, err := b.Post()
		require.NoError(t, err)
		require.Equal(t, 4, n)
		a, err := srq.Query()
		require.NoError(t, err)
		require.Equal(t, 3, a.Limit, "armed by the post")
		require.ErrorIs(t, mr.Close(), ErrBusy)
		for i := range 4 {
			s := senders[i%2]
			fill(s.mr.Bytes()[:150], i)
			require.NoError(t, s.qp.PostSend(SendWR{SGEs: []SGE{s.mr.SGE(0, 150)}}))
			waitOK(t, s.scq, 1)
			wc := waitOK(t, rcq, 1)[0]
			require.Equal(t, uint64(10*round+i), wc.ID())
			require.Equal(t, 150, wc.Len())
			requirePattern(t, append(mr.Bytes()[4096*i:4096*i+100:4096*i+100], mr.Bytes()[4096*i+2048:4096*i+2098]...), i)
		}
		ev, err := srq.pd.ctx.NextAsyncEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, EventSRQLimitReached, ev.Type)
		require.Same(t, srq, ev.SRQ)
		require.Contains(t, ev.String(), "SRQ of")
		a, err = srq.Query()
		require.NoError(t, err)
		require.Zero(t, a.Limit, "the event came")
	}
	require.NoError(t, srq.PostRecv(RecvWR{ID: 99, SGEs: []SGE{mr.SGE(0, 8)}}))
	require.NoError(t, senders[1].qp.PostSend(SendWR{SGEs: []SGE{senders[1].mr.SGE(0, 8)}}))
	waitOK(t, senders[1].scq, 1)
	require.Equal(t, uint64(99), waitOK(t, rcq, 1)[0].ID())
	require.ErrorIs(t, srq.Close(), ErrBusy, "queue pairs are on it")
}

// TestPairSRQPartial: of a batch that the queue has no room for the first part is
// posted, and the error says how much.
func TestPairSRQPartial(t *testing.T) {
	srq, rcq, mr, senders := newShared(t, 1, SRQConfig{MaxRecv: 4})
	room := srq.Cap().MaxRecv
	b, err := srq.NewRecvBatch(BatchConfig{Requests: room + 20})
	require.NoError(t, err)
	for i := range b.Len() {
		require.NoError(t, b.Recv(i, mr.SGE(0, 8)))
	}
	n, err := b.Post()
	require.ErrorIs(t, err, ErrQueueFull)
	require.GreaterOrEqual(t, n, room)
	require.Less(t, n, room+20)
	m, err := b.PostRange(n, 1)
	require.ErrorIs(t, err, ErrQueueFull)
	require.Zero(t, m)
	s := senders[0]
	for range n {
		require.NoError(t, s.qp.PostSend(SendWR{SGEs: []SGE{s.mr.SGE(0, 8)}}))
		waitOK(t, s.scq, 1)
	}
	waitOK(t, rcq, n)
	require.Zero(t, srq.rec.Left())
	m, err = b.PostRange(0, 1)
	require.NoError(t, err)
	require.Equal(t, 1, m)
}

// TestPairSRQRefusals: limits are named, foreign and closed objects refused, and a
// queue pair on an SRQ takes no receives of its own.
func TestPairSRQRefusals(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	dev, err := e.ctx.QueryDevice()
	require.NoError(t, err)
	for field, cfg := range map[string]SRQConfig{
		"MaxRecv": {MaxRecv: dev.MaxSRQWR + 1},
		"MaxSGE":  {MaxRecv: 4, MaxSGE: dev.MaxSRQSGE + 1},
	} {
		_, err = e.pd.CreateSRQ(cfg)
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, field+" is ")
		require.ErrorContains(t, err, "the device does ")
	}
	_, err = e.pd.CreateSRQ(SRQConfig{MaxRecv: -1})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = e.pd.CreateSRQ(SRQConfig{CQ: e.scq})
	require.ErrorIs(t, err, ErrInvalid)

	srq, err := e.pd.CreateSRQ(SRQConfig{MaxRecv: 8})
	require.NoError(t, err)
	require.ErrorContains(t, srq.SetLimit(srq.Cap().MaxRecv+1), "Limit is ")
	require.NoError(t, srq.SetLimit(2))
	require.NoError(t, srq.Resize(16))
	a, err := srq.Query()
	require.NoError(t, err)
	require.GreaterOrEqual(t, a.MaxRecv, 16)
	qp, err := e.pd.CreateQP(QPConfig{SendCQ: e.scq, RecvCQ: e.rcq, SRQ: srq})
	require.NoError(t, err)
	_, err = qp.NewRecvBatch(BatchConfig{})
	require.ErrorContains(t, err, "SRQ")
	require.ErrorIs(t, qp.PostRecv(RecvWR{}), ErrInvalid)
	require.NoError(t, qp.Close())

	other := newEnd(t, endConfig{})
	_, err = other.pd.CreateQP(QPConfig{SendCQ: other.scq, RecvCQ: other.rcq, SRQ: srq})
	require.ErrorIs(t, err, ErrForeignContext)
	require.ErrorIs(t, srq.PostRecv(RecvWR{SGEs: []SGE{other.mr.SGE(0, 8)}}), ErrForeignPD)

	require.NoError(t, srq.Close())
	require.NoError(t, srq.Close())
	var none *SRQ
	for _, s := range []*SRQ{srq, none} {
		require.ErrorIs(t, s.PostRecv(RecvWR{}), ErrClosed)
		require.ErrorIs(t, s.SetLimit(1), ErrClosed)
		_, err = s.Query()
		require.ErrorIs(t, err, ErrClosed)
		_, err = s.NewRecvBatch(BatchConfig{})
		require.ErrorIs(t, err, ErrClosed)
	}
	_, err = e.pd.CreateQP(QPConfig{SendCQ: e.scq, RecvCQ: e.rcq, SRQ: srq})
	require.ErrorIs(t, err, ErrClosed)

	_, err = e.ctx.OpenXRCD(nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, e.ctx.Can(XRCSend, OpSend), errors.ErrUnsupported)
	_, err = e.pd.CreateQP(QPConfig{Type: XRCRecv, SendCQ: e.scq})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = e.pd.CreateQP(QPConfig{Type: XRCSend, SendCQ: e.scq, RecvCQ: e.rcq})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = e.pd.CreateQP(QPConfig{Type: XRCSend, SendCQ: e.scq})
	require.Error(t, err, "Soft-RoCE has no XRC")
}
