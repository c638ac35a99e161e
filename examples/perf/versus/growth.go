package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// growth prints what rb-perf makes of more: longer messages, more queue pairs.
func growth() error {
	sizes, _, err := alone("write-bw -s all -n 16 -d 8 -batch 4")
	if err != nil {
		return err
	}
	times, _, err := alone("write-lat -s all -n 30")
	if err != nil {
		return err
	}
	fmt.Println("| bytes | `write-bw -s all -n 16 -d 8 -batch 4`, MB/s | `write-lat -s all -n 30`, us |")
	fmt.Println("|---|---|---|")
	for i := range min(len(sizes), len(times)) {
		fmt.Printf("| %v | %.4g | %.4g |\n", at(sizes[i], []string{"size"}),
			at(sizes[i], []string{"bandwidth", "average_mb_s"}), at(times[i], []string{"latency_us", "typical"}))
	}
	fmt.Println()
	fmt.Println("| queue pairs, `rate -s 64 -n 8192 -d 1 -q N` | Mpps | CPU of the client, us each | its memory, KiB | more for each connection |")
	fmt.Println("|---|---|---|---|---|")
	first := int64(0)
	for _, n := range []int{1, 16, 256, 1024, 4096} {
		r, kib, err := alone("rate -s 64 -n 8192 -d 1 -q " + strconv.Itoa(n))
		if err != nil {
			return err
		}
		more := ""
		if first == 0 {
			first = kib
		} else {
			more = fmt.Sprintf("%.1f", float64(kib-first)/float64(n-1))
		}
		fmt.Printf("| %d | %.4g | %.4g | %d | %s |\n", n, at(r[0], []string{"bandwidth", "mpps"}), at(r[0], []string{"client_cpu_us"}), kib, more)
	}
	return nil
}

// alone is one run of rb-perf: its results, and the client's memory at most. Its
// timeout is long because the clock of a guest that counts instructions runs ahead
// while the guest waits for its files.
func alone(test string) (results []any, kib int64, err error) {
	args := strings.Fields(test)
	out, ended, err := both(listensRDMA, []string{"rb-perf", args[0], "-timeout", "10m"},
		append(append([]string{"rb-perf"}, args...), "-timeout", "10m", "-json", server))
	if err != nil {
		return nil, 0, err
	}
	var report struct{ Results []any }
	if err := json.Unmarshal(out, &report); err != nil || len(report.Results) == 0 {
		return nil, 0, fmt.Errorf("rb-perf %s: %w: %s", test, err, out)
	}
	return report.Results, ended.SysUsage().(*syscall.Rusage).Maxrss, nil
}
