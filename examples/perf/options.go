package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-perf TEST [flags]                the server: start it first
       rb-perf TEST [flags] HOST[:PORT]    the client: it measures

Measures RDMA as perftest does. Before it times anything it checks, in a run of
its own, that the data arrives as it was sent.

TEST is
  send-lat write-lat    half a round trip of a message, there and back
  read-lat atomic-lat   a READ, or a FETCH AND ADD of 8 bytes, until it is done
  send-bw write-bw read-bw
                        bandwidth with many messages under way
  rate                  messages per second: WRITEs of 64 bytes, unless -s
  connect               connections per second, and the time of each step
  any                   server: whatever the client asks for

The client's flags hold for both ends:
  -s SIZE|all   bytes of a message (default 2, bandwidth 65536, rate 64), or one
                after another all powers of two from 2 to 8388608
  -n ITERS      messages of each size (default: latency 1000, bandwidth and rate
                5000), or connections (100); rounded up to whole batches
  -duration D   for so long instead, e.g. 10s
  -d DEPTH      bandwidth, rate: most messages under way, per queue pair (default
                128); connect: connections at once (1)
  -batch N      bandwidth, rate: messages that are posted with one call, the last
                of which is signalled (default 16, rate 32)
  -inline N     messages of up to N bytes go inline (default 0)
  -q N          bandwidth, rate: queue pairs, on one completion queue (default 1)
  -events       sleep until a completion is there, instead of polling for it

Each end's own:
  -I ADDR       bind this address; the client's connections keep its device
  -device NAME  bind the fitting address of this RDMA or network device
  -policy P     client: auto (default: pin where -I or -device is given, follow
                otherwise), pin, route or follow
  -p PORT       server (default 7476)
  -P            server: serve clients until interrupted, one after another
  -timeout D    most time for connecting, and for each answer; a server gives a
                client up that is silent for so long (default 15s)
  -json         client: print the results as JSON
  -plot FILE    client: draw an SVG: the latencies' distribution for each size,
                or the bandwidth by size

Results go to stdout, progress to stderr. MB is 2^20 bytes. CPU is what the
client's process used, for each message; with -json the server's stands beside it.

Exit status: 0 measured; 1 the connection or the data failed; 2 misuse; 3 no RDMA
here; 4 refused by the binding rule; 130 interrupted before the end.
`

// Bounds, so that no client makes a server of itself what it does not want.
const (
	maxSize  = 1 << 28 // the buffers take twice that, or 32 MB
	maxDepth = 1 << 14
	maxQPs   = 1 << 12
	maxIters = 1 << 40
)

const defaultPort = 7476

// plan is what is measured: the client's wish, which both ends follow.
type plan struct {
	Test     string        `json:"test"`
	Sizes    []int         `json:"sizes,omitempty"`
	Iters    int           `json:"iterations"`
	Duration time.Duration `json:"duration_ns,omitempty"`
	Depth    int           `json:"depth"`
	Batch    int           `json:"batch"`
	Inline   int           `json:"inline"`
	QPs      int           `json:"queue_pairs"`
	Events   bool          `json:"events"`
}

type options struct {
	plan
	host       string // the server's, empty for the server itself
	port       uint16
	source     netip.Addr
	device     string
	policy     cm.Policy
	persistent bool
	timeout    time.Duration
	json       bool
	plot       string
}

func (o *options) server() bool { return o.host == "" }

func parse(args []string) (options, error) {
	var o options
	var size, source string
	var port uint
	fs := flag.NewFlagSet("rb-perf", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&size, "s", "", "")
	fs.IntVar(&o.Iters, "n", 0, "")
	fs.DurationVar(&o.Duration, "duration", 0, "")
	fs.IntVar(&o.Depth, "d", 0, "")
	fs.IntVar(&o.Batch, "batch", 0, "")
	fs.IntVar(&o.Inline, "inline", 0, "")
	fs.IntVar(&o.QPs, "q", 0, "")
	fs.BoolVar(&o.Events, "events", false, "")
	fs.StringVar(&source, "I", "", "")
	fs.StringVar(&o.device, "device", "", "")
	fs.TextVar(&o.policy, "policy", cm.Auto, "")
	fs.UintVar(&port, "p", defaultPort, "")
	fs.BoolVar(&o.persistent, "P", false, "")
	fs.DurationVar(&o.timeout, "timeout", 15*time.Second, "")
	fs.BoolVar(&o.json, "json", false, "")
	fs.StringVar(&o.plot, "plot", "", "")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.Test, args = args[0], args[1:]
	}
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case o.Test == "":
		return o, fmt.Errorf("which test? %s", strings.Join(testNames(), ", "))
	case fs.NArg() > 1:
		return o, fmt.Errorf("unexpected %q", fs.Arg(1))
	case o.timeout <= 0:
		return o, fmt.Errorf("-timeout %v: want more than 0", o.timeout)
	case port == 0 || port > 65535:
		return o, fmt.Errorf("-p %d: want 1 to 65535", port)
	}
	o.port = uint16(port)
	var err error
	if o.source, err = program.Local("-I", source, o.device); err != nil {
		return o, err
	}
	if fs.NArg() == 0 {
		return o, o.checkServer(given)
	}
	return o, o.checkClient(given, size, fs.Arg(0))
}

func (o *options) checkServer(given map[string]bool) error {
	for _, f := range []string{"s", "n", "duration", "d", "batch", "inline", "q", "events", "policy", "json", "plot"} {
		if given[f] {
			return fmt.Errorf("-%s is the client's, which needs HOST; the server follows it", f)
		}
	}
	if o.Test != anyTest && tests[o.Test] == nil {
		return unknownTest(o.Test)
	}
	return nil
}

func (o *options) checkClient(given map[string]bool, size, host string) (err error) {
	for _, f := range []string{"p", "P"} {
		if given[f] {
			return fmt.Errorf("-%s is the server's (a client gives HOST:PORT)", f)
		}
	}
	if o.host, o.port, err = splitHost(host); err != nil {
		return err
	}
	t := tests[o.Test]
	if o.Test == anyTest {
		return fmt.Errorf("any is for the server: give the client one of %s", strings.Join(testNames(), ", "))
	}
	if t == nil {
		return unknownTest(o.Test)
	}
	if o.Sizes, err = sizes(size, t); err != nil {
		return err
	}
	for f, n := range map[string]int{"n": o.Iters, "d": o.Depth, "batch": o.Batch, "q": o.QPs, "duration": int(o.Duration)} {
		if given[f] && n <= 0 {
			return fmt.Errorf("-%s: want more than 0", f)
		}
	}
	o.complete(t)
	return o.check()
}

// complete fills in the defaults.
func (p *plan) complete(t *test) {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&p.QPs, 1)
	def(&p.Iters, t.iters)
	def(&p.Depth, t.depth)
	def(&p.Batch, min(t.batch, p.Depth))
	p.Iters = (p.Iters + p.Batch - 1) / p.Batch * p.Batch
}

// check refuses what cannot be measured; the server too asks it.
func (p *plan) check() error {
	t := tests[p.Test]
	if t == nil {
		return unknownTest(p.Test)
	}
	switch {
	case p.Iters < 1 || p.Iters > maxIters || p.Duration < 0:
		return fmt.Errorf("%d messages for %v: want 1 to %d", p.Iters, p.Duration, maxIters)
	case p.Depth < 1 || p.Depth > maxDepth:
		return fmt.Errorf("-d %d: want 1 to %d", p.Depth, maxDepth)
	case p.Batch < 1 || p.Batch > p.Depth:
		return fmt.Errorf("-batch %d: want 1 to the depth, %d", p.Batch, p.Depth)
	case p.QPs < 1 || p.QPs > maxQPs:
		return fmt.Errorf("-q %d: want 1 to %d", p.QPs, maxQPs)
	case p.Inline < 0 || p.Inline > maxSize:
		return fmt.Errorf("-inline %d: want 0 to %d", p.Inline, maxSize)
	case !t.wide && (p.Depth != t.depth || p.Batch != t.batch || p.QPs != 1) && t.kind != connects:
		return fmt.Errorf("%s has one message under way: no -d, -batch and -q", p.Test)
	case p.Events && t.kind == pingPong && t.op == opWrite:
		return fmt.Errorf("-events: nothing tells of a WRITE that arrives; %s looks at the memory", p.Test)
	case t.kind == connects && (p.Batch != 1 || p.QPs != 1):
		return fmt.Errorf("%s: no -batch and -q", p.Test)
	case t.kind == connects && len(p.Sizes) > 0 || t.kind != connects && (len(p.Sizes) == 0 || len(p.Sizes) > 64):
		return fmt.Errorf("%s of %d sizes", p.Test, len(p.Sizes))
	}
	for _, s := range p.Sizes {
		if s < 1 || s > maxSize || t.op == opAtomic && s != 8 {
			return fmt.Errorf("-s %d: want 1 to %d, and 8 for atomics", s, maxSize)
		}
	}
	return nil
}

// A batch's messages lie in slots, a stride apart whatever the size, so that
// receives that are posted stay right for the next size. Very long messages
// share slots.

func (p *plan) stride() int {
	n := 8
	for _, s := range p.Sizes {
		n = max(n, (s+7)&^7)
	}
	return n
}

func (p *plan) slots() int {
	const most = 16 << 20
	return max(1, min(p.Batch, most/p.stride()))
}

// span is how many bytes the slots take, in whole pages.
func (p *plan) span() int {
	const page = 4096
	return (p.slots()*p.stride() + page - 1) &^ (page - 1)
}

// sizes reads -s.
func sizes(s string, t *test) ([]int, error) {
	switch {
	case t.size == 0 && s != "":
		return nil, errors.New("-s: this test has no messages")
	case t.size == 0:
		return nil, nil
	case s == "":
		return []int{t.size}, nil
	case s == "all" && t.op == opAtomic:
		return []int{8}, nil
	case s == "all":
		var all []int
		for n := 2; n <= 8<<20; n *= 2 {
			all = append(all, n)
		}
		return all, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxSize {
		return nil, fmt.Errorf("-s %q: want 1 to %d, or all", s, maxSize)
	}
	return []int{n}, nil
}

// splitHost takes HOST[:PORT] apart; an IPv6 address with a port has brackets.
func splitHost(s string) (string, uint16, error) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a.String(), defaultPort, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = s, strconv.Itoa(defaultPort)
	}
	n, err := strconv.ParseUint(port, 10, bits.Len(65535))
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("%q: want HOST or HOST:PORT", s)
	}
	return host, uint16(n), nil
}
