package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPattern(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 4096} {
		b := make([]byte, n)
		fill(b, 5)
		require.NoError(t, verify(b, 5, "x"))
		if n >= 7 {
			require.ErrorIs(t, verify(b, 6, "x"), errMismatch)
		}
		b[n-1] ^= 1
		require.ErrorIs(t, verify(b, 5, "x"), errMismatch, "byte %d", n-1)
	}
}

func TestSlots(t *testing.T) {
	p := &plan{Sizes: []int{100}, Batch: 4}
	b := make([]byte, p.span())
	fillSlots(b, p, 100, 1)
	require.NoError(t, verifySlots(b, p, 100, 1))
	b[3*p.stride()] ^= 1
	require.ErrorContains(t, verifySlots(b, p, 100, 1), "message 3")
	long := &plan{Sizes: []int{8 << 20}, Batch: 16}
	require.Equal(t, 2, long.slots(), "long messages share")
}

// Every queue pair gets its turn.
func TestTurns(t *testing.T) {
	r := newTurns(3, 2)
	var got []uint64
	for range 9 {
		q := r.take()
		got = append(got, q)
		r.give(q)
	}
	require.Equal(t, []uint64{0, 1, 2, 0, 1, 2, 0, 1, 2}, got)
	require.Equal(t, 6, r.n)
}

func TestLaps(t *testing.T) {
	l := newLaps(pingPong, 10)
	l.at = append(l.at, 20*time.Microsecond, 40*time.Microsecond, 80*time.Microsecond)
	l.drain()
	s := summary(l.hist)
	require.InDelta(t, 10, s.Min, .1)
	require.InDelta(t, 10, s.Typical, .1)
	require.InDelta(t, 20, s.Max, .1)
	bw := newLaps(stream, 100).bandwidth(1<<20, 10, time.Second)
	require.InDelta(t, 10, bw.Average, 1e-9)
	require.InDelta(t, 10e-6, bw.Rate, 1e-12)
}

func TestPrivateData(t *testing.T) {
	token, ours := tokenOf(append(privateData(7), make([]byte, 40)...))
	require.True(t, ours)
	require.EqualValues(t, 7, token)
	_, ours = tokenOf(make([]byte, 56))
	require.False(t, ours)
	_, ours = tokenOf(nil)
	require.False(t, ours)
}

func TestPlot(t *testing.T) {
	lap := newLaps(pingPong, 10)
	for i := range 1000 {
		_ = lap.hist.RecordValue(int64(10000 + i*i))
	}
	for name, r := range map[string]*report{
		"latency":   {plan: plan{Test: "send-lat"}, Results: []*result{{Size: 64, hist: lap.hist}}},
		"bandwidth": {plan: plan{Test: "send-bw"}, Results: []*result{{Size: 2, Bandwidth: &bandwidth{2, 1, 1}}, {Size: 4096, Bandwidth: &bandwidth{2000, 1000, 1}}}},
		"one size":  {plan: plan{Test: "rate"}, Results: []*result{{Size: 64, Bandwidth: &bandwidth{1, 1, 1}}}},
	} {
		file := filepath.Join(t.TempDir(), "p.svg")
		require.NoError(t, plot(r, file), name)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(b), "NaN")
		require.NotContains(t, string(b), "Inf")
		d := xml.NewDecoder(strings.NewReader(string(b)))
		for err == nil {
			_, err = d.Token()
		}
		require.True(t, errors.Is(err, io.EOF), "%v", err)
	}
}
