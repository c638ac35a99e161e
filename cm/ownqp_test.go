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

// asking is a resolved id on local and the request of its Connect, for tests that
// take the last steps by themselves.
func asking(t *testing.T, local string, connect func(id *ID) error) (client, request *ID, asked chan error) {
	t.Helper()
	l := listen(t, local, ListenConfig{})
	client = newTestID(t, IDConfig{})
	require.NoError(t, client.ResolveAddr(within(t, time.Minute), ap(local), l.Addr()))
	require.NoError(t, client.ResolveRoute(within(t, time.Minute)))
	asked = make(chan error, 1)
	go func() { asked <- connect(client) }()
	r, err := l.Accept(within(t, time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.ID().Close()) })
	return client, r.ID(), asked
}

// A connection between two queue pairs that librdmacm did not make, with the
// vendor's options of either end.
func TestPairOwnQueuePairs(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, 2*time.Minute)
	var cq queues
	var cqp *ibv.QP
	client, request, asked := asking(t, "10.1.0.1:0", func(id *ID) error {
		cq = newQueues(t, id.Context())
		var err error
		if cqp, err = cq.pd.CreateQP(cq.config(0)); err != nil {
			return err
		}
		t.Cleanup(func() { require.NoError(t, cqp.Close()) })
		err = errors.Join(id.Move(cqp, ibv.QPInit), id.SetLocalECE(ECE{Vendor: 0x15b3, Options: 5}))
		if err != nil {
			return err
		}
		return id.Connect(ctx, ConnParam{QP: cqp, PrivateData: []byte("hello")})
	})
	ece, err := request.RemoteECE()
	require.NoError(t, err)
	require.Equal(t, ECE{Vendor: 0x15b3, Options: 5}, ece)
	require.ErrorIs(t, request.SetLocalECE(ECE{}), syscall.EINVAL)
	require.NoError(t, request.SetLocalECE(ECE{Vendor: 0x15b3, Options: 1}))

	sq := newQueues(t, request.Context())
	sqp, err := sq.pd.CreateQP(sq.config(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sqp.Close()) })
	require.ErrorIs(t, request.Accept(ctx, ConnParam{QP: sqp}), ErrState, "it is in RESET")
	for _, s := range []ibv.QPState{ibv.QPInit, ibv.QPRTR, ibv.QPRTS} {
		require.NoError(t, request.Move(sqp, s))
	}
	require.NoError(t, sqp.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{sq.mr.SGE(0, 64)}}))
	accepted := make(chan error, 1)
	go func() { accepted <- request.Accept(ctx, ConnParam{QP: sqp, PrivateData: []byte("welcome")}) }()

	require.NoError(t, <-asked)
	require.Equal(t, StateResponded, client.State())
	require.Equal(t, "welcome", string(client.PeerData()[:7]))
	ece, err = client.RemoteECE()
	require.NoError(t, err)
	require.Equal(t, ECE{Vendor: 0x15b3, Options: 1}, ece)
	require.ErrorIs(t, client.Establish(), ErrState, "the queue pair is in INIT")
	require.NoError(t, client.Move(cqp, ibv.QPRTR))
	require.NoError(t, client.Move(cqp, ibv.QPRTS))
	require.NoError(t, client.Establish())
	require.NoError(t, <-accepted)
	require.Equal(t, StateConnected, client.State())
	require.Equal(t, StateConnected, request.State())

	require.NoError(t, cqp.PostSend(ibv.SendWR{Inline: []byte("data")}))
	cq.one(t)
	require.Equal(t, 4, func() int { wc := sq.one(t); return wc.Len() }())

	require.NoError(t, client.Disconnect())
	<-request.Done()
	require.ErrorIs(t, request.Err(), ErrDisconnected)
}

// What is said to those who mix the two ways up.
func TestPairOwnQueuePairRefusals(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	there := newTestID(t, IDConfig{})
	require.NoError(t, there.Bind(ap("10.2.0.1:0")))
	foreign := newQueues(t, there.Context())
	fqp, err := foreign.pd.CreateQP(foreign.config(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fqp.Close()) })

	_, request, asked := asking(t, "10.1.0.1:0", func(id *ID) error {
		q := newQueues(t, id.Context())
		_, err := id.CreateQP(q.pd, q.config(0))
		if err == nil {
			err = id.Connect(ctx, ConnParam{})
		}
		return errors.Join(err, id.QP().Close())
	})
	require.ErrorIs(t, request.Accept(ctx, ConnParam{QP: fqp}), ibv.ErrForeignContext)
	_, _, err = request.QPAttr(ibv.QPErr)
	require.Error(t, err)
	require.ErrorContains(t, err, "Requested")
	require.Error(t, request.Notify(ibv.EventPathMig))
	require.ErrorIs(t, request.Establish(), ErrState)
	q := newQueues(t, request.Context())
	qp, err := request.CreateQP(q.pd, q.config(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, qp.Close()) })
	require.ErrorIs(t, request.Accept(ctx, ConnParam{QP: fqp}), ErrState, "it has one of its own")
	require.NoError(t, request.RejectECE([]byte("no such options")))
	err = <-asked
	require.ErrorIs(t, err, ErrECE)
	require.ErrorIs(t, err, ErrRejected)
	var no *RejectError
	require.ErrorAs(t, err, &no)
	require.Equal(t, RejectECE, no.Reason())
	require.Equal(t, "no such options", string(no.PrivateData[:15]))
}

// An Accept in two halves: the queue pair works in between.
func TestPairTwoPhaseAccept(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	var cq queues
	client, request, asked := asking(t, "10.1.0.1:0", func(id *ID) error {
		cq = newQueues(t, id.Context())
		if _, err := id.CreateQP(cq.pd, cq.config(0)); err != nil {
			return err
		}
		return id.Connect(ctx, ConnParam{})
	})
	require.ErrorIs(t, request.FinishAccept(ctx), ErrState)
	q := newQueues(t, request.Context())
	qp, err := request.CreateQP(q.pd, q.config(0))
	require.NoError(t, err)
	require.NoError(t, qp.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{q.mr.SGE(0, 64)}}))
	require.NoError(t, request.StartAccept(ConnParam{PrivateData: []byte("half")}))
	require.NoError(t, <-asked)
	require.Equal(t, "half", string(client.PeerData()[:4]))
	require.NoError(t, client.QP().PostSend(ibv.SendWR{Inline: []byte("early")}))
	cq.one(t)
	wc := q.one(t)
	require.Equal(t, 5, wc.Len())
	if !iwarp() {
		require.NoError(t, request.Notify(ibv.EventCommEst))
	}
	require.NoError(t, request.FinishAccept(ctx))
	require.Equal(t, StateConnected, request.State())
	require.ErrorIs(t, request.FinishAccept(ctx), ErrState)
	require.NoError(t, client.Disconnect())
	<-request.Done()
	require.Equal(t, EventDisconnected, (<-request.Notices()).Type)
	require.NoError(t, qp.Close())
	require.NoError(t, client.QP().Close())
}

// An id moves between channels at any of its steps, and its old channel can be
// closed.
func TestPairMigrate(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	var chans []*EventChannel
	other := func() *EventChannel {
		ch, err := NewEventChannel()
		require.NoError(t, err)
		chans = append(chans, ch)
		return ch
	}
	l := newTestID(t, IDConfig{Channel: other()})
	require.NoError(t, l.Migrate(other()))
	require.NoError(t, l.Bind(ap("10.1.0.1:0")))
	require.NoError(t, l.Migrate(other()))
	require.NoError(t, l.Listen(0))
	require.ErrorIs(t, l.Migrate(chans[0]), ErrState)

	client := newTestID(t, IDConfig{Channel: chans[0]})
	require.NoError(t, client.ResolveAddr(ctx, ap("10.1.0.1:0"), l.LocalAddr()))
	require.NoError(t, client.Migrate(other()))
	require.NoError(t, client.ResolveRoute(ctx))
	require.NoError(t, client.Migrate(other()))
	cq := newQueues(t, client.Context())
	_, err := client.CreateQP(cq.pd, cq.config(0))
	require.NoError(t, err)
	asked := make(chan error, 1)
	go func() { asked <- client.Connect(ctx, ConnParam{}) }()
	request, err := l.GetRequest(ctx)
	require.NoError(t, err)
	require.NoError(t, request.Migrate(other()))
	q := newQueues(t, request.Context())
	_, err = request.CreateQP(q.pd, q.config(0))
	require.NoError(t, err)
	require.NoError(t, request.StartAccept(ConnParam{}))
	require.NoError(t, request.Migrate(other()), "while the peer's answer is on its way")
	require.NoError(t, request.FinishAccept(ctx))
	require.NoError(t, <-asked)
	require.NoError(t, request.Migrate(nil))
	require.NoError(t, request.Migrate(request.Channel()), "to where it is")
	require.NoError(t, client.Migrate(other()))
	last := client.Channel()
	require.Same(t, chans[len(chans)-1], last)
	require.ErrorIs(t, last.Close(), ibv.ErrBusy)

	require.NoError(t, client.Disconnect())
	<-request.Done()
	require.NoError(t, client.QP().Close())
	require.NoError(t, request.QP().Close())
	require.NoError(t, request.Close())
	for i, ch := range chans {
		if ch != last && ch != l.Channel() {
			require.NoError(t, ch.Close(), "channel %d, which all ids have left", i)
		}
	}
	require.NoError(t, client.Close())
	require.NoError(t, last.Close())
	require.ErrorIs(t, newTestID(t, IDConfig{}).Migrate(last), ErrClosed)
	require.ErrorIs(t, client.Migrate(nil), ErrClosed)
	ch := l.Channel()
	require.NoError(t, l.Close())
	require.NoError(t, ch.Close())
}

// Every event in every state ends in a state that fits, and nobody waits for ever.
func TestEventsInEveryState(t *testing.T) {
	for s := StateIdle; s <= StateDestroyed; s++ {
		for e := cgo.EventAddrResolved; e <= cgo.EventTimewaitExit+1; e++ {
			id := newID(&EventChannel{}, nil, IDConfig{})
			id.state, id.destroyed = s, true // so that nothing reaches C
			if s == StateDestroyed {
				id.closing = true
			}
			id.deliver(&cgo.Event{Type: e, Status: -110})
			id.acks.Wait()
			want := s
			switch {
			case s == StateDestroyed:
			case e == cgo.EventDeviceRemoval:
				want = StateRemoved
			case e == cgo.EventDisconnected:
				want = StateDisconnected
			case e == cgo.EventUnreachable || e == cgo.EventRejected || e == cgo.EventConnectError:
				if s == StateRequested || s == StateConnecting || s == StateResponded || s == StateConnected {
					want = StateDisconnected
				}
			}
			require.Equal(t, want, id.State(), "%v in %v", EventType(e), s)
			noticed := s != StateDestroyed && (e == cgo.EventUnreachable || e == cgo.EventRejected || e == cgo.EventConnectError ||
				e == cgo.EventAddrChange || e == cgo.EventTimewaitExit || e == cgo.EventDeviceRemoval ||
				e == cgo.EventDisconnected || e == cgo.EventMulticastError)
			require.Equal(t, noticed, len(id.Notices()) == 1, "%v in %v", EventType(e), s)
			if want != s {
				<-id.Done()
				require.Error(t, id.Err())
			}
		}
	}
}
