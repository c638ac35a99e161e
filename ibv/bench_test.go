//go:build linux && cgo

package ibv

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/railbind/railbind/cgo/fakeverbs"
)

// BenchmarkPostPoll times a batch of sends that was prepared once: the fields
// that change are set, the chain is posted, its completions polled and read.
// The same loop in C and empty crossings are timed in turn with it, so that the
// ratio holds whatever the machine does; separate calls and the combined one, and
// this one also with setters of ranges.
func BenchmarkPostPoll(b *testing.B) {
	const length = 64
	for _, n := range []int{1, 4, 16, 64, 256} {
		for _, way := range []string{"separate", "combined", "ranges"} {
			b.Run(fmt.Sprintf("batch=%d/%s", n, way), func(b *testing.B) {
				benchPostPoll(b, n, length, way != "separate", way == "ranges")
			})
		}
	}
}

func benchPostPoll(b *testing.B, n, length int, combined, ranges bool) {
	f := newBench(b, benchConfig{depth: n})
	m := f.mr(b, n*length, LocalWrite)
	batch, err := f.qp.NewSendBatch(BatchConfig{Requests: n})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if err := batch.Send(i, m.SGE(i*length, length)); err != nil {
			b.Fatal(err)
		}
	}
	loop := fakeverbs.NewLoop(f.fqp, f.fscq, n, m.Addr(), length)
	defer loop.Free()

	wcs := make([]WC, n)
	id := uint64(0)
	run := func(rounds int) (sum uint64) {
		for range rounds {
			var k int
			var err error
			if ranges {
				batch.SetIDs(0, n, id)
				id += uint64(n)
				if err := batch.SetOffsets(0, n, 0, length); err != nil {
					b.Fatal(err)
				}
			} else {
				for i := range n {
					batch.SetID(i, id)
					id++
					if err := batch.SetOffset(i, i*length); err != nil {
						b.Fatal(err)
					}
				}
			}
			if combined {
				_, k, err = batch.PostPoll(f.scq, wcs)
			} else {
				_, err = batch.Post()
			}
			for got := 0; err == nil; {
				for i, part := 0, wcs[:k]; i < len(part); i++ {
					w := &part[i]
					if !w.OK() {
						b.Fatal(w.Err())
					}
					sum += w.ID()
				}
				if got += k; got == n {
					break
				}
				k, err = f.scq.Poll(wcs[:n-got])
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		return sum
	}
	check := func(sum uint64, rounds int) {
		if k := uint64(n * rounds); sum == 0 && k > 1 {
			b.Fatal("no completions")
		}
	}
	check(run(10), 10)
	check(loop.Run(10), 10)

	// Short turns, one after the other, and their medians: the machine's
	// other work falls on few of them.
	turn := max(1, 2000/n)
	turns := max(1, b.N/turn)
	var inGo, inC, cross []float64
	b.ReportAllocs()
	b.ResetTimer()
	for range turns {
		t0 := time.Now()
		run(turn)
		t1 := time.Now()
		loop.Run(turn)
		t2 := time.Now()
		for range turn {
			fakeverbs.Nop()
		}
		inGo = append(inGo, float64(t1.Sub(t0)))
		inC = append(inC, float64(t2.Sub(t1)))
		cross = append(cross, float64(time.Since(t2)))
	}
	b.StopTimer()
	g, c, x := median(inGo)/float64(turn), median(inC)/float64(turn), median(cross)/float64(turn)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(g/float64(n), "go-ns/req")
	b.ReportMetric(c/float64(n), "c-ns/req")
	b.ReportMetric(x, "crossing-ns")
	b.ReportMetric(g/c, "go/c")
	// The bar: at most 1.10 times C and 1.2 crossings for each call.
	calls := 2.0
	if combined {
		calls = 1
	}
	b.ReportMetric(g/(1.1*c+1.2*calls*x), "of-bar")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkRun times the engine on a list of 10,000 sends against the same loop
// in C, in turn.
func BenchmarkRun(b *testing.B) {
	const n, length, window = 10000, 64, 256
	for _, chunk := range []int{16, 64} {
		b.Run(fmt.Sprintf("interval=%d", chunk), func(b *testing.B) {
			f := newBench(b, benchConfig{depth: window})
			m := f.mr(b, length, LocalWrite)
			batch := sendBatch(b, f.qp, BatchConfig{Requests: n})
			for i := range n {
				if err := batch.Send(i, m.SGE(0, length)); err != nil {
					b.Fatal(err)
				}
			}
			loop := fakeverbs.NewLoop(f.fqp, f.fscq, n, m.Addr(), length)
			defer loop.Free()
			ctx := b.Context()
			var inGo, inC []float64
			b.ReportAllocs()
			for b.Loop() {
				t0 := time.Now()
				if done, err := batch.Run(ctx, RunConfig{Window: window, Interval: chunk}); err != nil || done != n {
					b.Fatal(done, err)
				}
				t1 := time.Now()
				if done := loop.RunList(window, chunk); done != n {
					b.Fatal(done)
				}
				inGo = append(inGo, float64(t1.Sub(t0)))
				inC = append(inC, float64(time.Since(t1)))
			}
			g, c := median(inGo), median(inC)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(g/n, "go-ns/req")
			b.ReportMetric(c/n, "c-ns/req")
			b.ReportMetric(g/c, "go/c")
		})
	}
}

// BenchmarkEmptyPoll is what a look costs that finds nothing: at the CQ, a
// crossing, and at a completion ring, none.
func BenchmarkEmptyPoll(b *testing.B) {
	wcs := make([]WC, 16)
	for name, poll := range map[string]func(*testing.B, *bench) func([]WC) (int, error){
		"CQ": func(_ *testing.B, f *bench) func([]WC) (int, error) { return f.scq.Poll },
		"ring": func(b *testing.B, f *bench) func([]WC) (int, error) {
			return newRing(b, f, RingConfig{Spin: time.Nanosecond}).Poll
		},
	} {
		b.Run(name, func(b *testing.B) {
			look := poll(b, newBench(b, benchConfig{}))
			for b.Loop() {
				if n, err := look(wcs); n != 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
