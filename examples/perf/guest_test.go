package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// signal is a writer that tells when a word was written to it.
type signal struct {
	mu   sync.Mutex
	text strings.Builder
	word string
	seen chan struct{}
	once sync.Once
}

func (s *signal) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	if strings.Contains(s.text.String(), s.word) {
		s.once.Do(func() { close(s.seen) })
	}
	return len(b), nil
}

func (s *signal) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// server starts one and gives its exit status later.
func startServer(t *testing.T, ctx context.Context, args string) (status chan int, errs *signal) {
	t.Helper()
	errs = &signal{word: "listening", seen: make(chan struct{})}
	status = make(chan int, 1)
	go func() { status <- run(ctx, strings.Fields(args), errs, errs) }()
	select {
	case <-errs.seen:
	case s := <-status:
		require.Fail(t, "the server ended", "status %d: %s", s, errs)
	}
	return status, errs
}

// client runs one and gives its report.
func measureWith(t *testing.T, ctx context.Context, args string) (int, report) {
	t.Helper()
	var out, errs strings.Builder
	status := run(ctx, strings.Fields(args), &out, &errs)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r), "status %d: %s%s", status, out.String(), errs.String())
	return status, r
}

// notReady is how often a message has met a queue without a receive.
func notReady(t *testing.T) (n int) {
	t.Helper()
	for _, counter := range []string{"rcvd_rnr_err", "send_rnr_err"} {
		b, err := os.ReadFile("/sys/class/infiniband/rxe0/ports/1/hw_counters/" + counter)
		require.NoError(t, err)
		of, err := strconv.Atoi(strings.TrimSpace(string(b)))
		require.NoError(t, err)
		n += of
	}
	return n
}

// Each test at both ends, on the device's own address.
func TestPairMeasures(t *testing.T) {
	guest.NeedTopo(t, "pair")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	status, errs := startServer(t, ctx, "any -P -I 10.1.0.1")
	for _, c := range []struct {
		args            string
		sizes, messages int
		latency         bool
	}{
		{"send-lat -n 50", 1, 50, true},
		{"send-lat -n 50 -s 100 -inline 128", 1, 50, true},
		{"send-lat -n 50 -events", 1, 50, true},
		{"write-lat -n 300 -s 5000", 1, 300, true},
		{"write-lat -n 50 -inline 16", 1, 50, true},
		{"read-lat -n 50 -events -s 1000", 1, 50, true},
		{"atomic-lat -n 50", 1, 50, true},
		{"send-bw -n 64 -s 5000", 1, 64, false},
		{"send-bw -n 2000 -s 8 -d 64 -batch 1 -q 3 -events", 1, 2000, false},
		{"write-bw -n 64 -s 100000", 1, 64, false},
		{"write-bw -n 16 -s 2097152 -d 4 -batch 2", 1, 16, false},
		{"read-bw -n 64 -s 5000", 1, 64, false},
		{"rate -n 320 -q 4 -inline 64", 1, 320, false},
		{"send-lat -n 2 -s all", 23, 2, true},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, r := measureWith(t, ctx, c.args+" -json -I 10.1.0.1 10.1.0.1")
			require.Equal(t, peer.OK, code, r.Message)
			require.Equal(t, "rxe0", r.Device)
			require.Equal(t, "pin", r.Policy.String())
			require.Len(t, r.Results, c.sizes)
			for _, s := range r.Results {
				require.Equal(t, c.messages, s.Messages)
				require.NotZero(t, s.Verified)
				require.Equal(t, c.latency, s.Latency != nil)
				require.Equal(t, !c.latency, s.Bandwidth != nil)
				if c.latency {
					require.Positive(t, s.Latency.Min)
					require.LessOrEqual(t, s.Latency.P99, s.Latency.Max)
				} else {
					require.Positive(t, s.Bandwidth.Average)
				}
			}
		})
	}
	// A ping-pong that posts its receives late is stopped for many milliseconds each
	// time, which no median shows: the device counts it.
	t.Run("never without a receive", func(t *testing.T) {
		before := notReady(t)
		for _, args := range []string{"send-lat -n 1500", "send-lat -n 600 -events"} {
			code, r := measureWith(t, ctx, args+" -json -I 10.1.0.1 10.1.0.1")
			require.Equal(t, peer.OK, code, r.Message)
		}
		require.Equal(t, before, notReady(t))
	})
	t.Run("duration", func(t *testing.T) {
		code, r := measureWith(t, ctx, "send-bw -s 64 -duration 200ms -json 10.1.0.1")
		require.Equal(t, peer.OK, code, r.Message)
		require.Positive(t, r.Results[0].Messages)
		require.GreaterOrEqual(t, r.Results[0].Seconds, .2)
	})
	t.Run("connect", func(t *testing.T) {
		code, r := measureWith(t, ctx, "connect -n 10 -d 2 -json 10.1.0.1")
		require.Equal(t, peer.OK, code, r.Message)
		require.Equal(t, 10, r.Results[0].Messages)
		require.Len(t, r.Results[0].Steps, len(stepNames))
	})
	cancel()
	require.Equal(t, peer.OK, <-status, errs)
	requireNothingLeft(t)
}

// A server for one test turns another down, and says why.
func TestPairWrongTest(t *testing.T) {
	guest.NeedTopo(t, "pair")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, _ := startServer(t, ctx, "send-lat -I 10.1.0.1")
	code, r := measureWith(t, ctx, "read-lat -json 10.1.0.1")
	require.Equal(t, peer.Failed, code)
	require.Contains(t, r.Message, "this server is for send-lat, not read-lat")
	require.Equal(t, peer.Failed, <-status)
	requireNothingLeft(t)
}

// Interrupted, the client ends, and so does the server.
func TestPairInterrupted(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, test := range []string{"send-lat", "write-lat", "send-lat -events", "send-bw -s 8", "read-bw -s 8"} {
		t.Run(test, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			status, errs := startServer(t, ctx, strings.Fields(test)[0]+" -I 10.1.0.1")
			mine, interrupt := context.WithCancel(ctx)
			out := &signal{word: "#bytes", seen: make(chan struct{})}
			done := make(chan int, 1)
			go func() { done <- run(mine, strings.Fields(test+" -duration 1h 10.1.0.1"), out, out) }()
			<-out.seen
			interrupt()
			require.Equal(t, peer.Interrupted, <-done, out)
			<-status
			require.NotContains(t, errs.String(), "panic")
			requireNothingLeft(t)
		})
	}
}

// A client that says nothing any more, before a run or in one, is given up.
func TestPairSilent(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for name, runs := range map[string]bool{"idle": false, "in a run": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			status, errs := startServer(t, ctx, "any -I 10.1.0.1 -timeout 2s")
			o, err := parse(strings.Fields("connect -timeout 1m 10.1.0.1"))
			require.NoError(t, err)
			d := (&client{options: o}).dialer(0)
			d.Queues = control
			c, err := d.Dial(ctx, "10.1.0.1:"+strconv.Itoa(defaultPort))
			require.NoError(t, err)
			defer c.Close()
			questions := []question{{Verb: askPlan, Plan: &o.plan}}
			if runs {
				questions = append(questions, question{Verb: askStart, Run: &job{}})
			}
			for _, q := range questions {
				_, err = ask(ctx, c, o.timeout, q)
				require.NoError(t, err)
			}
			require.Equal(t, peer.Failed, <-status, errs)
			require.Contains(t, errs.String(), "-timeout")
		})
	}
}

func TestPairRefused(t *testing.T) {
	guest.NeedTopo(t, "pair")
	code, r := measureWith(t, t.Context(), "send-lat -json -I 10.1.0.1 127.0.0.1")
	require.Equal(t, peer.Refused, code)
	require.NotEmpty(t, r.Errno, fmt.Sprint(r))
}

// requireNothingLeft wants every queue and buffer closed. Devices are the
// library's to keep open.
func requireNothingLeft(t *testing.T) {
	t.Helper()
	for _, o := range ibv.Objects() {
		for _, kind := range []string{"QP ", "CQ ", "PD ", "MR "} {
			require.False(t, strings.HasPrefix(o.Name, kind), "left open: %s", o.Name)
		}
	}
}

// Another client's request, given up while the session was not looking, is not the
// end of the session.
func TestPairRequestGivenUp(t *testing.T) {
	guest.NeedTopo(t, "pair")
	ctx, cancel := context.WithTimeout(t.Context(), guest.Patience)
	defer cancel()
	status, errs := startServer(t, ctx, "send-lat -I 10.1.0.1")
	o, err := parse([]string{"send-lat", "-n", "10", "10.1.0.1"})
	require.NoError(t, err)
	c, err := (&cm.Dialer{Param: cm.ConnParam{PrivateData: privateData(0)}, Queues: control}).Dial(ctx, net.JoinHostPort("10.1.0.1", strconv.Itoa(int(o.port))))
	require.NoError(t, err)
	short, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	_, err = (&cm.Dialer{}).DialAddr(short, c.RemoteAddr())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	a, err := ask(ctx, c, o.timeout, question{Verb: askPlan, Plan: &o.plan})
	require.NoError(t, err)
	l := newLink(&o.plan)
	data, err := (&cm.Dialer{Param: cm.ConnParam{PrivateData: privateData(a.Token)}, Resources: l.resources}).DialAddr(ctx, c.RemoteAddr())
	require.NoError(t, err, errs.String())
	require.NoError(t, l.add(data))
	a, err = ask(ctx, c, o.timeout, question{Verb: askRegion, At: l.region()})
	require.NoError(t, err, errs.String())
	require.NotNil(t, a.At)
	require.NoError(t, errors.Join(l.close(), c.Close()))
	require.Zero(t, <-status, errs.String())
}
