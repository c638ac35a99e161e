//go:build linux && cgo

package ibv

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestPairOperations moves checked data with every operation, over memory of
// each kind.
func TestPairOperations(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256}})
	const n = 5000 // more than one packet
	slice, err := a.pd.Register(make([]byte, 2*n), LocalWrite)
	slice = autoClose(t, slice, err)
	buf, err := NewBuffer(2*n, BufferConfig{})
	buf = autoClose(t, buf, err)
	onBuffer, err := a.pd.RegisterBuffer(buf, LocalWrite)
	onBuffer = autoClose(t, onBuffer, err)
	require.ErrorIs(t, buf.Close(), ErrBusy)

	recv := func(id uint64, sges ...SGE) {
		t.Helper()
		require.NoError(t, b.qp.PostRecv(RecvWR{ID: id, SGEs: sges}))
	}
	send := func(w SendWR) WC {
		t.Helper()
		require.NoError(t, a.qp.PostSend(w))
		return waitOK(t, a.scq, 1)[0]
	}
	for kind, local := range map[string]*MR{"off-heap": a.mr, "slice": slice, "buffer": onBuffer} {
		t.Run(kind, func(t *testing.T) {
			src, dst := local.Bytes()[:n], b.mr.Bytes()[100:100+n]

			fill(src, 1)
			recv(11, b.mr.SGE(100, n))
			w := send(SendWR{ID: 21, SGEs: []SGE{local.SGE(0, n)}})
			require.Equal(t, uint64(21), w.ID())
			require.Equal(t, WCSend, w.Opcode())
			require.Equal(t, a.qp.Num(), w.QPNum())
			w = waitOK(t, b.rcq, 1)[0]
			require.Equal(t, uint64(11), w.ID())
			require.Equal(t, WCRecv, w.Opcode())
			require.Equal(t, n, w.Len())
			require.Equal(t, RecvQueue, w.Queue())
			require.False(t, second2(w.Imm()))
			requirePattern(t, dst, 1)

			fill(src, 2)
			recv(12, b.mr.SGE(100, n))
			send(SendWR{Op: OpSendImm, Imm: 0xdeadbeef, SGEs: []SGE{local.SGE(0, n)}})
			w = waitOK(t, b.rcq, 1)[0]
			imm, ok := w.Imm()
			require.True(t, ok)
			require.Equal(t, uint32(0xdeadbeef), imm)
			requirePattern(t, dst, 2)

			fill(src, 3)
			w = send(SendWR{Op: OpWrite, Remote: b.mr.Remote(100), SGEs: []SGE{local.SGE(0, n)}})
			require.Equal(t, WCWrite, w.Opcode())
			requirePattern(t, dst, 3)

			fill(src, 4)
			recv(13)
			send(SendWR{Op: OpWriteImm, Imm: 0x01020304, Remote: b.mr.Remote(100), SGEs: []SGE{local.SGE(0, n)}})
			w = waitOK(t, b.rcq, 1)[0]
			require.Equal(t, WCRecvWithImm, w.Opcode())
			require.Equal(t, n, w.Len())
			imm, ok = w.Imm()
			require.True(t, ok)
			require.Equal(t, uint32(0x01020304), imm)
			requirePattern(t, dst, 4)

			fill(dst, 5)
			w = send(SendWR{Op: OpRead, Remote: b.mr.Remote(100), SGEs: []SGE{local.SGE(n, n)}})
			require.Equal(t, WCRead, w.Opcode())
			require.Equal(t, n, w.Len())
			requirePattern(t, local.Bytes()[n:2*n], 5)

			word, result := b.mr.Bytes()[8192:8200], local.Bytes()[16:24]
			binary.NativeEndian.PutUint64(word, 40)
			w = send(SendWR{Op: OpFetchAdd, Remote: b.mr.Remote(8192), Add: 2, SGEs: []SGE{local.SGE(16, 8)}})
			require.Equal(t, WCFetchAdd, w.Opcode())
			require.Equal(t, uint64(40), binary.NativeEndian.Uint64(result))
			require.Equal(t, uint64(42), binary.NativeEndian.Uint64(word))
			w = send(SendWR{Op: OpCompareSwap, Remote: b.mr.Remote(8192), Compare: 42, Swap: 7, SGEs: []SGE{local.SGE(16, 8)}})
			require.Equal(t, WCCompSwap, w.Opcode())
			require.Equal(t, uint64(42), binary.NativeEndian.Uint64(result))
			require.Equal(t, uint64(7), binary.NativeEndian.Uint64(word))
			send(SendWR{Op: OpCompareSwap, Remote: b.mr.Remote(8192), Compare: 42, Swap: 8, SGEs: []SGE{local.SGE(16, 8)}})
			require.Equal(t, uint64(7), binary.NativeEndian.Uint64(result))
			require.Equal(t, uint64(7), binary.NativeEndian.Uint64(word))

			recv(14, b.mr.SGE(0, 16))
			send(SendWR{}) // no data at all
			require.Zero(t, waitOK(t, b.rcq, 1)[0].Len())
		})
	}
}

func second2[A, B any](_ A, b B) B { return b }

// TestPairPieces gathers from and scatters to 1, 2 and 4 pieces, and sends
// inline data of 1, 2 and 4.
func TestPairPieces(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256}})
	send, err := a.qp.NewSendBatch(BatchConfig{SGEs: 4, Inline: 256})
	require.NoError(t, err)
	recv, err := b.qp.NewRecvBatch(BatchConfig{SGEs: 4})
	require.NoError(t, err)
	for _, pieces := range []int{1, 2, 4} {
		for _, size := range []int{1, 24, 64} {
			t.Run(fmt.Sprintf("%d pieces of %d", pieces, size), func(t *testing.T) {
				total := pieces * size
				want := make([]byte, total)
				fill(want, pieces+size)
				var from, to []SGE
				var data [][]byte
				for i := range pieces {
					piece := want[i*size : (i+1)*size]
					data = append(data, append([]byte{}, piece...))
					copy(a.mr.Bytes()[i*1000:], piece)
					from = append(from, a.mr.SGE(i*1000, size))
					to = append(to, b.mr.SGE(i*2000, size))
				}
				received := func() (out []byte) {
					for i := range pieces {
						out = append(out, b.mr.Bytes()[i*2000:i*2000+size]...)
					}
					return out
				}
				for name, set := range map[string]func() error{
					"gather":       func() error { return send.Send(0, from...) },
					"inline":       func() error { return send.SendInline(0, data...) },
					"write":        func() error { return send.Write(0, b.mr.Remote(30000), from...) },
					"inline write": func() error { return send.WriteInline(0, b.mr.Remote(30000), data...) },
				} {
					clear(b.mr.Bytes())
					require.NoError(t, set(), name)
					if strings.HasSuffix(name, "write") {
						require.NoError(t, second(send.Post()))
						waitOK(t, a.scq, 1)
						require.Equal(t, want, b.mr.Bytes()[30000:30000+total], name)
						continue
					}
					require.NoError(t, recv.Recv(0, to...))
					require.NoError(t, second(recv.Post()))
					require.NoError(t, second(send.Post()))
					// Inline data is in the request: the batch is free at once.
					for _, d := range data {
						clear(d)
					}
					clear(send.inline)
					waitOK(t, a.scq, 1)
					require.Equal(t, total, waitOK(t, b.rcq, 1)[0].Len())
					require.Equal(t, want, received(), name)
					for i := range data {
						copy(data[i], want[i*size:])
					}
				}
			})
		}
	}
	require.ErrorIs(t, a.qp.PostSend(SendWR{Inline: make([]byte, a.qp.Cap().MaxInline+1)}), ErrInlineTooLong)
}

// TestPairBatch runs chains of sends and receives, signalled by the last.
func TestPairBatch(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxSend: 64, MaxRecv: 64}})
	const n, size = 16, 256
	send, err := a.qp.NewSendBatch(BatchConfig{Requests: n})
	require.NoError(t, err)
	recv, err := b.qp.NewRecvBatch(BatchConfig{Requests: n})
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, send.SendImm(i, uint32(i), a.mr.SGE(i*size, size)))
		send.SetFlags(i, Unsignaled)
		require.NoError(t, recv.Recv(i, b.mr.SGE(i*size, size)))
		recv.SetID(i, uint64(i))
	}
	send.SetFlags(n-1, 0)
	for round := range 50 {
		fill(a.mr.Bytes()[:n*size], round)
		require.NoError(t, second(recv.Post()))
		send.SetID(n-1, uint64(round))
		k, err := send.Post()
		require.NoError(t, err)
		require.Equal(t, n, k)
		require.Equal(t, uint64(round), waitOK(t, a.scq, 1)[0].ID())
		for i, w := range waitOK(t, b.rcq, n) {
			require.Equal(t, uint64(i), w.ID())
			imm, _ := w.Imm()
			require.Equal(t, uint32(i), imm)
		}
		requirePattern(t, b.mr.Bytes()[:n*size], round)
	}
}

// TestPairMTU: a message of a megabyte, cut to the path MTU that the network
// device's MTU leaves when the ends connect.
func TestPairMTU(t *testing.T) {
	needRDMA(t)
	for _, c := range []struct {
		device, netdev string
		mtu            int
		want           MTU
	}{
		{"rxe0", "a0", 4200, MTU4096}, {"rxe1", "b0", 2200, MTU2048}, // as the topology has them
		{"rxe0", "a0", 9000, MTU4096}, {"rxe0", "a0", 2200, MTU2048}, {"rxe0", "a0", 1500, MTU1024}, {"rxe0", "a0", 4200, MTU4096},
	} {
		mend(t, Finding{Do: []string{fmt.Sprintf("ip link set %s mtu %d", c.netdev, c.mtu)}})
		a, b := newPair(t, endConfig{device: c.device, mr: 1 << 20})
		requireMegabyte(t, a, b)
		attr, err := a.qp.Query()
		require.NoError(t, err)
		require.Equal(t, QPRTS, attr.State)
		require.Equal(t, c.want, attr.PathMTU, "MTU %d", c.mtu)
		p, err := a.ctx.QueryPort(1)
		require.NoError(t, err)
		require.Equal(t, p.ActiveMTU, attr.PathMTU)
		require.Equal(t, b.qp.Num(), attr.DestQPNum)
		require.Equal(t, 16, attr.MaxRdAtomic)
		row, err := a.ctx.QueryGID(attr.Port, attr.AH.SGIDIndex)
		require.NoError(t, err)
		require.Equal(t, addrOf(c.device), row.GID.Addr())
	}
}

// requireMegabyte writes one to b and reads it back.
func requireMegabyte(t *testing.T, a, b *end) {
	t.Helper()
	all := []SGE{a.mr.SGE(0, 1<<20)}
	fill(a.mr.Bytes(), 3)
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: all}))
	waitOK(t, a.scq, 1)
	requirePattern(t, b.mr.Bytes(), 3)
	clear(a.mr.Bytes())
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpRead, Remote: b.mr.Remote(0), SGEs: all}))
	waitOK(t, a.scq, 1)
	requirePattern(t, a.mr.Bytes(), 3)
}

// TestPairMTUOfBothEnds: two ports with different MTUs meet at the smaller one,
// which both ends have to be told; otherwise the one that takes less refuses.
func TestPairMTUOfBothEnds(t *testing.T) {
	needRDMA(t)
	for _, c := range []struct {
		a, b MTU
		err  error
	}{{MTU1024, MTU1024, nil}, {MTU256, MTU256, nil}, {MTU4096, MTU1024, WCRemInvReqErr}} {
		a, b := newEnd(t, endConfig{mr: 1 << 20}), newEnd(t, endConfig{mr: 1 << 20})
		connectWith(t, a, b, ConnectConfig{MTU: c.a}, ConnectConfig{MTU: c.b})
		if c.err == nil {
			requireMegabyte(t, a, b)
			continue
		}
		require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 1<<20)}}))
		require.ErrorIs(t, wait(t, a.scq, 1)[0].Err(), c.err)
	}
}

// TestPairArmRace: a completion that is there when the CQ is armed raises no
// event; Wait finds it all the same. And events wake who waits.
func TestPairArmRace(t *testing.T) {
	a, b := newPair(t, endConfig{})
	write := SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}}
	for range 200 {
		require.NoError(t, a.qp.PostSend(write))
		// Once the data is there the completion is near: sometimes before the
		// first poll of Wait, sometimes between that and arming, sometimes after.
		waitOK(t, a.scq, 1)
	}
	start := time.Now()
	for i := range 200 {
		// Ping-pong: each side sleeps until the other's message arrives.
		require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 8)}}))
		require.NoError(t, a.qp.PostRecv(RecvWR{SGEs: []SGE{a.mr.SGE(8, 8)}}))
		a.mr.Bytes()[0] = byte(i)
		require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(0, 8)}}))
		waitOK(t, b.rcq, 1)
		require.NoError(t, b.qp.PostSend(SendWR{SGEs: []SGE{b.mr.SGE(0, 8)}}))
		waitOK(t, a.rcq, 1)
		require.Equal(t, byte(i), a.mr.Bytes()[8])
		waitOK(t, a.scq, 1)
		waitOK(t, b.scq, 1)
	}
	require.Less(t, time.Since(start), 15*time.Second, "waits end by timeouts, not by events")
}

// TestPairSolicited: a CQ that waits for solicited messages sleeps through others.
func TestPairSolicited(t *testing.T) {
	needRDMA(t)
	a, b := newEnd(t, endConfig{}), newEnd(t, endConfig{})
	cq, err := b.ctx.CreateCQ(CQConfig{Channel: b.ch, SolicitedOnly: true})
	cq = autoClose(t, cq, err)
	require.NoError(t, b.qp.Close())
	qp, err := b.pd.CreateQP(QPConfig{SendCQ: b.scq, RecvCQ: cq})
	b.qp = autoClose(t, qp, err)
	connect(t, a, b, ConnectConfig{})
	for range 2 {
		require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 8)}}))
	}
	got := make(chan int)
	go func() {
		var wcs [4]WC
		n, _ := cq.Wait(context.Background(), wcs[:])
		got <- n
	}()
	for cq.bell.waiters.Load() == 0 {
		runtime.Gosched()
	}
	// Let the waiter arm: the first message must find it asleep.
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(0, 8)}}))
	waitOK(t, a.scq, 1)
	select {
	case n := <-got:
		require.Fail(t, "woken by a message that was not solicited", "%d completions", n)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, a.qp.PostSend(SendWR{Flags: Solicited, SGEs: []SGE{a.mr.SGE(0, 8)}}))
	require.Equal(t, 2, <-got)
	waitOK(t, a.scq, 1)
}

// TestPairCompletionErrors: what goes wrong on the wire is a typed error, and
// nothing but status, id and QP number is looked at.
func TestPairCompletionErrors(t *testing.T) {
	t.Run("message longer than the receive", func(t *testing.T) {
		a, b := newPair(t, endConfig{one: true})
		require.NoError(t, b.qp.PostRecv(RecvWR{ID: 5, SGEs: []SGE{b.mr.SGE(0, 1024)}}))
		require.NoError(t, a.qp.PostSend(SendWR{ID: 6, SGEs: []SGE{a.mr.SGE(0, 2000)}}))
		r, s := wait(t, b.rcq, 1)[0], wait(t, a.scq, 1)[0]
		for _, w := range []WC{r, s} {
			require.Error(t, w.Err())
			require.Equal(t, WCInvalid, w.Opcode())
			require.Zero(t, w.Len())
		}
		require.Equal(t, uint64(5), r.ID())
		require.Equal(t, uint64(6), s.ID())
		require.Equal(t, RecvQueue, r.Queue())
		require.Equal(t, SendQueue, s.Queue())
		require.Equal(t, QPErr, a.qp.State())
		require.Equal(t, QPErr, b.qp.State())
	})
	t.Run("wrong key", func(t *testing.T) {
		a, b := newPair(t, endConfig{})
		r := b.mr.Remote(0)
		r.RKey ^= 0xffff
		require.NoError(t, a.qp.PostSend(SendWR{ID: 8, Op: OpWrite, Remote: r, SGEs: []SGE{a.mr.SGE(0, 8)}}))
		w := wait(t, a.scq, 1)[0]
		require.ErrorIs(t, w.Err(), WCRemAccessErr)
		require.ErrorContains(t, w.Err(), fmt.Sprintf("QP %d", a.qp.Num()))
	})
	t.Run("past the peer's region", func(t *testing.T) {
		a, b := newPair(t, endConfig{})
		require.NoError(t, a.qp.PostSend(SendWR{Op: OpRead, Remote: b.mr.Remote(b.mr.Len() - 4), SGEs: []SGE{a.mr.SGE(0, 8)}}))
		require.ErrorIs(t, waitErr(t, a.scq), WCRemAccessErr)
	})
	t.Run("no receive", func(t *testing.T) {
		needRDMA(t)
		a, b := newEnd(t, endConfig{}), newEnd(t, endConfig{})
		connect(t, a, b, ConnectConfig{RNRRetry: 1, MinRNRTimer: 1})
		require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(0, 8)}}))
		require.ErrorIs(t, waitErr(t, a.scq), WCRNRRetryExcErr)
	})
	t.Run("receive posted late", func(t *testing.T) {
		a, b := newPair(t, endConfig{}) // RNR retries for ever
		require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(0, 8)}}))
		time.Sleep(100 * time.Millisecond) // the message is refused meanwhile
		require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 8)}}))
		waitOK(t, a.scq, 1)
		waitOK(t, b.rcq, 1)
	})
	t.Run("flush", func(t *testing.T) {
		a, b := newPair(t, endConfig{one: true})
		for i := range 5 {
			require.NoError(t, b.qp.PostRecv(RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(0, 8)}}))
		}
		require.NoError(t, b.qp.ToError())
		for i, w := range wait(t, b.rcq, 5) {
			require.ErrorIs(t, w.Err(), WCFlushErr)
			require.Equal(t, uint64(i), w.ID())
			require.Equal(t, RecvQueue, w.Queue())
		}
		require.NoError(t, b.mr.Close())
		_ = a
	})
	t.Run("READ without depth", func(t *testing.T) {
		a, b := newPair(t, endConfig{})
		a.qp.Track(QPRTS, 0, 0)
		require.ErrorIs(t, a.qp.PostSend(SendWR{Op: OpRead, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}}), ErrReadDepthZero)
	})
}

func waitErr(t testing.TB, c *CQ) error {
	w := wait(t, c, 1)[0]
	return w.Err()
}

// TestPairBadWR: rxe queues a send on a QP that is not ready, and its doorbell
// fails without a word on how many requests it took. Our own check comes first;
// behind it, everything counts as in flight.
func TestPairBadWR(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{qp: QPConfig{MaxInline: 64}})
	require.NoError(t, e.qp.ToInit(ConnectConfig{}))
	w := SendWR{SGEs: []SGE{e.mr.SGE(0, 8)}}
	require.ErrorIs(t, e.qp.PostSend(w), ErrQPState)
	e.qp.Track(QPRTS, 1, 1) // not true
	err := e.qp.PostSend(w)
	require.ErrorIs(t, err, ErrAcceptedUnknown)
	require.ErrorIs(t, err, syscall.EINVAL)
	requireBusy(t, e.mr, e.qp)
	require.NoError(t, e.qp.Close())
}

// TestPairModify: a transition that the kernel refuses is explained, and the
// state is followed through a whole life and another one.
func TestPairModify(t *testing.T) {
	a, b := newPair(t, endConfig{})
	err := a.qp.Modify(QPAttr{State: QPInit, Port: 1}, AttrState|AttrPort)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "no transition RTS -> INIT")
	require.Equal(t, QPRTS, a.qp.State())
	require.NoError(t, a.qp.Reset())
	require.NoError(t, b.qp.Reset())
	require.Equal(t, QPReset, a.qp.State())
	err = a.qp.Modify(QPAttr{State: QPInit, Port: 1}, AttrState|AttrPort)
	require.ErrorContains(t, err, "RESET -> INIT lacks Access, PKeyIndex")
	err = a.qp.Modify(QPAttr{AH: AHAttr{SGIDIndex: 256}}, AttrAH)
	require.ErrorIs(t, err, ErrInvalid)
	connect(t, a, b, ConnectConfig{})
	fill(a.mr.Bytes()[:100], 9)
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 100)}}))
	waitOK(t, a.scq, 1)
	requirePattern(t, b.mr.Bytes()[:100], 9)
	require.NoError(t, a.qp.ToError())
	attr, err := a.qp.Query()
	require.NoError(t, err)
	require.Equal(t, QPErr, attr.State)
	require.Equal(t, a.qp.State(), attr.State)
	require.GreaterOrEqual(t, attr.Cap.MaxSend, 128)
}

// TestPairGarbageCollection: 64 receives are posted, every reference to their
// memory is dropped, the peer sends: the data lands where it should, in memory
// that is still there.
func TestPairGarbageCollection(t *testing.T) {
	for _, kind := range []string{"off-heap", "slice"} {
		t.Run(kind, func(t *testing.T) {
			a, b := newPair(t, endConfig{})
			const n, size = 64, 512
			before := len(Objects())
			var dereg func() error // the handle alone
			mem := func() uintptr {
				var m *MR
				var err error
				if kind == "slice" {
					m, err = b.pd.Register(make([]byte, n*size), LocalWrite)
				} else {
					m, err = b.pd.AllocMR(n*size, LocalWrite)
				}
				require.NoError(t, err)
				batch := recvBatch(t, b.qp, BatchConfig{Requests: n})
				for i := range n {
					require.NoError(t, batch.Recv(i, m.SGE(i*size, size)))
				}
				require.NoError(t, second(batch.Post()))
				require.ErrorIs(t, m.Close(), ErrBusy)
				dereg = m.destroy
				return uintptr(m.Addr())
			}()
			var garbage [][]byte
			for range 5 {
				runtime.GC()
				for range 100 { // would take the memory if it were free
					garbage = append(garbage, make([]byte, n*size))
				}
			}
			fill(a.mr.Bytes()[:n*size], 6)
			for i := range n {
				require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(i*size, size)}}))
			}
			waitOK(t, a.scq, n)
			waitOK(t, b.rcq, n)
			//nolint:govet // the address of memory that nothing in Go refers to is the point
			requirePattern(t, unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&mem))), n*size), 6)
			for _, g := range garbage {
				for _, x := range g {
					if x != 0 {
						require.Fail(t, "the device wrote into memory of others")
					}
				}
			}
			require.Len(t, Objects(), before+1)
			// Nobody can close the region but by the tree.
			for c := range b.pd.node.children {
				if k, ok := c.keep.(backing); ok && uintptr(unsafe.Pointer(unsafe.SliceData(k.mem))) == mem {
					require.NoError(t, c.close(func() error { return errors.Join(dereg(), k.free()) }))
				}
			}
		})
	}
}

// TestPairBusy: a region is busy until the completion of its request was polled.
func TestPairBusy(t *testing.T) {
	a, b := newPair(t, endConfig{})
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 8)}}))
	requireBusy(t, b.mr, b.qp)
	require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(0, 8)}}))
	waitOK(t, b.rcq, 1)
	require.NoError(t, b.mr.Close())
	waitOK(t, a.scq, 1)
	require.NoError(t, a.mr.Close())
}

// TestPairWaiters: ten thousand goroutines, each waiting for a CQ of its own on
// one channel, cost no threads; those whose completion comes wake, the others
// are cancelled, and all CQs are closed at once.
func TestPairWaiters(t *testing.T) {
	needRDMA(t)
	const n, busy = 10000, 50
	ctx, err := Open("rxe0")
	c := autoClose(t, ctx, err)
	newCh, err := c.NewCompChannel()
	ch := autoClose(t, newCh, err)
	pd, err := c.AllocPD()
	pd = autoClose(t, pd, err)
	mr, err := pd.AllocMR(4096, allAccess)
	mr = autoClose(t, mr, err)

	cqs := make([]*CQ, n)
	for i := range cqs {
		cqs[i], err = c.CreateCQ(CQConfig{Size: 1, Channel: ch})
		require.NoError(t, err)
	}
	waitCtx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type result struct {
		cq  int
		n   int
		err error
	}
	results := make(chan result, n)
	for i, cq := range cqs {
		go func() {
			var wcs [1]WC
			k, err := cq.Wait(waitCtx, wcs[:])
			results <- result{i, k, err}
		}()
	}
	// Some of them get a completion, of a write to the own memory.
	var ends []*end
	for i := range busy {
		e := &end{ctx: c, pd: pd, scq: cqs[i*7], rcq: cqs[i*7], mr: mr}
		qp, err := pd.CreateQP(QPConfig{SendCQ: e.scq, RecvCQ: e.rcq, MaxSend: 1, MaxRecv: 1})
		require.NoError(t, err)
		e.qp = qp
		ends = append(ends, e)
		connect(t, e, e, ConnectConfig{}) // to itself
	}
	for _, e := range ends {
		require.NoError(t, e.qp.PostSend(SendWR{Op: OpWrite, Remote: mr.Remote(0), SGEs: []SGE{mr.SGE(8, 8)}}))
	}
	woken := map[int]bool{}
	for range busy {
		r := <-results
		require.NoError(t, r.err)
		require.Equal(t, 1, r.n)
		woken[r.cq] = true
	}
	require.Len(t, woken, busy)
	require.LessOrEqual(t, threads(t), 40)
	cancel()
	for range n - busy {
		r := <-results
		require.ErrorIs(t, r.err, context.Canceled)
		require.False(t, woken[r.cq])
	}
	for _, e := range ends {
		require.NoError(t, e.qp.Close())
	}
	most := 0
	var wg sync.WaitGroup
	for _, cq := range cqs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := cq.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	for range 20 {
		most = max(most, threads(t))
		runtime.Gosched()
	}
	wg.Wait()
	most = max(most, threads(t))
	require.LessOrEqual(t, most, 40)
	t.Logf("%d threads at most", most)
}

// threads is how many OS threads this process has.
func threads(t testing.TB) int {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "Threads:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			require.NoError(t, err)
			return n
		}
	}
	t.Fatal("no Threads in /proc/self/status")
	return 0
}

// TestPairSharedCQ: many queue pairs on one CQ, posted to and polled from many
// goroutines; every completion is accounted to its own queue pair.
func TestPairSharedCQ(t *testing.T) {
	needRDMA(t)
	const qps, rounds = 24, 40
	a := newEnd(t, endConfig{cqSize: 4096})
	var ends []*end
	for range qps {
		e := *a
		mr, err := a.pd.AllocMR(4096, allAccess)
		e.mr = autoClose(t, mr, err)
		e.addQP(t, QPConfig{MaxSend: 8, MaxRecv: 1})
		connect(t, &e, &e, ConnectConfig{})
		ends = append(ends, &e)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	done := make(map[uint32]int)
	var mu sync.Mutex
	left := qps * rounds
	for range 3 { // pollers
		wg.Add(1)
		go func() {
			defer wg.Done()
			wcs := make([]WC, 16)
			for {
				mu.Lock()
				if left == 0 {
					mu.Unlock()
					cancel()
					return
				}
				mu.Unlock()
				n, err := a.scq.Wait(ctx, wcs)
				if err != nil {
					mu.Lock()
					if left != 0 {
						t.Error(err)
					}
					mu.Unlock()
					return
				}
				mu.Lock()
				for i := range wcs[:n] {
					if err := wcs[i].Err(); err != nil {
						t.Error(err)
					}
					done[wcs[i].QPNum()]++
					left--
				}
				mu.Unlock()
			}
		}()
	}
	for _, e := range ends {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := SendWR{Op: OpWrite, Remote: e.mr.Remote(0), SGEs: []SGE{e.mr.SGE(8, 8)}}
			for range rounds {
				for {
					err := e.qp.PostSend(w)
					if err == nil {
						break
					}
					if ctx.Err() != nil {
						t.Error(err)
						return
					}
					runtime.Gosched()
				}
			}
		}()
	}
	wg.Wait()
	for _, e := range ends {
		require.Equal(t, rounds, done[e.qp.Num()])
		require.NoError(t, e.mr.Close())
	}
}
