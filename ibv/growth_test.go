//go:build linux && cgo

package ibv

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
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
// for, all on one CQ.
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
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			woken := make(chan error)
			var ready atomic.Int32
			for range n {
				go func() {
					var wcs [1]WC
					for ready.Add(1); ; {
						_, err := f.scq.Wait(ctx, wcs[:])
						if ctx.Err() != nil {
							return
						}
						woken <- err
					}
				}()
			}
			for int(ready.Load()) < n {
				runtime.Gosched()
			}
			b.ReportAllocs()
			for b.Loop() {
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
