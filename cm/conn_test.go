package cm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// listen starts a listener that is closed at the end.
func listen(t *testing.T, local string, cfg ListenConfig) *Listener {
	t.Helper()
	l, err := Listen(ap(local), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// pairUp gives the two ends of a connection over one device.
func pairUp(t *testing.T, local string, d Dialer, acc AcceptConfig) (client, server *Conn) {
	t.Helper()
	client, server = meet(t, listen(t, local, ListenConfig{}), d, acc)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return client, server
}

// meet gives the two ends of a connection to l; the test closes them.
func meet(t *testing.T, l *Listener, d Dialer, acc AcceptConfig) (client, server *Conn) {
	t.Helper()
	type end struct {
		c   *Conn
		err error
	}
	accepted := make(chan end, 1)
	ctx := within(t, time.Minute)
	go func() {
		r, err := l.Accept(ctx)
		if err != nil {
			accepted <- end{nil, err}
			return
		}
		c, err := r.Accept(ctx, acc)
		accepted <- end{c, err}
	}()
	client, err := d.DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	passive := <-accepted
	require.NoError(t, passive.err)
	return client, passive.c
}

func TestPairConnect(t *testing.T) {
	needTopo(t, "pair")
	for _, local := range []string{"10.1.0.1:0", "[fd01::1]:0", "10.2.0.1:0", "[fe80::1%a0]:0"} {
		t.Run(local, func(t *testing.T) {
			bound := netip.AddrPortFrom(ap(local).Addr(), 0)
			client, server := pairUp(t, local, Dialer{LocalAddr: bound}, AcceptConfig{})
			require.Equal(t, client.Binding().Device, server.Binding().Device)
			require.Equal(t, StateConnected, client.ID().State())

			ctx := within(t, time.Minute)
			msg := bytes.Repeat([]byte("railbind"), 100)
			for i := range 50 {
				m := msg[:len(msg)-i]
				require.NoError(t, client.Send(ctx, m))
				buf := make([]byte, 4096)
				n, err := server.Recv(ctx, buf)
				require.NoError(t, err)
				require.Equal(t, m, buf[:n])
				require.NoError(t, server.Send(ctx, buf[:n]))
				n, err = client.Recv(ctx, buf)
				require.NoError(t, err)
				require.Equal(t, m, buf[:n])
			}

			// The end of one side is the end of the other.
			require.NoError(t, client.Close())
			select {
			case <-server.Done():
			case <-ctx.Done():
				t.Fatal("the server never heard of the end")
			}
			_, err := server.Recv(ctx, make([]byte, 10))
			require.ErrorIs(t, err, ErrDisconnected)
			require.ErrorIs(t, server.Send(ctx, msg), ErrDisconnected)
			require.ErrorIs(t, client.Send(ctx, msg), ErrClosed)
		})
	}
}

func TestPairConnectionsOf64Clients(t *testing.T) {
	needTopo(t, "pair")
	const clients, rounds = 64, 20
	l := listen(t, "10.1.0.1:0", ListenConfig{})
	ctx, cancel := context.WithCancelCause(within(t, 4*time.Minute))
	defer cancel(nil)
	var wg sync.WaitGroup
	errs := make(chan error, 2*clients)
	for range clients {
		wg.Add(1)
		go func() { // an echo server
			defer wg.Done()
			errs <- func() error {
				r, err := l.Accept(ctx)
				if err != nil {
					return err
				}
				c, err := r.Accept(ctx, AcceptConfig{})
				if err != nil {
					return err
				}
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Recv(ctx, buf)
					if errors.Is(err, ErrDisconnected) {
						return nil
					}
					if err == nil {
						err = c.Send(ctx, buf[:n])
					}
					if err != nil && !errors.Is(err, ErrDisconnected) {
						return fmt.Errorf("server: %w", err)
					}
				}
			}()
		}()
	}
	for i := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs <- func() error {
				d := Dialer{LocalAddr: ap("10.1.0.1:0"), Timeouts: Timeouts{Connect: time.Minute}}
				c, err := d.DialAddr(ctx, l.Addr())
				if err != nil {
					return err
				}
				defer c.Close()
				buf := make([]byte, 4096)
				for r := range rounds {
					msg := bytes.Repeat([]byte{byte(i), byte(r)}, 1+r*37)
					if err := c.Send(ctx, msg); err != nil {
						return fmt.Errorf("client: %w", err)
					}
					n, err := c.Recv(ctx, buf)
					if err != nil {
						return fmt.Errorf("client: %w", err)
					}
					if !bytes.Equal(msg, buf[:n]) {
						return fmt.Errorf("client %d round %d: other data came back", i, r)
					}
				}
				return nil
			}()
		}()
	}
	go func() { wg.Wait(); close(errs) }()
	for err := range errs {
		if err != nil {
			cancel(err) // the first one says why the others fail
		}
	}
	require.NoError(t, context.Cause(ctx))
}

// A message over the receiver's buffers ends the connection, and says why.
func TestPairMessageTooLong(t *testing.T) {
	needTopo(t, "pair")
	client, server := pairUp(t, "10.1.0.1:0",
		Dialer{LocalAddr: ap("10.1.0.1:0"), Queues: QueueConfig{MaxMessage: 8192}},
		AcceptConfig{Queues: QueueConfig{MaxMessage: 1024}})
	ctx := within(t, time.Minute)
	require.ErrorIs(t, server.Send(ctx, make([]byte, 1025)), syscall.EMSGSIZE, "refused before it is posted")
	err := client.Send(ctx, make([]byte, 2000))
	if err == nil && iwarp() { // TCP has taken it; what the peer makes of it comes later
		_, err = client.Recv(ctx, nil)
	}
	require.ErrorIs(t, err, ErrDisconnected)
	_, err = server.Recv(ctx, make([]byte, 8192))
	require.ErrorIs(t, err, ErrDisconnected)
	var wc *ibv.WCError
	require.ErrorAs(t, err, &wc)
	require.NotEqual(t, ibv.WCFlushErr, wc.Status)
	require.Equal(t, server.QP().Num(), wc.QPNum)
}

// A peer that takes no messages: the sender is told what to look for. (iWARP does not
// wait for a receive: the connection ends.)
func TestPairSendUnanswered(t *testing.T) {
	needTopo(t, "pair")
	if iwarp() {
		return
	}
	client, _ := pairUp(t, "10.1.0.1:0", Dialer{Queues: QueueConfig{SendDepth: 1}}, AcceptConfig{Queues: QueueConfig{RecvDepth: 1}})
	require.NoError(t, client.Send(within(t, time.Minute), []byte("taken")))
	for _, name := range []string{"posted", "waits behind it"} {
		t.Run(name, func(t *testing.T) {
			err := client.Send(within(t, 300*time.Millisecond), []byte("not taken"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, ": no answer; the peer may have no receive posted: it must call Recv")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := client.Send(ctx, []byte("given up"))
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "Recv")
}

// What does not fit the caller's buffer waits for a larger one.
func TestPairShortBuffer(t *testing.T) {
	needTopo(t, "pair")
	client, server := pairUp(t, "10.1.0.1:0", Dialer{LocalAddr: ap("10.1.0.1:0")}, AcceptConfig{})
	ctx := within(t, time.Minute)
	require.NoError(t, client.Send(ctx, []byte("railbind")))
	n, err := server.Recv(ctx, make([]byte, 4))
	require.ErrorIs(t, err, io.ErrShortBuffer)
	require.Equal(t, 8, n)
	buf := make([]byte, n)
	n, err = server.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, "railbind", string(buf[:n]))
}

func TestPairPrivateData(t *testing.T) {
	needTopo(t, "pair")
	// RoCE's messages have a field of fixed size; iWARP's carry the length.
	most, field, over := MaxConnectData, MaxAcceptData, []int{57, 196, 255, 256, 300}
	if iwarp() {
		most, field, over = maxIWARPData, 0, []int{251, 255, 256, 300}
	}
	for _, n := range []int{0, 1, 52, most} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			sent := bytes.Repeat([]byte{0xab}, n)
			l := listen(t, "10.1.0.1:0", ListenConfig{})
			ctx := within(t, time.Minute)
			go func() {
				r, err := l.Accept(ctx)
				if err != nil {
					return
				}
				c, err := r.Accept(ctx, AcceptConfig{Param: ConnParam{PrivateData: r.PrivateData()}})
				if err == nil {
					<-c.Done()
					c.Close()
				}
			}()
			c, err := (&Dialer{Param: ConnParam{PrivateData: sent}, LocalAddr: ap("10.1.0.1:0")}).DialAddr(ctx, l.Addr())
			require.NoError(t, err)
			defer c.Close()
			got := c.ID().PeerData()
			require.Len(t, got, max(field, n), "the field comes padded")
			require.True(t, bytes.Equal(sent, got[:n]))
			require.True(t, bytes.Equal(make([]byte, len(got)-n), got[n:]))
		})
	}
	for _, n := range over {
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		_, err := (&Dialer{Param: ConnParam{PrivateData: make([]byte, n)}, LocalAddr: ap("10.1.0.1:0")}).DialAddr(within(t, time.Minute), l.Addr())
		require.ErrorIs(t, err, ErrPrivateDataTooLong)
		require.ErrorIs(t, err, syscall.EMSGSIZE)
		var pe *PrivateDataError
		require.ErrorAs(t, err, &pe)
		require.Equal(t, PrivateDataError{Got: n, Max: most}, *pe)
	}
}

// An accept with too much private data must not reject the peer: the request
// can still be accepted.
func TestPairAcceptDataTooLong(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, "10.1.0.1:0", ListenConfig{})
	ctx := within(t, time.Minute)
	dialed, over := make(chan error, 1), make(chan struct{})
	defer close(over)
	go func() {
		c, err := (&Dialer{LocalAddr: ap("10.1.0.1:0")}).DialAddr(ctx, l.Addr())
		dialed <- err
		<-over
		c.Close()
	}()
	r, err := l.Accept(ctx)
	require.NoError(t, err)
	most, mostReject := MaxAcceptData, MaxRejectData
	if iwarp() {
		most, mostReject = maxIWARPData, maxIWARPData
	}
	require.ErrorIs(t, r.Reject(make([]byte, mostReject+1)), ErrPrivateDataTooLong)
	pd, err := r.ID().Context().AllocPD()
	require.NoError(t, err)
	defer pd.Close()
	cq, err := r.ID().Context().CreateCQ(ibv.CQConfig{Size: 8})
	require.NoError(t, err)
	defer cq.Close()
	_, err = r.ID().CreateQP(pd, ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 4, MaxRecv: 4})
	require.NoError(t, err)
	require.ErrorIs(t, r.ID().Accept(ctx, ConnParam{PrivateData: make([]byte, most+1)}), ErrPrivateDataTooLong)
	require.NoError(t, r.ID().Accept(ctx, ConnParam{PrivateData: make([]byte, most)}))
	require.NoError(t, <-dialed)
	require.NoError(t, r.Close())
}

func TestPairRefusals(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	d := Dialer{LocalAddr: ap("10.1.0.1:0")}

	t.Run("nobody listens", func(t *testing.T) {
		_, err := d.Dial(ctx, "10.1.0.1:9")
		require.ErrorIs(t, err, ErrConnRefused)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.ErrorContains(t, err, "10.1.0.1:9")
		require.ErrorContains(t, err, dev("rxe0"))
	})
	t.Run("listener gone", func(t *testing.T) {
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		addr := l.Addr()
		require.NoError(t, l.Close())
		_, err := d.DialAddr(ctx, addr)
		require.ErrorIs(t, err, ErrConnRefused)
		_, err = l.Accept(ctx)
		require.ErrorIs(t, err, ErrClosed)
	})
	t.Run("rejected with a reason", func(t *testing.T) {
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		go func() {
			r, err := l.Accept(ctx)
			if err == nil {
				r.Reject([]byte("full"))
			}
		}()
		_, err := d.DialAddr(ctx, l.Addr())
		require.ErrorIs(t, err, ErrRejected)
		var re *RejectError
		require.ErrorAs(t, err, &re)
		if iwarp() {
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.Len(t, re.PrivateData, len("full"))
		} else {
			require.Equal(t, 28, re.Status)
			require.Len(t, re.PrivateData, MaxRejectData)
		}
		require.Equal(t, "full", string(bytes.TrimRight(re.PrivateData, "\x00")))
	})
	t.Run("request closed", func(t *testing.T) {
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		go func() {
			r, err := l.Accept(ctx)
			if err == nil {
				r.Close()
			}
		}()
		_, err := d.DialAddr(ctx, l.Addr())
		require.ErrorIs(t, err, ErrRejected)
	})
	t.Run("silent peer", func(t *testing.T) {
		l := listen(t, "10.1.0.1:0", ListenConfig{}) // nobody accepts
		began := time.Now()
		d := Dialer{LocalAddr: ap("10.1.0.1:0"), Timeouts: Timeouts{Connect: 300 * time.Millisecond}}
		_, err := d.DialAddr(ctx, l.Addr())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, syscall.ETIMEDOUT)
		require.ErrorContains(t, err, "connect")
		require.Less(t, time.Since(began), 30*time.Second, "the kernel's own timeout is 78 to 102 s")
	})
	t.Run("given up", func(t *testing.T) {
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		c, cancel := context.WithCancel(ctx)
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := d.DialAddr(c, l.Addr())
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, syscall.ETIMEDOUT)
	})
}

// Case 32: no client of a full queue is left hanging; the overflow is counted.
func TestPairBacklog(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, "10.1.0.1:0", ListenConfig{Backlog: 1})
	ctx := within(t, 2*time.Minute)
	const clients = 4
	errs := make(chan error, clients)
	for range clients {
		go func() {
			c, err := (&Dialer{LocalAddr: ap("10.1.0.1:0"), Timeouts: Timeouts{Connect: time.Minute}}).DialAddr(ctx, l.Addr())
			if err == nil {
				defer c.Close()
			}
			errs <- err
		}()
	}
	if !iwarp() { // where TCP's own backlog may hold all of them
		require.Eventually(t, func() bool { return l.Stats().Dropped > 0 }, time.Minute, 10*time.Millisecond)
	}
	go func() {
		for {
			r, err := l.Accept(ctx)
			if err != nil {
				return
			}
			c, err := r.Accept(ctx, AcceptConfig{})
			if err == nil {
				defer c.Close()
			}
		}
	}()
	ok := 0
	for range clients {
		if err := <-errs; err == nil {
			ok++
		} else if iwarp() { // some wait in TCP's own backlog until they give up
			require.True(t, errors.Is(err, ErrRejected) || errors.Is(err, ErrUnreachable), "%v", err)
		} else {
			require.ErrorIs(t, err, ErrRejected)
		}
	}
	require.Positive(t, ok)
	if !iwarp() {
		require.Equal(t, uint64(clients-ok), l.Stats().Dropped)
	}
}

func TestPairStepsOutOfOrder(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	id := newTestID(t, IDConfig{})
	require.ErrorIs(t, id.ResolveRoute(ctx), ErrState)
	require.ErrorIs(t, id.ResolveRoute(ctx), syscall.EINVAL)
	require.ErrorIs(t, id.Connect(ctx, ConnParam{}), ErrState)
	require.ErrorIs(t, id.Accept(ctx, ConnParam{}), ErrState)
	require.ErrorIs(t, id.Reject(nil), ErrState)
	require.ErrorIs(t, id.Listen(0), ErrState)
	require.ErrorIs(t, id.Disconnect(), ErrState)
	_, err := id.GetRequest(ctx)
	require.ErrorIs(t, err, ErrState)
	_, err = id.CreateQP(nil, ibv.QPConfig{})
	require.ErrorIs(t, err, ErrState)
	require.NoError(t, id.Bind(ap("10.1.0.1:0")))
	require.ErrorIs(t, id.Bind(ap("10.1.0.1:0")), ErrState)
	require.NoError(t, id.ResolveAddr(ctx, ap(""), ap("10.1.0.1:1")))
	require.ErrorIs(t, id.ResolveAddr(ctx, ap(""), ap("10.1.0.1:1")), ErrState)
	require.ErrorIs(t, id.Connect(ctx, ConnParam{}), ErrState)
	require.NoError(t, id.ResolveRoute(ctx))
	err = id.Connect(ctx, ConnParam{})
	require.ErrorIs(t, err, ErrState)
	require.ErrorContains(t, err, "CreateQP")

	require.NoError(t, id.Close())
	require.NoError(t, id.Close())
	require.ErrorIs(t, id.Bind(ap("10.1.0.1:0")), ErrClosed)
	require.ErrorIs(t, id.ResolveAddr(ctx, ap(""), ap("10.1.0.1:1")), ErrClosed)
	require.ErrorIs(t, id.Err(), ErrClosed)
	require.Equal(t, StateDestroyed, id.State())
	var none *ID
	require.NoError(t, none.Close())
	require.ErrorIs(t, none.Bind(ap("10.1.0.1:0")), ErrClosed)
	require.Equal(t, StateDestroyed, none.State())
}

// Close ends whatever waits.
func TestPairCloseDuringWait(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	t.Run("resolve", func(t *testing.T) {
		id := newTestID(t, IDConfig{Timeouts: Timeouts{ResolveAddr: time.Minute}})
		require.NoError(t, id.Bind(ap("10.1.0.1:0")))
		done := make(chan error, 1)
		go func() { done <- id.ResolveAddr(ctx, ap(""), ap("10.1.0.77:1")) }()
		require.Eventually(t, func() bool { return id.State() == StateResolving }, time.Minute, time.Millisecond)
		require.ErrorIs(t, id.Bind(ap("10.1.0.1:0")), ErrConcurrent)
		require.NoError(t, id.Close())
		require.ErrorIs(t, <-done, ErrClosed)
	})
	t.Run("accept", func(t *testing.T) {
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		done := make(chan error, 1)
		go func() {
			_, err := l.Accept(ctx)
			done <- err
		}()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-done, ErrClosed)
	})
	t.Run("recv", func(t *testing.T) {
		client, _ := pairUp(t, "10.1.0.1:0", Dialer{LocalAddr: ap("10.1.0.1:0")}, AcceptConfig{})
		done := make(chan error, 1)
		go func() {
			_, err := client.Recv(ctx, make([]byte, 10))
			done <- err
		}()
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-done, ErrClosed)
	})
}

func TestPairForeignPD(t *testing.T) {
	needTopo(t, "pair")
	other, err := ibv.Open(dev("rxe0"))
	require.NoError(t, err)
	defer other.Close()
	pd, err := other.AllocPD()
	require.NoError(t, err)
	defer pd.Close()
	cq, err := other.CreateCQ(ibv.CQConfig{Size: 8})
	require.NoError(t, err)
	defer cq.Close()
	id := newTestID(t, IDConfig{})
	require.NoError(t, id.Bind(ap("10.1.0.1:0")))
	_, err = id.CreateQP(pd, ibv.QPConfig{SendCQ: cq, RecvCQ: cq})
	require.ErrorIs(t, err, ibv.ErrForeignContext)
	require.ErrorIs(t, err, syscall.EXDEV)
	require.ErrorContains(t, err, dev("rxe0"))
}

// Two listeners, one per rail, and one for all: each connection says where it
// landed, and a pinned listener's connections land on its device only.
func TestPairListenerBinding(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, "0.0.0.0:0", ListenConfig{})
	ctx := within(t, time.Minute)
	for _, c := range []struct{ addr, device, netdev string }{{"10.1.0.1", "rxe0", "a0"}, {"10.2.0.1", "rxe1", "b0"}} {
		done, over := make(chan error, 1), make(chan struct{})
		local := netip.MustParseAddr(c.addr)
		go func() {
			conn, err := (&Dialer{LocalAddr: netip.AddrPortFrom(local, 0)}).DialAddr(ctx, netip.AddrPortFrom(local, l.Addr().Port()))
			done <- err
			<-over
			conn.Close()
		}()
		r, err := l.Accept(ctx)
		require.NoError(t, err)
		require.Equal(t, dev(c.device), r.Binding().Device)
		require.Equal(t, c.netdev, r.Binding().Netdev)
		require.Equal(t, local, r.LocalAddr().Addr())
		conn, err := r.Accept(ctx, AcceptConfig{})
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.NoError(t, conn.Close())
		close(over)
	}
}

func TestPairEventChannel(t *testing.T) {
	needTopo(t, "pair")
	ch, err := NewEventChannel()
	require.NoError(t, err)
	id, err := NewID(IDConfig{Channel: ch})
	require.NoError(t, err)
	require.ErrorIs(t, ch.Close(), ibv.ErrBusy)
	require.NoError(t, id.Close())
	require.NoError(t, ch.Close())
	require.NoError(t, ch.Close())
	_, err = NewID(IDConfig{Channel: ch})
	require.ErrorIs(t, err, ErrClosed)
}

// threads is how many OS threads the process has.
func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	return len(tasks)
}

// What is made is unmade: no kernel object of ours is left.
func TestPairNothingLeft(t *testing.T) {
	needTopo(t, "pair")
	count := func() [2]int { return [2]int{owned(t, "qp"), owned(t, "mr")} }
	before := count()
	for range 20 {
		client, server := pairUp(t, "10.1.0.1:0", Dialer{LocalAddr: ap("10.1.0.1:0")}, AcceptConfig{})
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	}
	require.Equal(t, before, count())
}
