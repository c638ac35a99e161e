package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
)

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"any 10.1.0.1":                      `rb-perf: any is for the server: give the client one of atomic-lat, connect, rate, read-bw, read-lat, send-bw, send-lat, write-bw, write-lat`,
		"send-lat -I rxe0 10.1.0.1":         `rb-perf: -I "rxe0" is not an address; -device takes a name`,
		"send-lat -device fd01::1 10.1.0.1": `rb-perf: -device "fd01::1" is not a name; -I takes an address`,
	})
}

func TestParse(t *testing.T) {
	o, err := parse(strings.Fields("rate 10.1.0.1"))
	require.NoError(t, err)
	require.Equal(t, plan{Test: "rate", Sizes: []int{64}, Iters: 5024, Depth: 128, Batch: 32, QPs: 1}, o.plan)
	require.Equal(t, "10.1.0.1", o.host)
	require.EqualValues(t, defaultPort, o.port)

	o, err = parse(strings.Fields("send-bw -s all -n 7 -d 4 -I 10.1.0.1 -duration 2s -events -inline 8 -q 3 [fd01::1]:99"))
	require.NoError(t, err)
	require.Len(t, o.Sizes, 23)
	require.Equal(t, []int{2, 8 << 20}, []int{o.Sizes[0], o.Sizes[22]})
	require.Equal(t, "fd01::1", o.host)
	require.EqualValues(t, 99, o.port)
	require.Equal(t, 4, o.Batch, "no more than the depth")
	require.Equal(t, 8, o.Iters, "whole batches")
	require.Equal(t, 2*time.Second, o.Duration)

	for _, args := range []string{"any", "send-lat -P -p 1", "connect"} {
		o, err := parse(strings.Fields(args))
		require.NoError(t, err, args)
		require.True(t, o.server())
	}
}

func TestParseRefuses(t *testing.T) {
	for args, says := range map[string]string{
		"":                            "which test?",
		"-s 3":                        "which test?",
		"send-latency h":              "no test",
		"any h":                       "any is for the server",
		"send-lat -s 0 h":             "-s",
		"send-lat -s x h":             "-s",
		"atomic-lat -s 4 h":           "8 for atomics",
		"send-lat -d 2 h":             "one message under way",
		"send-bw -batch 200 h":        "-batch 200",
		"send-bw -n -1 h":             "-n",
		"send-bw -q 0 h":              "-q",
		"send-bw -s 1073741824 h":     "-s",
		"write-lat -events h":         "-events",
		"connect -s 2 h":              "no messages",
		"connect -batch 2 -d 2 h":     "no -batch",
		"send-lat -P h":               "the server's",
		"send-lat -json":              "the client's",
		"send-lat h i":                "unexpected",
		"send-lat -I 1.2.3 h":         "not an address",
		"send-lat -I ::1 -device a h": "not both",
		"send-lat h:0":                "HOST:PORT",
		"send-lat -timeout 0s h":      "-timeout",
	} {
		_, err := parse(strings.Fields(args))
		require.ErrorContains(t, err, says, args)
	}
}

// What a hostile client may ask for is bounded as what a user may.
func TestPlanOfClient(t *testing.T) {
	good := plan{Test: "send-bw", Sizes: []int{64}, Iters: 1, Depth: 1, Batch: 1, QPs: 1}
	require.NoError(t, good.check())
	for name, bad := range map[string]func(p *plan){
		"test":    func(p *plan) { p.Test = "x" },
		"size":    func(p *plan) { p.Sizes = []int{-1} },
		"no size": func(p *plan) { p.Sizes = nil },
		"iters":   func(p *plan) { p.Iters = 0 },
		"depth":   func(p *plan) { p.Depth = 1 << 30 },
		"batch":   func(p *plan) { p.Batch = 0 },
		"qps":     func(p *plan) { p.QPs = 1 << 20 },
		"inline":  func(p *plan) { p.Inline = -1 },
		"long":    func(p *plan) { p.Sizes = []int{maxSize + 1} },
	} {
		p := good
		bad(&p)
		require.Error(t, p.check(), name)
	}
}

func TestHelp(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, peer.OK, run(context.Background(), []string{"--help"}, &out, &errs))
	require.True(t, strings.HasPrefix(out.String(), "usage: rb-perf"))
	require.Equal(t, peer.Misuse, run(context.Background(), []string{"nonsense"}, &out, &errs))
}
