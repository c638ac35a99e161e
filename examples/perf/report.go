package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/examples/internal/peer"
)

// report is what the client found.
type report struct {
	plan
	Local         string    `json:"local,omitempty"`
	Remote        string    `json:"remote,omitempty"`
	Device        string    `json:"device,omitempty"`
	Port          uint8     `json:"port,omitempty"`
	Netdev        string    `json:"netdev,omitempty"`
	Policy        cm.Policy `json:"policy"` // the one in effect, once connected
	Overridden    bool      `json:"overridden"`
	AssumedOnLink bool      `json:"assumed_on_link"`
	Results       []*result `json:"results"`
	Error         string    `json:"error,omitempty"`   // the sentinel's name, where it has one
	Errno         string    `json:"errno,omitempty"`   // its symbol
	Message       string    `json:"message,omitempty"` // the whole error
}

// result is one line of it. CPU times are in microseconds per message.
type result struct {
	Size        int        `json:"size"`
	Messages    int        `json:"messages"`
	Verified    int        `json:"verified"` // checked before, in runs of their own
	Seconds     float64    `json:"seconds"`
	CPU         float64    `json:"client_cpu_us"`
	ServerCPU   float64    `json:"server_cpu_us"`
	Latency     *latency   `json:"latency_us,omitempty"`
	Bandwidth   *bandwidth `json:"bandwidth,omitempty"`
	Connections float64    `json:"connections_s,omitempty"`
	Steps       []step     `json:"steps_us,omitempty"`
	hist        *hdrhistogram.Histogram
}

func newReport(o options) *report {
	return &report{plan: o.plan, Policy: o.policy, Results: []*result{}}
}

// place notes where a connection is.
func (r *report) place(c *cm.Conn) {
	b, d := c.Binding(), c.Decision()
	r.Local, r.Remote = c.LocalAddr().String(), c.RemoteAddr().String()
	r.Device, r.Port, r.Netdev = b.Device, b.Port, b.Netdev
	r.Policy, r.Overridden, r.AssumedOnLink = d.Policy, d.Overridden, d.AssumedOnLink
}

func (r *report) fail(err error) {
	r.Message, r.Error = err.Error(), policy.SentinelName(err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		r.Errno = policy.ErrnoName(errno)
	}
}

// output writes for the user. Its methods may be called at once from many
// goroutines.
type output struct {
	options
	mu       sync.Mutex
	out, err io.Writer
}

func (o *output) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.err, "rb-perf: "+format+"\n", args...)
}

func (o *output) listening(l *cm.Listener) { o.say("%s", peer.Listening(l)) }

func (o *output) established(c *cm.Conn) {
	b := c.Binding()
	o.say("established: %v <- %v on %s (%s)", c.LocalAddr(), c.RemoteAddr(), b.Device, b.Netdev)
}

// failed says an error, if there is one.
func (o *output) failed(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		o.say("interrupted")
	default:
		o.say("%v", err)
	}
	return err
}

// finish ends the client's report.
func (o *output) finish(r *report, err error) error {
	if err == nil && o.plot != "" {
		err = plot(r, o.plot)
	}
	if o.json {
		if err != nil {
			r.fail(err)
		}
		e := json.NewEncoder(o.out)
		e.SetEscapeHTML(false)
		_ = e.Encode(r)
		return err
	}
	return o.failed(err)
}

// header says where and what is measured, then names the columns, as perftest
// does.
func (o *output) header(r *report) {
	p := &r.plan
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s -> %s on %s (%s), policy %s", p.Test, r.Local, r.Remote, r.Device, r.Netdev, r.Policy)
	if r.Overridden {
		b.WriteString(", overridden")
	}
	if t := tests[p.Test]; t.wide {
		fmt.Fprintf(&b, ", depth %d, batch %d, %d queue pairs", p.Depth, p.Batch, p.QPs)
	}
	if p.Events {
		b.WriteString(", events")
	}
	o.say("%s", b.String())
	if !o.json {
		fmt.Fprintln(o.out, columns(tests[p.Test].kind))
	}
}

func columns(k kind) string {
	switch k {
	case stream:
		return " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]   CPU[usec/msg]"
	case connects:
		return " #connections   connections/sec    CPU[usec/conn]"
	}
	return " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]   99.99% percentile[usec]   CPU[usec/msg]"
}

func (o *output) row(r *report, res *result) {
	if o.json {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l, bw := res.Latency, res.Bandwidth
	switch {
	case bw != nil:
		fmt.Fprintf(o.out, " %-10d %-14d %-18.2f %-20.2f %-15.6f %.2f\n", res.Size, res.Messages, bw.Peak, bw.Average, bw.Rate, res.CPU)
	case res.Steps != nil:
		fmt.Fprintf(o.out, " %-14d %-18.1f %.2f\n\n", res.Messages, res.Connections, res.CPU)
		fmt.Fprintf(o.out, " %-18s %15s %15s %15s %15s\n", "step", "t_min[usec]", "t_typical[usec]", "t_avg[usec]", "99%[usec]")
		for _, s := range res.Steps {
			fmt.Fprintf(o.out, " %-18s %15.2f %15.2f %15.2f %15.2f\n", s.Name, s.Min, s.Typical, s.Avg, s.P99)
		}
	default:
		fmt.Fprintf(o.out, " %-6d %-14d %-14.2f %-12.2f %-18.2f %-14.2f %-15.2f %-22.2f %-24.2f %-25.2f %.2f\n",
			res.Size, res.Messages, l.Min, l.Max, l.Typical, l.Avg, l.Stdev, l.P99, l.P999, l.P9999, res.CPU)
	}
}

// progress says now and then how far a long run has come, ever less often, until
// stop is called.
func (o *output) progress(l *link, size int) (stop func()) {
	done := make(chan struct{})
	var gone sync.WaitGroup
	began := time.Now()
	gone.Go(func() {
		for pause := 2 * time.Second; ; pause = min(2*pause, 30*time.Second) {
			select {
			case <-done:
				return
			case <-time.After(pause):
				what := fmt.Sprintf("messages of %d bytes", size)
				if size == 0 {
					what = "connections"
				}
				o.say("%d %s in %v", l.count.Load(), what, time.Since(began).Round(time.Second))
			}
		}
	})
	return func() {
		close(done)
		gone.Wait()
	}
}
