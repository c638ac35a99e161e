//go:build linux && cgo

package ibv

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPairDemux: ten thousand goroutines wait, each for its own request, over two
// CQs of one channel, and cost no threads; those that give up lose no completion.
func TestPairDemux(t *testing.T) {
	needRDMA(t)
	const qps, most = 4, 40
	each := 2500
	if raced {
		each = 250
	}
	ctx, err := Open("rxe0")
	c := autoClose(t, ctx, err)
	newCh, err := c.NewCompChannel()
	ch := autoClose(t, newCh, err)
	newPD, err := c.AllocPD()
	pd := autoClose(t, newPD, err)
	newMR, err := pd.AllocMR(4096, allAccess)
	mr := autoClose(t, newMR, err)
	var sources []Completions
	var ends []*end
	for range 2 {
		newCQ, err := c.CreateCQ(CQConfig{Size: qps / 2 * each, Channel: ch})
		cq := autoClose(t, newCQ, err)
		sources = append(sources, cq)
		for range qps / 2 {
			e := &end{ctx: c, pd: pd, scq: cq, rcq: cq, mr: mr}
			newQP, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: each, MaxRecv: 1})
			e.qp = autoClose(t, newQP, err)
			connect(t, e, e, ConnectConfig{})
			ends = append(ends, e)
		}
	}
	d, err := NewDemux(DemuxConfig{Slots: qps * each}, sources...)
	d = autoClose(t, d, err)

	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	over, giveUp := context.WithCancel(context.Background())
	giveUp()
	tickets := make(chan Ticket, qps*each)
	errs := make(chan error, qps*each)
	var waiting sync.WaitGroup
	for i := range qps * each {
		ticket, err := d.Take()
		require.NoError(t, err)
		tickets <- ticket
		ctx := within
		if i%100 == 0 {
			ctx = over
		}
		waiting.Go(func() {
			wc, err := ticket.Wait(ctx)
			if err == nil && wc.ID() != ticket.ID() {
				err = ErrInvalid
			} else if err == nil {
				err = wc.Err()
			}
			errs <- err
		})
	}
	for i := range qps * each {
		ticket := <-tickets
		require.NoError(t, ends[i%qps].qp.PostSend(SendWR{ID: ticket.ID(), Op: OpWrite, Remote: mr.Remote(0), SGEs: []SGE{mr.SGE(8, 8)}}))
	}
	require.Less(t, threads(t), most)
	waiting.Wait()
	gaveUp := 0
	for range qps * each {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, context.Canceled)
			gaveUp++
		}
	}
	require.LessOrEqual(t, gaveUp, qps*each/100)
	require.Positive(t, gaveUp)
	require.Eventually(t, func() bool { // the given up ones' too
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.free) == qps*each
	}, 20*time.Second, time.Millisecond)
	require.Zero(t, d.Stray())
}
