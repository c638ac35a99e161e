//go:build linux

package cm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// besieged is a listener for a test of hostile peers. At the test's end an honest
// client must be served, and nothing be held that was not held before.
func besieged(t *testing.T, cfg ListenConfig) *Listener {
	t.Helper()
	l, err := Listen(ap(home), cfg)
	require.NoError(t, err)
	honest(t, l) // what the process makes once is there after it
	before := holdings(t)
	t.Cleanup(func() {
		honest(t, l)
		awaitHoldings(t, before)
		require.NoError(t, l.Close())
	})
	return l
}

// honest has a client served by l.
func honest(t *testing.T, l *Listener) {
	t.Helper()
	ctx := within(t, time.Minute)
	client, server := meet(t, l, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
	buf := make([]byte, 10)
	for _, c := range [][2]*Conn{{client, server}, {server, client}} {
		require.NoError(t, c[0].Send(ctx, []byte("railbind")))
		n, err := c[1].Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, "railbind", string(buf[:n]))
	}
	require.NoError(t, client.Close())
	require.NoError(t, server.Close())
}

// framed is how a frame begins.
var framed = []byte{frameMark >> 8, frameMark & 0xff}

// garbage is private data of short and long lengths, and frames of false lengths.
func garbage() (out [][]byte) {
	r := rand.New(rand.NewPCG(6, 2))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 20, MaxConnectData - 1, MaxConnectData} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		out = append(out, b)
	}
	for _, n := range []uint16{0, 1, 3, 4, 51, 52, 53, 0x7fff, 0xffff} {
		out = append(out, append(binary.BigEndian.AppendUint16(framed[:2:2], n), 0, 0, 7))
	}
	return out
}

// requireUnframed wants Unframe to find in a field what Frame would have put
// there, or nothing.
func requireUnframed(t *testing.T, field []byte) {
	t.Helper()
	data, err := Unframe(field)
	if err != nil {
		require.ErrorIs(t, err, ErrNotFramed)
		return
	}
	frame, err := Frame(data, len(field))
	require.NoError(t, err)
	require.Equal(t, field, append(frame, make([]byte, len(field)-len(frame))...))
}

// TestPairHostilePrivateData: what a peer puts into its request, or into its
// answer, is its bytes and no more.
func TestPairHostilePrivateData(t *testing.T) {
	needTopo(t, "pair")
	l := besieged(t, ListenConfig{})
	ctx := within(t, 2*time.Minute)
	for _, data := range garbage() {
		dialed := make(chan error, 1)
		go func() {
			_, err := (&Dialer{LocalAddr: ap(home), Param: ConnParam{PrivateData: data}}).DialAddr(ctx, l.Addr())
			dialed <- err
		}()
		r, err := l.Accept(ctx)
		require.NoError(t, err)
		got := r.PrivateData()
		require.Equal(t, append(data, make([]byte, len(got)-len(data))...), append([]byte{}, got...))
		requireUnframed(t, got)

		answer := bytes.Repeat(data, 2)
		require.NoError(t, r.Reject(answer))
		var no *RejectError
		require.ErrorAs(t, <-dialed, &no)
		require.True(t, bytes.HasPrefix(no.PrivateData, answer))
		requireUnframed(t, no.PrivateData)
	}
}

// soon is a deadline that a test waits for.
func soon(t *testing.T) context.Context { return within(t, 300*time.Millisecond) }

// mute asks l for a connection, and leaves it at that: it takes the answer, if one
// comes, and does not say so.
func mute(ctx context.Context, l *Listener) (end func() error, err error) {
	id, err := NewID(IDConfig{})
	if err != nil {
		return nil, err
	}
	var pd *ibv.PD
	var cq *ibv.CQ
	var qp *ibv.QP
	end = func() error { return errors.Join(id.Close(), qp.Close(), cq.Close(), pd.Close()) }
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	if err = errors.Join(id.ResolveAddr(ctx, ap(home), l.Addr()), id.ResolveRoute(ctx)); err != nil {
		return nil, err
	}
	if pd, err = id.Context().AllocPD(); err != nil {
		return nil, err
	}
	if cq, err = id.Context().CreateCQ(ibv.CQConfig{Size: 8}); err != nil {
		return nil, err
	}
	if qp, err = pd.CreateQP(ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 1, MaxRecv: 1}); err != nil {
		return nil, err
	}
	if err = id.Move(qp, ibv.QPInit); err != nil {
		return nil, err
	}
	return end, id.Connect(ctx, ConnParam{QP: qp})
}

// TestPairHostilePeers: peers that do not do what they should cost their own
// connection, and the time that the caller has set.
func TestPairHostilePeers(t *testing.T) {
	needTopo(t, "pair")
	l := besieged(t, ListenConfig{})
	ctx := within(t, 5*time.Minute)
	for _, c := range []struct {
		name string
		peer func(t *testing.T)
	}{
		{"never answers, and late", func(t *testing.T) {
			_, err := (&Dialer{LocalAddr: ap(home)}).DialAddr(soon(t), l.Addr())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			r, err := l.Accept(ctx)
			require.NoError(t, err)
			server, err := r.Accept(ctx, AcceptConfig{})
			if err == nil { // iWARP's kernel holds on to it for a while
				_, err = server.Recv(ctx, nil)
				require.NoError(t, server.Close())
			}
			require.ErrorIs(t, err, ErrDisconnected)
		}},
		{"never establishes", func(t *testing.T) {
			if iwarp() {
				return // whose kernel establishes by itself
			}
			muted := make(chan error, 1)
			hush := make(chan struct{})
			go func() {
				end, err := mute(ctx, l)
				if err == nil {
					<-hush
					err = end()
				}
				muted <- err
			}()
			r, err := l.Accept(ctx)
			require.NoError(t, err)
			_, err = r.Accept(soon(t), AcceptConfig{})
			close(hush)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, <-muted)
		}},
		{"says nothing", func(t *testing.T) {
			client, server := meet(t, l, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
			_, err := server.Recv(soon(t), nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, server.Close())
			require.NoError(t, client.Close())
		}},
		{"takes nothing", func(t *testing.T) {
			var own Resources
			client, server := meet(t, l, Dialer{LocalAddr: ap(home), Resources: func(c *ibv.Context) (_ Resources, err error) {
				if own.PD, err = c.AllocPD(); err != nil {
					return own, err
				}
				own.QP.RecvCQ, err = c.CreateCQ(ibv.CQConfig{Size: 8})
				own.QP.SendCQ, own.QP.MaxSend, own.QP.MaxRecv = own.QP.RecvCQ, 1, 1
				return own, err
			}}, AcceptConfig{})
			var err error
			for short := soon(t); err == nil; {
				err = server.Send(short, make([]byte, 1000))
			}
			if iwarp() {
				require.ErrorIs(t, err, ErrDisconnected)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			require.NoError(t, server.Close())
			require.NoError(t, errors.Join(client.Close(), own.QP.RecvCQ.Close(), own.PD.Close()))
		}},
		{"fills every receive", func(t *testing.T) {
			client, server := meet(t, l, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
			var err error
			for short := soon(t); err == nil; {
				err = client.Send(short, make([]byte, 4096))
			}
			require.NoError(t, server.Close())
			require.ErrorIs(t, client.Send(ctx, nil), ErrDisconnected)
			require.NoError(t, client.Close())
		}},
		{"sends more than a receive takes", func(t *testing.T) {
			client, server := meet(t, l, Dialer{LocalAddr: ap(home), Queues: QueueConfig{MaxMessage: 1 << 20}}, AcceptConfig{})
			_ = client.Send(ctx, bytes.Repeat([]byte{0xca}, 1<<20))
			_, err := server.Recv(ctx, nil)
			require.ErrorIs(t, err, ErrDisconnected)
			first := server.m.q.SendDepth * server.m.q.MaxMessage // the receive that the message went to
			for i, b := range server.m.mr.Bytes() {
				require.True(t, b == 0 || i >= first && i < first+server.m.q.MaxMessage, "byte %d of the buffers", i)
			}
			require.NoError(t, client.Close())
			require.NoError(t, server.Close())
		}},
	} {
		t.Run(c.name, c.peer)
		honest(t, l)
	}
}

// TestPairHostileFlood: connects in great number, honest and not, a few at a time.
// RAILBIND_FLOOD says how many.
func TestPairHostileFlood(t *testing.T) {
	needTopo(t, "pair")
	attempts := 100
	if n, err := strconv.Atoi(os.Getenv("RAILBIND_FLOOD")); err == nil {
		attempts = n
	}
	l := besieged(t, ListenConfig{})
	ctx := within(t, time.Hour)

	var mu sync.Mutex
	ends := map[string]int{}
	count := func(who string, err error) {
		end := "well"
		for _, is := range []error{ErrDisconnected, ErrRejected, ErrClosed, context.Canceled} {
			if errors.Is(err, is) {
				end = is.Error()
				err = nil
			}
		}
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
		mu.Lock()
		ends[who+": "+end]++
		mu.Unlock()
	}

	var serving sync.WaitGroup
	stop, cancel := context.WithCancel(ctx)
	serving.Go(func() {
		for {
			r, err := l.Accept(stop)
			if err != nil {
				return
			}
			serving.Go(func() { count("server", serveOne(ctx, r)) })
		}
	})

	kinds := []struct {
		name string
		try  func() error
	}{
		{"honest", func() error {
			c, err := dialHome(ctx, l)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Send(ctx, []byte("railbind")); err != nil {
				return err
			}
			_, err = c.Recv(ctx, make([]byte, 10))
			return err
		}},
		{"leaves at once", func() error {
			c, err := dialHome(ctx, l)
			return errors.Join(err, c.Close())
		}},
		{"asks with garbage", func() error {
			_, err := (&Dialer{LocalAddr: ap(home), Param: ConnParam{PrivateData: append(framed[:2:2], 1)}}).DialAddr(ctx, l.Addr())
			return err
		}},
		{"does not wait", func() error {
			c, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, cancel)
			conn, err := dialHome(c, l)
			return errors.Join(err, conn.Close())
		}},
		{"never establishes", func() error {
			end, err := mute(ctx, l)
			if err != nil {
				return err
			}
			return end()
		}},
	}
	if iwarp() { // which knows no queue pair apart from the connection
		kinds = kinds[:len(kinds)-1]
	}
	began := time.Now()
	var workers sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(attempts); i = next.Add(1) {
				k := kinds[i%int64(len(kinds))]
				count(k.name, k.try())
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	cancel()
	serving.Wait()
	require.Zero(t, ends["honest: "+ErrDisconnected.Error()]+ends["honest: "+ErrRejected.Error()])
	t.Logf("%d attempts in %v: %v", attempts, took.Round(time.Millisecond), ends)
}

// serveOne answers a request, and echoes one message.
func serveOne(ctx context.Context, r *Request) error {
	if bytes.HasPrefix(r.PrivateData(), framed) {
		if _, err := Unframe(r.PrivateData()); err != nil {
			return r.Reject(nil)
		}
	}
	c, err := r.Accept(ctx, AcceptConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 100)
	n, err := c.Recv(ctx, buf)
	if err == nil {
		err = c.Send(ctx, buf[:n])
		<-c.Done()
	}
	return err
}
