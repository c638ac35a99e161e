package cm

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// TestPairRNRRetries: ConnParam.RNRRetryCount is what this end asks of the peer:
// by it the peer's messages, and not its own, fail that meet no receive.
func TestPairRNRRetries(t *testing.T) {
	needTopo(t, "pair")
	if iwarp() {
		t.Skip("iWARP knows of no such thing")
	}
	type end struct {
		ch *ibv.CompChannel
		cq *ibv.CQ
		pd *ibv.PD
		mr *ibv.MR
	}
	bare := func(e *end) func(*ibv.Context) (Resources, error) { // no receives
		return func(ctx *ibv.Context) (r Resources, err error) {
			e.pd, err = ctx.AllocPD()
			require.NoError(t, err)
			e.ch, err = ctx.NewCompChannel()
			require.NoError(t, err)
			e.cq, err = ctx.CreateCQ(ibv.CQConfig{Size: 8, Channel: e.ch})
			require.NoError(t, err)
			e.mr, err = e.pd.AllocMR(64, ibv.LocalWrite)
			require.NoError(t, err)
			return Resources{PD: e.pd, QP: ibv.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, MaxSend: 1, MaxRecv: 1}}, nil
		}
	}
	var a, b end
	l := listen(t, home, ListenConfig{})
	client, server := meet(t, l, Dialer{LocalAddr: ap(home), Resources: bare(&a), Param: ConnParam{RNRRetryCount: None}}, AcceptConfig{Resources: bare(&b)})
	send := func(c *Conn, e *end) error {
		require.NoError(t, c.QP().PostSend(ibv.SendWR{SGEs: []ibv.SGE{e.mr.SGE(0, 8)}}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var wcs [1]ibv.WC
		if _, err := e.cq.Wait(ctx, wcs[:]); err != nil {
			return err
		}
		return wcs[0].Err()
	}
	require.ErrorIs(t, send(client, &a), context.DeadlineExceeded, "the peer asks for it without end")
	require.ErrorIs(t, send(server, &b), ibv.WCRNRRetryExcErr, "this end asks for none")
	require.NoError(t, client.Close())
	require.NoError(t, server.Close())
	for _, e := range []*end{&a, &b} {
		require.NoError(t, e.mr.Close())
		require.NoError(t, e.cq.Close())
		require.NoError(t, e.ch.Close())
		require.NoError(t, e.pd.Close())
	}
}
