//go:build linux && cgo

package ibv

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPairRing: the completions of many queue pairs on two CQs of a real device
// come through one ring, whose thread sleeps on events in between.
func TestPairRing(t *testing.T) {
	const pairs, rounds = 4, 25
	needRDMA(t)
	e := new(end)
	c, err := Open("rxe0")
	e.ctx = autoClose(t, c, err)
	pd, err := e.ctx.AllocPD()
	e.pd = autoClose(t, pd, err)
	r, err := e.ctx.NewCompletionRing(RingConfig{Size: 8, Spin: time.Nanosecond})
	r = autoClose(t, r, err)
	scq, err := e.ctx.CreateCQ(CQConfig{Ring: r})
	e.scq = autoClose(t, scq, err)
	rcq, err := e.ctx.CreateCQ(CQConfig{Ring: r})
	e.rcq = autoClose(t, rcq, err)
	mr, err := e.pd.AllocMR(4096, allAccess)
	e.mr = autoClose(t, mr, err)
	_, err = e.scq.Wait(t.Context(), make([]WC, 1))
	require.ErrorIs(t, err, ErrNoChannel)

	var ends [pairs][2]*end
	for i := range ends {
		for k := range ends[i] {
			x := *e
			x.addQP(t, QPConfig{})
			ends[i][k] = &x
		}
		connect(t, ends[i][0], ends[i][1], ConnectConfig{})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	wcs := make([]WC, 5)
	for round := range uint64(rounds) {
		for _, p := range ends {
			require.NoError(t, p[1].qp.PostRecv(RecvWR{ID: round, SGEs: []SGE{mr.SGE(64, 8)}}))
			require.NoError(t, p[0].qp.PostSend(SendWR{ID: round, SGEs: []SGE{mr.SGE(0, 8)}}))
		}
		from := map[uint32]int{}
		for got := 0; got < 2*pairs; {
			n, err := r.Wait(ctx, wcs)
			require.NoError(t, err)
			for i := range wcs[:n] {
				require.NoError(t, wcs[i].Err())
				require.Equal(t, round, wcs[i].ID())
				from[wcs[i].QPNum()]++
			}
			got += n
		}
		require.Len(t, from, 2*pairs, "each queue pair once")
	}
	require.ErrorIs(t, r.Close(), ErrBusy)
}
