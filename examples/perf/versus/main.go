// Command versus runs rb-perf in turn with perftest, or with rdma-core's cmtime, in
// the guest, on the same device with the same size, depth, batch and MTU, and prints
// the ratio of their medians. `make bench-guest` starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// contest is what both programs measure in one run.
type contest struct {
	ours, theirs string // arguments of rb-perf; the other's command
	iters        int
	figures      []figure
}

// figure is one of the numbers that a run gives.
type figure struct {
	name string // where a run gives several
	unit string
	path []string // in rb-perf's report
	line string   // how the other's line of results begins
	read func(fields []string) (float64, error)
}

// column is a figure of perftest's, or of cmtime's.
func column(n int) func([]string) (float64, error) {
	return func(f []string) (float64, error) {
		if len(f) <= n {
			return 0, fmt.Errorf("no column %d", n)
		}
		return strconv.ParseFloat(f[n], 64)
	}
}

// last is the mean time of a connection, cmtime's last column.
func last(f []string) (float64, error) { return column(len(f) - 1)(f) }

func typical(size string) []figure {
	return []figure{{"", "us", []string{"latency_us", "typical"}, size, column(4)}}
}

func average(size string) []figure {
	return []figure{{"", "MB/s", []string{"bandwidth", "average_mb_s"}, size, column(3)}}
}

// together is how many connections are made at once, as cmtime does.
const together = "100"

var contests = map[string][]contest{
	"latency": {
		{"send-lat -s 64", "ib_send_lat -s 64", 1000, typical("64")},
		{"write-lat -s 64", "ib_write_lat -s 64", 1000, typical("64")},
		{"read-lat -s 64", "ib_read_lat -s 64", 1000, typical("64")},
	},
	// Here both ends of send-bw poll, each on a CPU of its own; on the one CPU of
	// the instruction clock they would measure the scheduler.
	"sends": {
		{"send-bw -s 65536 -d 128 -batch 16", "ib_send_bw -s 65536 -t 128 -l 16 -Q 16", 320, average("65536")},
	},
	"bandwidth": {
		{"write-bw -s 65536 -d 128 -batch 16", "ib_write_bw -s 65536 -t 128 -l 16 -Q 16", 320, average("65536")},
		{"read-bw -s 65536 -d 16 -batch 4", "ib_read_bw -s 65536 -t 16 -l 4 -Q 4", 320, average("65536")},
		{"rate -s 64 -d 128 -batch 32", "ib_write_bw -s 64 -t 128 -l 32 -Q 32", 6400,
			[]figure{{"", "Mpps", []string{"bandwidth", "mpps"}, "64", column(4)}}},
	},
	// cmtime does a step for all connections before the next one; rb-perf does all
	// steps of each, as many connections at once.
	"connect": {
		{"connect -d " + together, "cmtime -c " + together, 100, []figure{{"", "1/s", []string{"connections_s"}, "", nil}}},
		{"connect -d 1", "cmtime -c 1", 1, steps()},
	},
}

// steps are what both call parts of making and ending one connection.
func steps() (list []figure) {
	for _, s := range [][2]string{
		{"create id", "create id"}, {"resolve address", "resolve addr"}, {"resolve route", "resolve route"},
		{"create queue pair", "create qp"}, {"connect", "connect"}, {"disconnect", "disconnect"}, {"close", "destroy"},
	} {
		list = append(list, figure{s[0], "us", []string{"steps_us", s[0], "typical"}, s[1], last})
	}
	return list
}

func main() {
	pairs := flag.Int("pairs", 21, "runs of each program")
	only := flag.String("only", "", "the contests whose rb-perf arguments start so")
	flag.Parse()
	run := growth
	if flag.Arg(0) != "growth" {
		run = func() error { return all(contests[flag.Arg(0)], *only, *pairs) }
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "versus: %v\n", err)
		os.Exit(1)
	}
}

func all(list []contest, only string, pairs int) error {
	if len(list) == 0 {
		return fmt.Errorf("usage: versus [-pairs N] [-only TEST] latency|sends|bandwidth|connect|growth")
	}
	fmt.Println("| rb-perf | the other | median | the other's | unit | ratio | 95 % |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, c := range list {
		if !strings.HasPrefix(c.ours, only) {
			continue
		}
		a, b := make([][]float64, len(c.figures)), make([][]float64, len(c.figures))
		for i := range pairs {
			// Who is first alternates too: what one leaves behind meets both.
			for _, ours := range []bool{i%2 == 0, i%2 != 0} {
				run, to := c.other, b
				if ours {
					run, to = c.rbperf, a
				}
				v, err := run()
				if err != nil {
					return err
				}
				for k := range v {
					to[k] = append(to[k], v[k])
				}
			}
		}
		for k, f := range c.figures {
			low, high := interval(a[k], b[k])
			fmt.Printf("| `%s` %s | `%s` | %.4g | %.4g | %s | %.3f | %.3f-%.3f |\n",
				c.ours, f.name, c.theirs, median(a[k]), median(b[k]), f.unit, median(a[k])/median(b[k]), low, high)
		}
	}
	return nil
}

const server, theirPort = "10.1.0.1", 18515

// rbperf is one run of ours.
func (c contest) rbperf() (v []float64, err error) {
	results, _, err := alone(c.ours + " -n " + strconv.Itoa(c.iters))
	if err != nil {
		return nil, err
	}
	for _, f := range c.figures {
		n, ok := at(results[0], f.path).(float64)
		if !ok {
			return nil, fmt.Errorf("rb-perf %s: no %v", c.ours, f.path)
		}
		v = append(v, n)
	}
	return v, nil
}

// at follows a path into JSON; an element of a list is found by its name.
func at(v any, path []string) any {
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			i := slices.IndexFunc(x, func(e any) bool { return at(e, []string{"name"}) == p })
			if i < 0 {
				return nil
			}
			v = x[i]
		}
	}
	return v
}

// other is one run of theirs.
func (c contest) other() (v []float64, err error) {
	args := strings.Fields(c.theirs)
	var out []byte
	if args[0] == "cmtime" {
		out, _, err = both(listensRDMA, []string{"cmtime"}, append(args, "-s", server))
	} else {
		// GID index 1 is the IPv4 address of the topology `pair`; connections are
		// set up over TCP, since its server spins otherwise.
		args = append(args, "-d", "rxe0", "-x", "1", "-m", "4096", "-F", "-n", strconv.Itoa(c.iters))
		out, _, err = both(func() bool { return listensTCP(theirPort) }, args, append(slices.Clone(args), server))
	}
	if err != nil {
		return nil, err
	}
	for _, f := range c.figures {
		n, err := f.theirs(string(out))
		if err != nil {
			return nil, fmt.Errorf("%s: %w in:\n%s", c.theirs, err, out)
		}
		v = append(v, n)
	}
	return v, nil
}

// theirs finds a figure in what the other printed.
func (f figure) theirs(out string) (float64, error) {
	if f.read == nil {
		return persecond(out)
	}
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), f.line); ok && (rest == "" || strings.ContainsAny(rest[:1], " \t:")) {
			return f.read(strings.Fields(strings.ReplaceAll(line, ":", " ")))
		}
	}
	return 0, fmt.Errorf("no line %q", f.line)
}

// persecond is how many connections cmtime's steps, all together, come to.
func persecond(out string) (float64, error) {
	each := 0.
	for _, f := range steps() {
		us, err := f.theirs(out)
		if err != nil {
			return 0, err
		}
		each += us
	}
	return 1e6 / each, nil
}

// both runs a server, and once it listens a client, whose output it returns.
func both(ready func() bool, serverArgs, clientArgs []string) ([]byte, *os.ProcessState, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := exec.CommandContext(ctx, serverArgs[0], serverArgs[1:]...)
	if err := s.Start(); err != nil {
		return nil, nil, err
	}
	for !ready() {
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("%v does not listen", serverArgs)
		}
		time.Sleep(20 * time.Millisecond)
	}
	client := exec.CommandContext(ctx, clientArgs[0], clientArgs[1:]...)
	out, err := client.Output()
	if err != nil {
		cancel()
		_ = s.Wait()
		return nil, nil, fmt.Errorf("%v: %w: %s", clientArgs, err, out)
	}
	if serverArgs[0] == "cmtime" {
		cancel() // it goes on to wait for clients
		_ = s.Wait()
	} else if err := s.Wait(); err != nil {
		return nil, nil, fmt.Errorf("%v: %w", serverArgs, err)
	}
	return out, client.ProcessState, nil
}

func listensTCP(port int) bool {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, _ := os.ReadFile(file)
		for _, line := range strings.Split(string(b), "\n") {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}

// listensRDMA: nothing else in the guest listens.
func listensRDMA() bool {
	out, _ := exec.Command("rdma", "res", "show", "cm_id").Output()
	return strings.Contains(string(out), "LISTEN")
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// interval is the middle 95 % of the ratios that samples of the samples give.
func interval(a, b []float64) (low, high float64) {
	const draws = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(v []float64) float64 {
		s := make([]float64, len(v))
		for i := range s {
			s[i] = v[rng.IntN(len(v))]
		}
		return median(s)
	}
	ratios := make([]float64, draws)
	for i := range ratios {
		ratios[i] = draw(a) / draw(b)
	}
	slices.Sort(ratios)
	return ratios[draws/40], ratios[draws-1-draws/40]
}
