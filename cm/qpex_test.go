//go:build linux

package cm

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// An id's queue pair made for ibv_wr_* connects like any other. Soft-RoCE's is
// right since rdma-core 64, and refused before that; so its data goes the
// classic way here.
func TestPairExtendedQueuePair(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	if iwarp() { // whose driver has none
		id := newTestID(t, IDConfig{})
		require.NoError(t, id.Bind(ap("10.1.0.1:0")))
		q := newQueues(t, id.Context())
		cfg := q.config(0)
		cfg.ExtendedPost = true
		_, err := id.CreateQP(q.pd, cfg)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		return
	}
	var cq queues
	client, request, asked := asking(t, "10.1.0.1:0", func(id *ID) error {
		cq = newQueues(t, id.Context())
		cfg := cq.config(0)
		cfg.ExtendedPost = true
		if qp, err := id.CreateQP(cq.pd, cfg); err == nil {
			require.NoError(t, qp.Close())
		} else {
			require.ErrorIs(t, err, syscall.ENOSYS)
			require.ErrorContains(t, err, "needs rdma-core 64")
		}
		var raw cgo.QP
		qp, err := ibv.NewQP(id.Context(), cq.pd, cq.config(0), func(pd cgo.PD, a *cgo.QPInitAttr) (cgo.QP, error) {
			a.SendOps = 1<<0 | 1<<2 // WRITE and SEND
			err := id.call(func(h cgo.ID) (err error) {
				raw, err = h.CreateQP(pd, a)
				return err
			})
			return raw, err
		}, func() error { return id.destroyQP(raw) })
		if err != nil {
			return err
		}
		qp.Track(ibv.QPInit, 0, 0)
		id.mu.Lock()
		id.qp = qp
		id.mu.Unlock()
		return id.Connect(ctx, ConnParam{})
	})
	q := newQueues(t, request.Context())
	qp, err := request.CreateQP(q.pd, q.config(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, qp.Close()) })
	require.NoError(t, qp.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{q.mr.SGE(0, 64)}}))
	require.NoError(t, request.Accept(ctx, ConnParam{}))
	require.NoError(t, <-asked)
	t.Cleanup(func() { require.NoError(t, client.QP().Close()) })
	require.NoError(t, client.QP().PostSend(ibv.SendWR{Inline: []byte("extended")}))
	cq.one(t)
	wc := q.one(t)
	require.Equal(t, "extended", string(q.mr.Bytes()[:wc.Len()]))
}
