//go:build linux

package cm

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// One queue, made for the id of the first client, has the receives of both.
func TestPairSharedReceives(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, 2*time.Minute)
	var srq *ibv.SRQ
	var shared queues
	for i, text := range []string{"first", "second"} {
		var cq queues
		client, request, asked := asking(t, "10.1.0.1:0", func(id *ID) error {
			cq = newQueues(t, id.Context())
			_, err := id.CreateQP(cq.pd, cq.config(0))
			return errors.Join(err, id.Connect(ctx, ConnParam{}))
		})
		if i == 0 {
			shared = newQueues(t, request.Context())
			var err error
			srq, err = request.CreateSRQ(shared.pd, ibv.SRQConfig{MaxRecv: 8})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, srq.Close()) })
			require.Same(t, srq, request.SRQ())
			_, err = request.CreateSRQ(shared.pd, ibv.SRQConfig{})
			require.ErrorIs(t, err, ErrState, "it has one")
			for n := range 2 {
				require.NoError(t, srq.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{shared.mr.SGE(64*n, 64)}}))
			}
		}
		cfg := shared.config(0)
		if i > 0 {
			cfg.SRQ = srq // the first id's own needs no naming
		}
		qp, err := request.CreateQP(shared.pd, cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, qp.Close()) })
		require.ErrorIs(t, srq.Close(), ibv.ErrBusy)
		require.NoError(t, request.Accept(ctx, ConnParam{}))
		require.NoError(t, <-asked)
		require.Equal(t, client.LocalAddr(), request.RemoteAddr())
		require.Equal(t, client.RemoteAddr(), request.LocalAddr())
		t.Cleanup(func() { require.NoError(t, client.QP().Close()) })
		require.NoError(t, client.QP().PostSend(ibv.SendWR{Inline: []byte(text)}))
		cq.one(t)
		wc := shared.one(t)
		require.Equal(t, text, string(shared.mr.Bytes()[64*i:64*i+wc.Len()]))
		require.Equal(t, qp.Num(), wc.QPNum())
	}
}

// What an id says to those who want a queue that it cannot have.
func TestPairSharedReceivesRefusals(t *testing.T) {
	needTopo(t, "pair")
	id := newTestID(t, IDConfig{})
	_, err := id.CreateSRQ(nil, ibv.SRQConfig{})
	require.ErrorIs(t, err, ErrState, "it is on no device")
	require.NoError(t, id.Bind(ap("10.1.0.1:0")))
	_, err = id.CreateSRQ(nil, ibv.SRQConfig{})
	require.ErrorIs(t, err, ErrClosed)

	other := newTestID(t, IDConfig{})
	require.NoError(t, other.Bind(ap("10.2.0.1:0")))
	_, err = id.CreateSRQ(newQueues(t, other.Context()).pd, ibv.SRQConfig{})
	require.ErrorIs(t, err, ibv.ErrForeignContext)
	q := newQueues(t, id.Context())
	_, err = id.CreateSRQ(q.pd, ibv.SRQConfig{MaxRecv: -1})
	require.ErrorIs(t, err, ibv.ErrInvalid)
	_, err = id.CreateSRQ(q.pd, ibv.SRQConfig{MaxRecv: 1 << 29})
	require.ErrorContains(t, err, "the device does")
	_, err = id.CreateSRQ(q.pd, ibv.SRQConfig{CQ: q.cq, MaxTags: 4})
	require.ErrorIs(t, err, errors.ErrUnsupported, "software devices match no tags")

	srq, err := id.CreateSRQ(q.pd, ibv.SRQConfig{})
	require.NoError(t, err)
	require.NoError(t, srq.Close())
	require.Nil(t, id.SRQ())
	_, err = id.CreateQP(q.pd, ibv.QPConfig{SendCQ: q.cq, RecvCQ: q.cq, SRQ: srq})
	require.ErrorIs(t, err, ErrClosed)
	srq, err = id.CreateSRQ(q.pd, ibv.SRQConfig{})
	require.NoError(t, err)
	require.NoError(t, id.Close())
	require.NoError(t, srq.Close(), "it outlives the id")
	_, err = id.CreateSRQ(q.pd, ibv.SRQConfig{})
	require.ErrorIs(t, err, ErrClosed)

	everywhere := newTestID(t, IDConfig{})
	require.NoError(t, everywhere.Bind(ap("0.0.0.0:0")))
	require.NoError(t, everywhere.Listen(0))
	_, err = everywhere.CreateSRQ(q.pd, ibv.SRQConfig{})
	require.ErrorIs(t, err, ErrState)
}

// TestEventNames: an event is called as librdmacm calls it, without the prefix.
func TestEventNames(t *testing.T) {
	if !cgo.Available {
		t.Skip("nothing to compare with in this build")
	}
	for e := EventAddrResolved; e <= EventTimewaitExit; e++ {
		require.Equal(t, "RDMA_CM_EVENT_"+e.String(), cgo.CMEventString(uint32(e)))
	}
}
