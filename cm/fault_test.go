package cm

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

const home = "10.1.0.1:0"

func dialHome(ctx context.Context, l *Listener) (*Conn, error) {
	return (&Dialer{LocalAddr: ap(home)}).DialAddr(ctx, l.Addr())
}

// Requests that a program posts on the QP of a Conn, against its documentation,
// do not disturb those of the Conn, whatever ids they carry.
func TestPairOwnPosts(t *testing.T) {
	needTopo(t, "pair")
	client, server := pairUp(t, home, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
	ctx := within(t, time.Minute)
	ids := []uint64{0, 1, slotMask, sendID(0, 1), sendID(3, 7), recvID(0), recvID(1 << 40)}
	buf := make([]byte, 100)
	for _, id := range ids {
		require.NoError(t, client.QP().PostSend(ibv.SendWR{ID: id}))
		n, err := server.Recv(ctx, buf)
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, client.Send(ctx, []byte("railbind")))
		n, err = server.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, "railbind", string(buf[:n]))
	}
	require.Len(t, client.m.free, cap(client.m.free), "every slot is free again, once")
}

// The user's QP.Close, Disconnect and Close may all run at once.
func TestPairCloseQPDuringSteps(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, home, ListenConfig{})
	ctx := within(t, 2*time.Minute)
	for i := range 20 {
		dialed := make(chan struct{})
		go func() {
			defer close(dialed)
			c, err := dialHome(ctx, l)
			if err == nil {
				_ = c.Close()
			}
		}()
		r, err := l.Accept(ctx)
		require.NoError(t, err)
		id := r.ID()
		pd, err := id.Context().AllocPD()
		require.NoError(t, err)
		cq, err := id.Context().CreateCQ(ibv.CQConfig{Size: 8})
		require.NoError(t, err)
		qp, err := id.CreateQP(pd, ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 4, MaxRecv: 4})
		require.NoError(t, err)
		if i%4 == 0 {
			require.NoError(t, qp.Close())
			require.Nil(t, id.QP(), "it is gone, and may be made again")
			qp, err = id.CreateQP(pd, ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 4, MaxRecv: 4})
			require.NoError(t, err)
		}
		var wg sync.WaitGroup
		for _, f := range []func() error{
			func() error { return id.Accept(ctx, ConnParam{}) },
			qp.Close,
			id.Disconnect,
		} {
			wg.Go(func() { _ = f() })
		}
		wg.Wait()
		require.NoError(t, r.Close())
		require.NoError(t, cq.Close())
		require.NoError(t, pd.Close())
		<-dialed
	}
}

// A channel closes only after the requests that nobody took are destroyed.
func TestPairOrphanRequests(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, 2*time.Minute)
	for range 3 {
		ch, err := NewEventChannel()
		require.NoError(t, err)
		l, err := Listen(ap(home), ListenConfig{Backlog: 1, Channel: ch})
		require.NoError(t, err)
		var wg sync.WaitGroup
		errs := make(chan error, 4)
		for range cap(errs) {
			wg.Go(func() {
				_, err := dialHome(ctx, l)
				errs <- err
			})
		}
		require.ErrorIs(t, <-errs, ErrRejected) // the queue is full
		require.NoError(t, l.Close())
		require.NoError(t, ch.Close())
		wg.Wait()
		for range cap(errs) - 1 {
			require.ErrorIs(t, <-errs, syscall.ECONNREFUSED)
		}
	}
}

// A queue pair that fails while the connection is made: the connection comes to
// be, and is over.
func TestPairFaultDuringAccept(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, home, ListenConfig{})
	ctx := within(t, time.Minute)
	dialed := make(chan error, 1)
	go func() {
		c, err := dialHome(ctx, l)
		if err == nil {
			<-c.Done()
			err = c.Close()
		}
		dialed <- err
	}()
	r, err := l.Accept(ctx)
	require.NoError(t, err)
	r.ID().qpFailed()
	c, err := r.Accept(ctx, AcceptConfig{})
	require.NoError(t, err)
	<-c.Done()
	require.ErrorIs(t, c.Err(), ErrDisconnected)
	require.NoError(t, <-dialed, "the peer hears of it")
	require.NoError(t, c.Close())
}

// A peer that connects, sends and goes at once: what it sent arrives, however
// late the accept is.
func TestPairSendAndGo(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, home, ListenConfig{})
	ctx := within(t, time.Minute)
	for range 20 {
		dialed := make(chan error, 1)
		go func() {
			c, err := dialHome(ctx, l)
			if err == nil {
				err = errors.Join(c.Send(ctx, []byte("railbind")), c.Close())
			}
			dialed <- err
		}()
		r, err := l.Accept(ctx)
		require.NoError(t, err)
		c, err := r.Accept(ctx, AcceptConfig{})
		require.NoError(t, err)
		buf := make([]byte, 100)
		n, err := c.Recv(ctx, buf)
		if err == nil {
			require.Equal(t, "railbind", string(buf[:n]))
			_, err = c.Recv(ctx, buf)
		} else {
			require.True(t, iwarp(), "only iWARP may lose the last message: %v", err)
		}
		require.ErrorIs(t, err, ErrDisconnected)
		require.NoError(t, <-dialed)
		require.NoError(t, c.Close())
	}
}

// An answered request cannot be answered again, and closing it leaves the
// connection alone.
func TestPairRequestAnswered(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, home, ListenConfig{})
	ctx := within(t, time.Minute)
	dialed := make(chan *Conn, 1)
	go func() {
		c, _ := dialHome(ctx, l)
		dialed <- c
	}()
	r, err := l.Accept(ctx)
	require.NoError(t, err)
	server, err := r.Accept(ctx, AcceptConfig{})
	require.NoError(t, err)
	client := <-dialed
	require.NotNil(t, client)
	_, err = r.Accept(ctx, AcceptConfig{})
	require.ErrorIs(t, err, ErrState)
	require.ErrorIs(t, r.Reject(nil), ErrState)
	require.NoError(t, r.Close())
	require.NoError(t, client.Send(ctx, []byte("railbind")))
	_, err = server.Recv(ctx, make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.NoError(t, server.Close())
}

// A completion queue that fails ends the connection, with the reason.
func TestPairFailedCQ(t *testing.T) {
	needTopo(t, "pair")
	client, _ := pairUp(t, home, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
	cq, err := client.ID().Context().CreateCQ(ibv.CQConfig{Size: 8}) // which cannot wait: no channel
	require.NoError(t, err)
	defer cq.Close()
	fault := make(chan struct{})
	m := &mover{cq: cq, ended: make(chan struct{}), drained: make(chan struct{}), turn: make(chan struct{}, 1), fault: func() { close(fault) }, posted: 1}
	m.run(within(t, time.Minute))
	<-fault
	_, err = m.recv(within(t, time.Minute), nil)
	require.ErrorIs(t, err, ErrDisconnected)
	require.ErrorIs(t, err, ibv.ErrNoChannel)
}

// A request that its peer has given up cannot be accepted. The kernel keeps
// that to itself until then.
func TestPairRequestGivenUp(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, home, ListenConfig{})
	ctx := within(t, time.Minute)
	_, err := (&Dialer{LocalAddr: ap(home), Timeouts: Timeouts{Connect: 100 * time.Millisecond}}).DialAddr(ctx, l.Addr())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	r, err := l.Accept(ctx)
	require.NoError(t, err)
	c, err := r.Accept(ctx, AcceptConfig{})
	if iwarp() { // the peer's kernel holds on to it for a few seconds more
		require.NoError(t, err)
		_, err = c.Recv(ctx, nil)
		require.NoError(t, c.Close())
	}
	require.ErrorIs(t, err, ErrDisconnected)
}

// A peer that vanishes without a word, as a host does that loses power, is
// noticed by the first request that it does not acknowledge.
func TestPairPeerVanished(t *testing.T) {
	needTopo(t, "pair")
	var pd *ibv.PD
	var cq *ibv.CQ
	t.Cleanup(func() { // after the connections
		require.NoError(t, cq.Close())
		require.NoError(t, pd.Close())
	})
	client, server := pairUp(t, home, Dialer{LocalAddr: ap(home), Options: Options{AckTimeout: 14}}, AcceptConfig{Resources: func(c *ibv.Context) (r Resources, err error) {
		if pd, err = c.AllocPD(); err != nil {
			return r, err
		}
		cq, err = c.CreateCQ(ibv.CQConfig{Size: 8})
		return Resources{PD: pd, QP: ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 1, MaxRecv: 1}}, err
	}})
	require.NoError(t, server.QP().Modify(ibv.QPAttr{State: ibv.QPReset}, ibv.AttrState)) // deaf from here on
	err := client.Send(within(t, time.Minute), []byte("railbind"))
	if iwarp() { // siw closes its socket with the queue pair, and TCP says so
		if err == nil {
			_, err = client.Recv(within(t, time.Minute), nil)
		}
		require.ErrorIs(t, err, ErrDisconnected)
		return
	}
	require.ErrorIs(t, err, ErrDisconnected)
	require.ErrorIs(t, err, ibv.WCRetryExcErr)
}

// Closing the queue pair of a connection ends it, on both sides.
func TestPairCloseQPOfConn(t *testing.T) {
	needTopo(t, "pair")
	client, server := pairUp(t, home, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
	ctx := within(t, time.Minute)
	require.NoError(t, client.QP().Close())
	_, err := server.Recv(ctx, make([]byte, 10))
	require.ErrorIs(t, err, ErrDisconnected)
	_, err = client.Recv(ctx, make([]byte, 10))
	require.ErrorIs(t, err, ErrDisconnected)
	require.Equal(t, StateDisconnected, client.ID().State())
}

// However Close meets a resolve, a closed id stays closed, and its channel with
// nothing else on it can be closed at once.
func TestPairCloseMeetsResolve(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, 2*time.Minute)
	for i := range 100 {
		ch, err := NewEventChannel()
		require.NoError(t, err)
		id, err := NewID(IDConfig{Channel: ch})
		require.NoError(t, err)
		require.NoError(t, id.Bind(ap(home)))
		done := make(chan error, 1)
		go func() { done <- id.ResolveAddr(ctx, ap(""), ap("10.1.0.77:1")) }()
		time.Sleep(time.Duration(i%25) * time.Millisecond / 2) // anywhere in the step
		require.NoError(t, id.Close())
		require.NoError(t, ch.Close())
		require.ErrorIs(t, <-done, ErrClosed)
		require.Equal(t, StateDestroyed, id.State())
		require.Equal(t, policy.BoundDevice, id.Binding().State)
		require.ErrorIs(t, id.Bind(ap(home)), ErrClosed)
	}
}

// A context that is over before a step leaves the id as it was.
func TestPairContextOver(t *testing.T) {
	needTopo(t, "pair")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	id := newTestID(t, IDConfig{})
	calls := resolveCalls.Load()
	err := id.ResolveAddr(ctx, ap(""), ap("10.1.0.2:1"))
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "neighbour")
	require.Equal(t, calls, resolveCalls.Load())
	require.Equal(t, StateIdle, id.State())
	require.Equal(t, policy.Unbound, id.Binding().State)
	live := within(t, time.Minute)
	require.NoError(t, id.ResolveAddr(live, ap(""), ap("10.1.0.2:1")))
	require.ErrorIs(t, id.ResolveRoute(ctx), context.Canceled)
	require.NoError(t, id.ResolveRoute(live))
}

// The address that was picked for a device has moved before the id was bound.
func TestPairLocalDeviceMoved(t *testing.T) {
	needTopo(t, "pair")
	id := newTestID(t, IDConfig{})
	require.NoError(t, id.Bind(ap("10.2.0.1:0")))
	for _, kept := range []string{"", "b0", dev("rxe1")} {
		require.NoError(t, (&Dialer{LocalDevice: kept}).keptDevice(id, ap("10.2.0.1:0"), ap("10.2.0.2:1")))
	}
	err := (&Dialer{LocalDevice: dev("rxe0")}).keptDevice(id, ap("10.2.0.1:0"), ap("10.2.0.2:1"))
	require.ErrorIs(t, err, ErrBindingLost)
	require.ErrorContains(t, err, dev("rxe1")+" on b0")
}

// A rule for UDP, as the host's sockets may have, is none for RDMA.
func TestPairProtocolRule(t *testing.T) {
	needTopo(t, "pair")
	ip(t, "route add unreachable 10.1.0.0/24 table 55", "route flush table 55")
	ip(t, "rule add pref 90 ipproto udp lookup 55", "rule del pref 90")
	id := newTestID(t, IDConfig{})
	require.NoError(t, id.ResolveAddr(within(t, time.Minute), ap(""), ap("10.1.0.2:1")))
	require.Equal(t, dev("rxe0"), id.Binding().Device)
}

// TestPairCallbackPanics: a function of the caller's that does not return leaves no
// id behind, and the peer hears of it at once.
func TestPairCallbackPanics(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	l := listen(t, home, ListenConfig{})
	before := owned(t, "cm_id")
	broken := func(*ibv.Context) (Resources, error) { panic("broken") }
	require.PanicsWithValue(t, "broken", func() {
		_, _ = (&Dialer{LocalAddr: ap(home), Resources: broken}).DialAddr(ctx, l.Addr())
	})
	refused := make(chan error, 1)
	go func() {
		_, err := (&Dialer{LocalAddr: ap(home)}).DialAddr(ctx, l.Addr())
		refused <- err
	}()
	r, err := l.Accept(ctx)
	require.NoError(t, err)
	require.PanicsWithValue(t, "broken", func() {
		_, _ = r.Accept(ctx, AcceptConfig{Resources: broken})
	})
	require.ErrorIs(t, <-refused, ErrRejected)
	require.Equal(t, before, owned(t, "cm_id"))
}
