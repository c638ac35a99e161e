//go:build linux

package cm

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// queues are a PD, a waiting CQ and memory on a device.
type queues struct {
	pd *ibv.PD
	cq *ibv.CQ
	mr *ibv.MR
}

func newQueues(t *testing.T, ctx *ibv.Context) queues {
	t.Helper()
	ch, err := ctx.NewCompChannel()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ch.Close()) })
	cq, err := ctx.CreateCQ(ibv.CQConfig{Channel: ch})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cq.Close()) })
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pd.Close()) })
	mr, err := pd.AllocMR(4096, ibv.LocalWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mr.Close()) })
	return queues{pd, cq, mr}
}

func (q queues) config(typ ibv.QPType) ibv.QPConfig {
	return ibv.QPConfig{Type: typ, SendCQ: q.cq, RecvCQ: q.cq, MaxSend: 8, MaxRecv: 8, MaxInline: 64}
}

// one waits for a completion that is no error.
func (q queues) one(t *testing.T) ibv.WC {
	t.Helper()
	wcs := make([]ibv.WC, 1)
	n, err := q.cq.Wait(within(t, time.Minute), wcs)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, wcs[0].Err())
	return wcs[0]
}

// udPair is a service on local that has a request, and the id that asks for it:
// its Connect is under way.
func udPair(t *testing.T, local string, private []byte) (client, request *ID, asked chan error) {
	t.Helper()
	return pairIn(t, PortSpaceUDP, local, private)
}

func pairIn(t *testing.T, ps PortSpace, local string, private []byte) (client, request *ID, asked chan error) {
	t.Helper()
	l := newTestID(t, IDConfig{PortSpace: ps})
	require.NoError(t, l.Bind(ap(local)))
	require.NoError(t, l.Listen(0))
	client = newTestID(t, IDConfig{PortSpace: ps})
	src := netip.AddrPortFrom(l.LocalAddr().Addr(), 0)
	require.NoError(t, client.ResolveAddr(within(t, time.Minute), src, l.LocalAddr()))
	require.NoError(t, client.ResolveRoute(within(t, time.Minute)))
	if !ps.datagrams() {
		q := newQueues(t, client.Context())
		_, err := client.CreateQP(q.pd, q.config(0))
		require.NoError(t, err)
	}
	asked = make(chan error, 1)
	ctx := within(t, time.Minute)
	go func() { asked <- client.Connect(ctx, ConnParam{PrivateData: private}) }()
	request, err := l.GetRequest(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, request.Close()) })
	return client, request, asked
}

// A service of datagrams: it is asked for, answers, and datagrams go both ways,
// on the device that both ends are bound to.
func TestPairDatagrams(t *testing.T) {
	needTopo(t, "pair")
	for _, local := range []string{"10.1.0.1:0", "[fd01::1]:0", "10.2.0.1:0"} {
		t.Run(local, func(t *testing.T) {
			client, request, asked := udPair(t, local, []byte("who are you"))
			require.Len(t, request.RequestData(), MaxDatagramConnectData)
			require.Equal(t, "who are you", string(request.RequestData()[:11]))
			require.Equal(t, StateRequested, request.State())
			require.Equal(t, policy.BoundDevice, request.Binding().State)

			srv := newQueues(t, request.Context())
			sqp, err := request.CreateQP(srv.pd, srv.config(0))
			require.NoError(t, err)
			require.Equal(t, ibv.UD, sqp.Type())
			require.Equal(t, ibv.QPRTS, sqp.State())
			require.NoError(t, sqp.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{srv.mr.SGE(0, 2048)}}))
			require.NoError(t, request.Accept(within(t, time.Minute), ConnParam{PrivateData: []byte("a service")}))
			require.Equal(t, StateConnected, request.State())

			require.NoError(t, <-asked)
			require.Equal(t, StateConnected, client.State())
			require.Len(t, client.PeerData(), MaxDatagramReplyData)
			require.Equal(t, "a service", string(client.PeerData()[:9]))
			peer, ok := client.UDPeer()
			require.True(t, ok)
			require.Equal(t, sqp.Num(), peer.QPNum)
			require.Equal(t, uint32(0x01234567), peer.QKey)
			require.Equal(t, client.Binding().Device, request.Binding().Device)

			cl := newQueues(t, client.Context())
			// (After Connect: an id of datagrams needs no queue pair to ask.)
			require.ErrorIs(t, func() error { _, err := client.CreateQP(cl.pd, cl.config(ibv.RC)); return err }(), ErrState)
			cqp, err := cl.pd.CreateQP(cl.config(ibv.UD))
			require.NoError(t, err)
			defer cqp.Close()
			require.NoError(t, cqp.ToInit(ibv.ConnectConfig{Port: peer.AH.Port, QKey: peer.QKey}))
			require.NoError(t, cqp.Connect(ibv.ConnectConfig{Port: peer.AH.Port}))
			require.NoError(t, cqp.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{cl.mr.SGE(0, 2048)}}))
			to, err := peer.Dest(cl.pd)
			require.NoError(t, err)
			defer to.AH.Close()
			require.NoError(t, cqp.PostSend(ibv.SendWR{Inline: []byte("a question"), Dest: to}))
			cl.one(t)
			wc := srv.one(t)
			require.Equal(t, "a question", string(srv.mr.Bytes()[ibv.GRHSize:wc.Len()]))
			back, err := srv.pd.CreateAHFromWC(wc, srv.mr.Bytes(), request.Binding().Port)
			require.NoError(t, err)
			defer back.Close()
			require.NoError(t, sqp.PostSend(ibv.SendWR{Inline: []byte("an answer"), Dest: ibv.Dest{AH: back, QPNum: wc.SrcQP(), QKey: peer.QKey}}))
			srv.one(t)
			wc = cl.one(t)
			require.Equal(t, "an answer", string(cl.mr.Bytes()[ibv.GRHSize:wc.Len()]))
			require.NoError(t, sqp.Close())
			require.Equal(t, StateConnected, request.State(), "there is no connection that could end")
		})
	}
}

// One queue pair of the service's own answers many.
func TestPairDatagramsShareAQueuePair(t *testing.T) {
	needTopo(t, "pair")
	var qp *ibv.QP
	for range 3 {
		client, request, asked := udPair(t, "10.1.0.1:0", nil)
		if qp == nil {
			q := newQueues(t, request.Context())
			var err error
			qp, err = q.pd.CreateQP(q.config(ibv.UD))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, qp.Close()) })
			require.ErrorIs(t, request.Accept(within(t, time.Minute), ConnParam{QP: qp}), ErrState, "it is in RESET")
			require.NoError(t, qp.ToInit(ibv.ConnectConfig{QKey: 0x01234567}))
			require.NoError(t, qp.Connect(ibv.ConnectConfig{}))
		}
		require.NoError(t, request.Accept(within(t, time.Minute), ConnParam{QP: qp}))
		require.NoError(t, <-asked)
		peer, ok := client.UDPeer()
		require.True(t, ok)
		require.Equal(t, qp.Num(), peer.QPNum)
	}
}

// The ways in which a service is not had.
func TestPairDatagramRefusals(t *testing.T) {
	needTopo(t, "pair")
	client, request, asked := udPair(t, "10.1.0.1:0", make([]byte, MaxDatagramConnectData))
	require.ErrorIs(t, request.Accept(within(t, time.Minute), ConnParam{}), ErrState, "without a queue pair")
	require.ErrorIs(t, request.Reject(make([]byte, MaxDatagramReplyData+1)), ErrPrivateDataTooLong)
	require.NoError(t, request.Reject([]byte("not now")))
	err := <-asked
	require.ErrorIs(t, err, ErrRejected)
	var no *RejectError
	require.ErrorAs(t, err, &no)
	require.True(t, no.Datagram)
	require.Equal(t, "not now", string(no.PrivateData[:7]))
	require.Zero(t, no.Reason())
	require.Equal(t, StatePoisoned, client.State())

	nobody := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	require.NoError(t, nobody.ResolveAddr(within(t, time.Minute), ap("10.1.0.1:0"), ap("10.1.0.1:9")))
	require.NoError(t, nobody.ResolveRoute(within(t, time.Minute)))
	require.ErrorIs(t, nobody.Connect(within(t, time.Minute), ConnParam{PrivateData: make([]byte, MaxDatagramConnectData+1)}), ErrPrivateDataTooLong)
	err = nobody.Connect(within(t, time.Minute), ConnParam{})
	require.ErrorIs(t, err, ErrConnRefused)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	// Its queue pairs are UD, and on its own device.
	other := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	require.NoError(t, other.Bind(ap("10.2.0.1:0")))
	here := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	require.NoError(t, here.Bind(ap("10.1.0.1:0")))
	q := newQueues(t, other.Context())
	_, err = here.CreateQP(q.pd, q.config(0))
	require.ErrorIs(t, err, ibv.ErrForeignContext)
	_, err = other.CreateQP(q.pd, q.config(ibv.RC))
	require.ErrorIs(t, err, ibv.ErrInvalid)
}

// The other port spaces: IB makes connections like TCP, IPoIB needs its link.
func TestPairPortSpaces(t *testing.T) {
	needTopo(t, "pair")
	_, err := NewID(IDConfig{PortSpace: 7})
	require.Error(t, err)
	err = newTestID(t, IDConfig{PortSpace: PortSpaceIPoIB}).Bind(ap("10.1.0.1:0"))
	if iwarp() {
		require.ErrorIs(t, err, ErrTransport)
	} else {
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, "IP over InfiniBand")
	}

	client, request, asked := pairIn(t, PortSpaceIB, "10.1.0.1:0", []byte("IB"))
	require.Equal(t, "IB", string(request.RequestData()[:2]))
	q := newQueues(t, request.Context())
	qp, err := request.CreateQP(q.pd, q.config(0))
	require.NoError(t, err)
	require.NoError(t, request.Accept(within(t, time.Minute), ConnParam{}))
	require.NoError(t, <-asked)
	require.Equal(t, StateConnected, client.State())
	require.NoError(t, errors.Join(client.Disconnect(), client.QP().Close(), qp.Close()))
}
