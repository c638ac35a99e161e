//go:build linux && cgo

package ibv

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo/fakeverbs"
)

// The tests in this file ask when a memory region counts as in flight.

// TestBusyUntilSignaled: unsignalled sends stay in flight until a later
// signalled one completed and was polled.
func TestBusyUntilSignaled(t *testing.T) {
	f := newBench(t, benchConfig{})
	f.fqp.Hold(true)
	a, b := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite)
	require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{a.SGE(0, 8)}, Flags: Unsignaled}))
	require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{b.SGE(0, 8)}}))
	f.fqp.Complete(false, 1, 0, 0, 0)
	require.Empty(t, drain(t, f.scq))
	requireBusy(t, a, f.qp)
	f.fqp.Complete(false, 1, 0, 0, 0)
	requireBusy(t, a, f.qp) // completed and not polled
	requireBusy(t, b, f.qp)
	require.Len(t, drain(t, f.scq), 1)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

func requireBusy(t *testing.T, m *MR, q *QP) {
	t.Helper()
	err := m.Close()
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorIs(t, err, syscall.EBUSY)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, []string{"requests in flight on " + q.node.name}, busy.Children)
}

// TestBusyReceives: receives complete in order.
func TestBusyReceives(t *testing.T) {
	f := newBench(t, benchConfig{})
	a, b := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite)
	require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{a.SGE(0, 8)}}))
	require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{b.SGE(0, 8)}}))
	requireBusy(t, a, f.qp)
	f.fqp.Complete(true, 1, 0, 0, 8)
	require.Len(t, drain(t, f.rcq), 1)
	require.NoError(t, a.Close())
	requireBusy(t, b, f.qp)
	require.NoError(t, f.qp.Close())
	require.NoError(t, b.Close())
}

// TestBusyInline: inline data is copied at the post, so its region is free.
func TestInlineIsNotInFlight(t *testing.T) {
	f := newBench(t, benchConfig{inline: 32})
	f.fqp.Hold(true)
	m := f.mr(t, 64, LocalWrite)
	b := sendBatch(t, f.qp, BatchConfig{Inline: 32})
	require.NoError(t, b.Send(0, m.SGE(0, 8)))
	require.NoError(t, b.SendInline(0, m.Bytes()[:8]))
	require.NoError(t, second(b.Post()))
	require.NoError(t, m.Close())
}

// TestBatchOutlivesRegion: a prepared batch whose region was closed posts
// nothing, until it is given another one.
func TestBatchOutlivesRegion(t *testing.T) {
	f := newBench(t, benchConfig{})
	a, b := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite)
	s, r := sendBatch(t, f.qp, BatchConfig{Requests: 2}), recvBatch(t, f.qp, BatchConfig{})
	require.NoError(t, s.Send(0, a.SGE(0, 8)))
	require.NoError(t, s.Send(1, b.SGE(0, 8)))
	require.NoError(t, r.Recv(0, a.SGE(0, 8)))
	require.NoError(t, a.Close())
	require.ErrorIs(t, second(s.Post()), ErrClosed)
	require.ErrorIs(t, second(r.Post()), ErrClosed)
	require.Zero(t, f.fqp.Posted(false)+f.fqp.Posted(true))
	require.NoError(t, s.Send(0, b.SGE(8, 8)))
	require.NoError(t, second(s.Post()))
	require.Len(t, drain(t, f.scq), 2)
	require.ErrorIs(t, s.Send(0, a.SGE(0, 8)), ErrClosed)
}

// TestBatchMovesOn: a region that a batch named once and no longer names is not
// held by later posts.
func TestBatchMovesOn(t *testing.T) {
	f := newBench(t, benchConfig{})
	a, b := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 2})
	require.NoError(t, s.Send(0, a.SGE(0, 8)))
	require.NoError(t, s.Send(1, a.SGE(0, 8)))
	require.NoError(t, second(s.Post()))
	require.Len(t, drain(t, f.scq), 2)
	f.fqp.Hold(true)
	require.NoError(t, s.Send(0, b.SGE(0, 8)))
	require.NoError(t, s.Send(1, b.SGE(0, 8)))
	require.NoError(t, second(s.Post()))
	require.NoError(t, a.Close())
	requireBusy(t, b, f.qp)
}

// TestRangeInFlight: a region is not held by requests of its batch that were
// not posted.
func TestRangeInFlight(t *testing.T) {
	f := newBench(t, benchConfig{})
	f.fqp.Hold(true)
	a, b := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 4})
	for i, m := range []*MR{a, a, b, b} {
		require.NoError(t, s.Send(i, m.SGE(0, 8)))
	}
	require.NoError(t, second(s.PostRange(3, 1)))
	requireBusy(t, b, f.qp)
	require.NoError(t, a.Close())
}

// TestLeftovers: completions of a queue pair that is closed are harmless.
func TestLeftovers(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 64, LocalWrite)
	w := SendWR{ID: 1, SGEs: []SGE{m.SGE(0, 8)}}
	require.NoError(t, f.qp.PostSend(w))
	require.Len(t, drain(t, f.scq), 1)
	require.NoError(t, f.qp.PostSend(w))
	f.fqp.Hold(true)
	require.NoError(t, f.qp.PostSend(w))
	f.fqp.Complete(false, 1, int(WCFlushErr), 0, 0)
	require.NoError(t, f.qp.Close())
	wcs := drain(t, f.scq)
	require.Len(t, wcs, 2)
	require.NoError(t, wcs[0].Err())
	require.ErrorIs(t, wcs[1].Err(), WCFlushErr)
	require.Equal(t, UnknownQueue, wcs[1].Queue())
}

// TestAfterRefusedPost: what the provider did not take leaves no trace in the
// accounts of what comes after.
func TestAfterRefusedPost(t *testing.T) {
	for _, recv := range []bool{false, true} {
		for _, accepted := range []int{0, 1} {
			f := newBench(t, benchConfig{})
			f.fqp.Hold(true)
			a, b, c := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite), f.mr(t, 66, LocalWrite)
			s, r := sendBatch(t, f.qp, BatchConfig{Requests: 4}), recvBatch(t, f.qp, BatchConfig{Requests: 4})
			for i := range 4 {
				require.NoError(t, s.Send(i, a.SGE(0, 8)))
				require.NoError(t, r.Recv(i, a.SGE(0, 8)))
				if i > 0 && i < 3 {
					s.SetFlags(i, Unsignaled)
				}
			}
			batch, one, cq := s.Post, func(m *MR) error { return f.qp.PostSend(SendWR{SGEs: []SGE{m.SGE(0, 8)}}) }, f.scq
			if recv {
				batch, one, cq = r.Post, func(m *MR) error { return f.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(0, 8)}}) }, f.rcq
			}
			f.fqp.Fail(recv, accepted, syscall.EIO, false)
			n, err := batch()
			require.ErrorIs(t, err, syscall.EIO)
			require.Equal(t, accepted, n)
			require.NoError(t, one(b))
			require.NoError(t, one(c))
			require.Equal(t, accepted+1, f.fqp.Complete(recv, accepted+1, 0, 0, 0))
			require.Len(t, drain(t, cq), accepted+1)
			require.NoError(t, a.Close(), "recv %v accepted %d", recv, accepted)
			require.NoError(t, b.Close(), "recv %v accepted %d", recv, accepted)
			requireBusy(t, c, f.qp)
		}
	}
}

// TestManyQueuePairs: one CQ finds the queue pair of each completion, while
// others come and go.
func TestManyQueuePairs(t *testing.T) {
	f := newBench(t, benchConfig{depth: 128})
	rnd := rand.New(rand.NewPCG(1, 2))
	type member struct {
		qp   *QP
		fake *fakeverbs.QP
		mr   *MR
	}
	live := map[uint32]member{}
	for range 2000 {
		num := rnd.Uint32N(64) * 0x10001 & 0xffffff // numbers that collide in a small table
		if m, ok := live[num]; ok {
			if rnd.IntN(3) == 0 {
				require.NoError(t, m.qp.Close())
				require.NoError(t, m.mr.Close())
				delete(live, num)
				continue
			}
			require.NoError(t, m.qp.PostSend(SendWR{SGEs: []SGE{m.mr.SGE(0, 8)}}))
			require.Equal(t, 1, m.fake.Complete(false, 1, 0, 0, 0))
			wcs := drain(t, f.scq)
			require.Len(t, wcs, 1)
			require.Equal(t, num, wcs[0].QPNum())
			require.NoError(t, m.mr.retire(), "QP %#x: the completion went to no account", num)
			m.mr.reopen()
			continue
		}
		qp, fake := f.newQP(t, f.scq, f.rcq, f.fscq, f.frcq, num, QPConfig{MaxSend: 4, MaxRecv: 4})
		qp.Track(QPRTS, 1, 1)
		fake.Hold(true)
		live[num] = member{qp, fake, newMR(f.pd, make([]byte, 64), LocalWrite, 1, 2, f.gone, nil)}
	}
	for _, m := range live {
		require.NoError(t, m.qp.Close())
		require.NoError(t, m.mr.Close())
	}
}

// TestBusyAfterErrors: what a flushed queue still holds, with the queues on two
// CQs and on one, where a completion in error does not tell its queue.
func TestBusyAfterErrors(t *testing.T) {
	const flushed = int(WCFlushErr)
	t.Run("two CQs", func(t *testing.T) {
		f := newBench(t, benchConfig{})
		f.fqp.Hold(true)
		a, b := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite)
		for range 3 {
			require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{a.SGE(0, 8)}}))
			require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{b.SGE(0, 8)}}))
		}
		f.fqp.Complete(false, 1, 0, 0, 0)
		f.fqp.Complete(false, 1, int(WCRetryExcErr), 0, 0)
		wcs := drain(t, f.scq)
		require.Len(t, wcs, 2)
		require.Equal(t, SendQueue, wcs[1].Queue())
		require.Equal(t, QPErr, f.qp.State())
		requireBusy(t, a, f.qp)
		f.fqp.Complete(false, 1, flushed, 0, 0)
		drain(t, f.scq)
		require.NoError(t, a.Close())
		requireBusy(t, b, f.qp)
		f.fqp.Complete(true, 3, flushed, 0, 0)
		for _, w := range drain(t, f.rcq) {
			require.Equal(t, RecvQueue, w.Queue())
		}
		require.NoError(t, b.Close())
	})
	t.Run("one CQ", func(t *testing.T) {
		f := newBench(t, benchConfig{one: true})
		f.fqp.Hold(true)
		a, b := f.mr(t, 64, LocalWrite), f.mr(t, 65, LocalWrite)
		for range 2 {
			require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{a.SGE(0, 8)}}))
			require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{b.SGE(0, 8)}}))
		}
		f.fqp.Complete(false, 2, flushed, 0, 0)
		for _, w := range drain(t, f.scq) {
			require.Equal(t, UnknownQueue, w.Queue())
			require.Equal(t, WCInvalid, w.Opcode())
		}
		requireBusy(t, a, f.qp) // they may have been receives
		f.fqp.Complete(true, 2, flushed, 0, 0)
		require.Len(t, drain(t, f.scq), 2)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
	t.Run("one CQ, one queue empty", func(t *testing.T) {
		f := newBench(t, benchConfig{one: true})
		f.fqp.Hold(true)
		a := f.mr(t, 64, LocalWrite)
		require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{a.SGE(0, 8)}}))
		f.fqp.Complete(false, 1, flushed, 0, 0)
		wcs := drain(t, f.scq)
		require.Equal(t, SendQueue, wcs[0].Queue())
		require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{a.SGE(0, 8)}}))
		f.fqp.Complete(true, 1, flushed, 0, 0)
		wcs = drain(t, f.scq)
		require.Equal(t, RecvQueue, wcs[0].Queue())
		require.NoError(t, a.Close())
	})
	t.Run("unsignalled successes nobody reported", func(t *testing.T) {
		f := newBench(t, benchConfig{})
		f.fqp.Hold(true)
		a := f.mr(t, 64, LocalWrite)
		for range 3 {
			require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{a.SGE(0, 8)}, Flags: Unsignaled}))
		}
		f.fqp.Complete(false, 2, 0, 0, 0)
		f.fqp.Complete(false, 1, flushed, 0, 0)
		require.Len(t, drain(t, f.scq), 1)
		requireBusy(t, a, f.qp)
		require.NoError(t, f.qp.Close())
		require.NoError(t, a.Close())
	})
	t.Run("reset", func(t *testing.T) {
		f := newBench(t, benchConfig{})
		f.fqp.Hold(true)
		a := f.mr(t, 64, LocalWrite)
		require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{a.SGE(0, 8)}}))
		require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{a.SGE(0, 8)}}))
		requireBusy(t, a, f.qp)
		f.qp.Track(QPReset, 0, 0)
		require.NoError(t, a.Close())
	})
}

// TestFlightModel compares the accounts with a plain model over random posts,
// completions and polls: a region is never free while a request that the model
// holds outstanding uses it, and never busy once all were polled.
func TestFlightModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		f := newBench(t, benchConfig{depth: 32, one: seed%2 == 0, sges: 2})
		f.fqp.Hold(true)
		mrs := make([]*MR, 4)
		for i := range mrs {
			mrs[i] = f.mr(t, 64+i, LocalWrite)
		}
		type request struct {
			mrs      []int
			signaled bool
		}
		var sends, recvs []request // outstanding, in order
		sent, received := 0, 0     // completed by the device, not polled
		errored := false
		s := sendBatch(t, f.qp, BatchConfig{Requests: 4, SGEs: 2})
		r := recvBatch(t, f.qp, BatchConfig{Requests: 4, SGEs: 2})
		for range 300 {
			switch rnd.IntN(5) {
			case 0, 1: // post
				n := 1 + rnd.IntN(4)
				from := rnd.IntN(5 - n)
				recv := rnd.IntN(2) == 0
				var batch []request
				for i := range 4 {
					k := rnd.IntN(3)
					q := request{signaled: rnd.IntN(3) == 0 || errored}
					var sges []SGE
					for range k {
						m := rnd.IntN(len(mrs))
						q.mrs = append(q.mrs, m)
						sges = append(sges, mrs[m].SGE(rnd.IntN(32), 1+rnd.IntN(32)))
					}
					if recv {
						require.NoError(t, r.Recv(i, sges...))
						q.signaled = true
					} else {
						require.NoError(t, s.Send(i, sges...))
						s.SetFlags(i, Unsignaled)
						if q.signaled {
							s.SetFlags(i, 0)
						}
					}
					if i >= from && i < from+n {
						batch = append(batch, q)
					}
				}
				post, to := s.PostRange, &sends
				if recv {
					post, to = r.PostRange, &recvs
				}
				k, err := post(from, n)
				if err == nil {
					require.Equal(t, n, k)
				} else if require.ErrorIs(t, err, syscall.ENOMEM); !errored {
					// In error the provider's own limit holds, request by request.
					require.ErrorIs(t, err, ErrQueueFull)
					require.Zero(t, k)
				}
				*to = append(*to, batch[:k]...)
			case 2: // the device works
				status := 0
				if errored {
					status = int(WCFlushErr)
				}
				n := 1 + rnd.IntN(6)
				if rnd.IntN(2) == 0 {
					sent += f.fqp.Complete(false, n, status, 0, 0)
				} else {
					received += f.fqp.Complete(true, n, status, 0, 0)
				}
			case 3: // poll everything
				drain(t, f.scq)
				drain(t, f.rcq)
				// A polled completion retires all sends before it.
				last := 0
				for i := range sent {
					if sends[i].signaled || errored {
						last = i + 1
					}
				}
				sends, recvs = sends[last:], recvs[received:]
				sent, received = sent-last, 0
			case 4: // is anything free that should not be?
				for i, m := range mrs {
					used := false
					for _, q := range append(append([]request{}, sends...), recvs...) {
						for _, k := range q.mrs {
							used = used || k == i
						}
					}
					err := m.retire()
					if err == nil {
						m.reopen()
					}
					if used {
						require.Error(t, err, "seed %d: region %d is in use", seed, i)
					} else if len(sends)+len(recvs) == 0 {
						require.NoError(t, err, "seed %d: region %d is in nobody's use", seed, i)
					}
				}
			}
			if !errored && rnd.IntN(100) == 0 && sent == 0 {
				// From here on everything is flushed. Sends whose success nobody
				// will report would stay busy: the model has none left.
				errored = true
			}
		}
		require.NoError(t, f.qp.Close())
		for _, m := range mrs {
			require.NoError(t, m.Close())
		}
	}
}

// TestConcurrentFlight posts, polls and closes regions from many goroutines.
func TestConcurrentFlight(t *testing.T) {
	f := newBench(t, benchConfig{depth: 64})
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 200 {
				m := newMR(f.pd, make([]byte, 64), LocalWrite, 1, 2, f.gone2, nil)
				b, err := f.qp.NewSendBatch(BatchConfig{Requests: 2})
				if err != nil {
					t.Error(err)
					return
				}
				for i := range 2 {
					if err := b.Send(i, m.SGE(0, 8)); err != nil {
						t.Error(err)
					}
				}
				for {
					if _, err := b.Post(); err == nil {
						break
					}
					runtime.Gosched()
				}
				for m.Close() != nil {
					var wcs [4]WC
					if _, err := f.scq.Poll(wcs[:]); err != nil {
						t.Error(err)
					}
					runtime.Gosched()
				}
			}
		}()
	}
	wg.Wait()
	require.Empty(t, f.qp.uses)
}

func (b *bench) gone2() error { return nil }

// TestGarbageCollection: dropping every reference frees nothing that the device
// may write; see also the guest's test.
func TestGarbageCollection(t *testing.T) {
	f := newBench(t, benchConfig{})
	before := len(Objects())
	func() {
		m := newMR(f.pd, make([]byte, 4096), LocalWrite, 1, 2, f.gone, nil)
		for range 16 {
			require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(0, 64)}}))
		}
	}()
	for range 5 {
		runtime.GC()
	}
	require.Len(t, Objects(), before+1)
	f.fqp.Complete(true, 16, 0, 0, 64)
	require.Len(t, drain(t, f.rcq), 16)
	// Only a white-box test can still close it.
	for n := range f.pd.node.children {
		if n.name == "MR of 4096 bytes (lkey 0x1) on fake0" {
			require.NoError(t, n.close(func() error { return nil }))
		}
	}
}
