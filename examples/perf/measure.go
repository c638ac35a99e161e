package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// laps times a run: each message of a latency test, or how far a stream has come.
type laps struct {
	began time.Time
	hist  *hdrhistogram.Histogram // of nanoseconds
	share int64                   // 2 where a lap is there and back
	at    []time.Duration         // ends of laps that are not in hist yet

	// A stream is cut into spans, of which the fastest is the peak.
	every, next int           // messages
	since       time.Duration // the end of the last span, or lap
	peak        float64       // messages per second
}

// precision is how many digits of a latency are kept.
const precision = 3

func newLaps(k kind, iters int) *laps {
	l := &laps{hist: hdrhistogram.New(1, int64(time.Hour), precision), share: 1}
	if k == pingPong {
		l.share = 2
	}
	if k != stream {
		l.at = make([]time.Duration, 0, 1<<14)
	}
	const spans = 20
	l.every = max(1, iters/spans)
	l.next = l.every
	l.start()
	return l
}

// start sets the clock to 0.
func (l *laps) start() { l.began = time.Now() }

// lap ends a lap. It only notes the time; now and then, between two laps, the
// notes go to the histogram.
func (l *laps) lap() {
	l.at = append(l.at, time.Since(l.began))
	if len(l.at) == cap(l.at) {
		l.drain()
		l.since = time.Since(l.began)
	}
}

func (l *laps) drain() {
	for _, t := range l.at {
		_ = l.hist.RecordValue(min(int64(t-l.since)/l.share, l.hist.HighestTrackableValue()))
		l.since = t
	}
	l.at = l.at[:0]
}

// batch notes how many messages of a stream have arrived.
func (l *laps) batch(arrived int) {
	if arrived < l.next {
		return
	}
	now := time.Since(l.began)
	if d := now - l.since; d > 0 {
		l.peak = max(l.peak, float64(arrived-l.next+l.every)/d.Seconds())
	}
	l.since, l.next = now, arrived+l.every
}

// latency is in microseconds.
type latency struct {
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Typical float64 `json:"typical"` // the median
	Avg     float64 `json:"avg"`
	Stdev   float64 `json:"stdev"`
	P90     float64 `json:"p90"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p99.9"`
	P9999   float64 `json:"p99.99"`
}

func summary(h *hdrhistogram.Histogram) *latency {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	at := func(p float64) float64 { return us(h.ValueAtPercentile(p)) }
	return &latency{
		Min: us(h.Min()), Max: us(h.Max()), Typical: at(50), Avg: h.Mean() / 1e3, Stdev: h.StdDev() / 1e3,
		P90: at(90), P99: at(99), P999: at(99.9), P9999: at(99.99),
	}
}

// bandwidth is in MB of 2^20 bytes, and in millions of messages, per second.
type bandwidth struct {
	Peak    float64 `json:"peak_mb_s"`
	Average float64 `json:"average_mb_s"`
	Rate    float64 `json:"mpps"`
}

func (l *laps) bandwidth(size, n int, took time.Duration) *bandwidth {
	rate := float64(n) / took.Seconds()
	mb := float64(size) / (1 << 20)
	return &bandwidth{Peak: max(l.peak, rate) * mb, Average: rate * mb, Rate: rate / 1e6}
}
