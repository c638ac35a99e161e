//go:build linux && cgo

package ibv

import (
	"context"
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkGrowthQPs is what a request costs, posted and polled, where n queue
// pairs share a CQ and take turns.
func BenchmarkGrowthQPs(b *testing.B) {
	for _, n := range []int{1, 16, 256, 4096} {
		b.Run(fmt.Sprintf("qps=%d", n), func(b *testing.B) {
			f := newBench(b, benchConfig{depth: 1})
			m := f.mr(b, 64, LocalWrite)
			batches := make([]*SendBatch, n)
			for i := range batches {
				q, _ := f.newQP(b, f.scq, f.rcq, f.fscq, f.frcq, uint32(100+i), QPConfig{MaxSend: 1, MaxSendSGE: 1})
				q.Track(QPRTS, 1, 1)
				b.Cleanup(func() { _ = q.Close() })
				batches[i] = sendBatch(b, q, BatchConfig{})
				if err := batches[i].Send(0, m.SGE(0, 64)); err != nil {
					b.Fatal(err)
				}
			}
			wcs := make([]WC, 4)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, got, err := batches[i%n].PostPoll(f.scq, wcs); err != nil || got != 1 {
					b.Fatal(got, err)
				}
			}
		})
	}
}

// BenchmarkGrowthWaiters is what a completion costs that one of n goroutines waits
// for, each for its own, by a Demux of one CQ.
func BenchmarkGrowthWaiters(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			f := newBench(b, benchConfig{})
			bell := withBell(f.scq)
			m := f.mr(b, 64, LocalWrite)
			batch := sendBatch(b, f.qp, BatchConfig{})
			if err := batch.Send(0, m.SGE(0, 64)); err != nil {
				b.Fatal(err)
			}
			d, err := NewDemux(DemuxConfig{Slots: n}, f.scq)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			// Each goroutine takes a ticket, waits, and does so again; the tickets are
			// completed in the order in which they were taken.
			tickets, woken := make(chan uint64, n), make(chan error)
			for range n {
				go func() {
					for ctx.Err() == nil {
						t, err := d.Take()
						if err != nil {
							return
						}
						tickets <- t.ID()
						if _, err = t.Wait(ctx); ctx.Err() != nil {
							return
						}
						woken <- err
					}
				}()
			}
			for len(tickets) < n {
				runtime.Gosched()
			}
			b.ReportAllocs()
			for b.Loop() {
				batch.SetID(0, <-tickets)
				if _, err := batch.Post(); err != nil {
					b.Fatal(err)
				}
				bell.ring()
				if err := <-woken; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
