// Command versus runs rb-perf and perftest in turn, in the guest, on the same
// device with the same size, depth, batch and MTU, and prints the ratio of their
// medians. `make bench-guest` starts it.
package main

import (
	"context"
	"encoding/json"
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

// contest is one thing that both programs measure.
type contest struct {
	ours   string   // rb-perf's arguments
	theirs string   // perftest's
	column int      // perftest's figure, in its line of results
	path   []string // rb-perf's
	unit   string
	iters  int
}

var (
	typical = []string{"latency_us", "typical"}
	average = []string{"bandwidth", "average_mb_s"}
	rate    = []string{"bandwidth", "mpps"}
)

var contests = map[string][]contest{
	"latency": {
		{"send-lat -s 64", "ib_send_lat -s 64", 4, typical, "us", 1000},
		{"write-lat -s 64", "ib_write_lat -s 64", 4, typical, "us", 1000},
		{"read-lat -s 64", "ib_read_lat -s 64", 4, typical, "us", 1000},
	},
	// Not send-bw: its receiver polls too, and on the one CPU of the instruction
	// clock two that poll measure the scheduler.
	"bandwidth": {
		{"write-bw -s 65536 -d 128 -batch 16", "ib_write_bw -s 65536 -t 128 -l 16 -Q 16", 3, average, "MB/s", 320},
		{"read-bw -s 65536 -d 16 -batch 4", "ib_read_bw -s 65536 -t 16 -l 4 -Q 4", 3, average, "MB/s", 320},
		{"rate -s 64 -d 128 -batch 32", "ib_write_bw -s 64 -t 128 -l 32 -Q 32", 4, rate, "Mpps", 6400},
	},
}

func main() {
	pairs := flag.Int("pairs", 21, "runs of each program")
	only := flag.String("only", "", "the contests whose rb-perf arguments start so")
	flag.Parse()
	if err := all(contests[flag.Arg(0)], *only, *pairs); err != nil {
		fmt.Fprintf(os.Stderr, "versus: %v\n", err)
		os.Exit(1)
	}
}

func all(list []contest, only string, pairs int) error {
	if len(list) == 0 {
		return fmt.Errorf("usage: versus [-pairs N] [-only TEST] latency|bandwidth")
	}
	fmt.Println("| rb-perf | perftest | median | perftest's | unit | ratio | 95 % |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, c := range list {
		if !strings.HasPrefix(c.ours, only) {
			continue
		}
		var a, b []float64
		for i := range pairs {
			// Who is first alternates too: what one leaves behind meets both.
			for _, ours := range []bool{i%2 == 0, i%2 != 0} {
				run, to := c.perftest, &b
				if ours {
					run, to = c.rbperf, &a
				}
				v, err := run()
				if err != nil {
					return err
				}
				*to = append(*to, v)
			}
		}
		low, high := interval(a, b)
		fmt.Printf("| `%s` | `%s` | %.4g | %.4g | %s | %.3f | %.3f-%.3f |\n",
			c.ours, c.theirs, median(a), median(b), c.unit, median(a)/median(b), low, high)
	}
	return nil
}

const server, theirPort = "10.1.0.1", 18515

// rbperf is one run of ours. Its timeout is long because the clock of a guest that
// counts instructions runs ahead while the guest waits for its files.
func (c contest) rbperf() (float64, error) {
	args := strings.Fields(c.ours)
	out, err := both(listensRDMA, []string{"rb-perf", args[0], "-timeout", "10m"},
		append(append([]string{"rb-perf"}, args...), "-n", strconv.Itoa(c.iters), "-timeout", "10m", "-json", server))
	if err != nil {
		return 0, err
	}
	var report struct{ Results []map[string]any }
	if err := json.Unmarshal(out, &report); err != nil || len(report.Results) != 1 {
		return 0, fmt.Errorf("rb-perf %s: %w: %s", c.ours, err, out)
	}
	m, _ := report.Results[0][c.path[0]].(map[string]any)
	v, ok := m[c.path[1]].(float64)
	if !ok {
		return 0, fmt.Errorf("rb-perf %s: no %v in %s", c.ours, c.path, out)
	}
	return v, nil
}

// perftest is one run of theirs. GID index 1 is the IPv4 address of the topology
// `pair`; connections are set up over TCP, since its server spins otherwise.
func (c contest) perftest() (float64, error) {
	args := append(strings.Fields(c.theirs), "-d", "rxe0", "-x", "1", "-m", "4096", "-F", "-n", strconv.Itoa(c.iters))
	out, err := both(func() bool { return listensTCP(theirPort) }, args, append(slices.Clone(args), server))
	if err != nil {
		return 0, err
	}
	size := args[slices.Index(args, "-s")+1]
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) > c.column && f[0] == size {
			return strconv.ParseFloat(f[c.column], 64)
		}
	}
	return 0, fmt.Errorf("%s: no line of %s bytes in:\n%s", c.theirs, size, out)
}

// both runs a server, and once it listens a client, whose output it returns.
func both(ready func() bool, serverArgs, clientArgs []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := exec.CommandContext(ctx, serverArgs[0], serverArgs[1:]...)
	if err := s.Start(); err != nil {
		return nil, err
	}
	for !ready() {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%v does not listen", serverArgs)
		}
		time.Sleep(20 * time.Millisecond)
	}
	out, err := exec.CommandContext(ctx, clientArgs[0], clientArgs[1:]...).Output()
	if err != nil {
		cancel()
		_ = s.Wait()
		return nil, fmt.Errorf("%v: %w: %s", clientArgs, err, out)
	}
	if err := s.Wait(); err != nil {
		return nil, fmt.Errorf("%v: %w", serverArgs, err)
	}
	return out, nil
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
