// Command figures takes the figures of BENCHMARKS.md anew: it runs the command of
// each section and puts what came out between the section's markers. The prose
// around them stays. `make bench` starts it, at the top of the checkout.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// section is a part of the file that a command fills.
type section struct {
	name    string
	command []string
	short   []string // instead, with -short
	render  func(out string) (string, error)
}

func sections() []section {
	bench := func(pattern, times, count string) []string {
		return []string{"go", "test", "./ibv", "-run", "^$", "-bench", pattern, "-benchtime", times, "-count", count}
	}
	versus := func(contest, pairs string, flags ...string) []string {
		guest := append([]string{"ci/guest", "-topo", "pair", "-timeout", "1h"}, flags...)
		return append(guest, "--", "versus", "-pairs", pairs, contest)
	}
	return []section{
		{"machine", []string{"sh", "-c", machine}, nil, asIs},
		{"fake", bench("PostPoll", "8000x", "3"), bench("PostPoll", "2000x", "1"), postPoll},
		{"engine", bench("^BenchmarkRun$|EmptyPoll", "2000x", "4"), bench("^BenchmarkRun$|EmptyPoll", "100x", "1"), ranges},
		{"growth", bench("Growth", "100000x", "3"), bench("Growth", "5000x", "1"), ranges},
		{"latency", versus("latency", "21"), versus("latency", "3"), asIs},
		{"sends", versus("sends", "21"), versus("sends", "3"), asIs},
		{"connect", versus("connect", "21"), versus("connect", "3"), asIs},
		{"growth-guest", versus("growth", "1"), nil, asIs},
		{"bandwidth", versus("bandwidth", "21", "-icount"), versus("bandwidth", "1", "-icount"), asIs},
	}
}

// machine prints what the figures depend on.
const machine = `
echo "| processor | $(nproc) of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1) |"
echo "|---|---|"
echo "| kernel | $(uname -r); in the guest $(ci/guest -- uname -r) |"
echo "| compilers | $(go version | cut -d' ' -f3), gcc $(gcc -dumpfullversion) |"
dpkg-query -W -f '| ${Package} | ${Version} |\n' rdma-core perftest qemu-system-x86
echo "| load when it began | $(cut -d' ' -f1 /proc/loadavg) |"
`

func main() {
	short := flag.Bool("short", false, "few runs: does it work?")
	only := flag.String("only", "", "these sections, by commas; default all")
	file := flag.String("file", "examples/perf/BENCHMARKS.md", "the file")
	flag.Parse()
	if err := fill(*file, *short, *only); err != nil {
		fmt.Fprintf(os.Stderr, "figures: %v\n", err)
		os.Exit(1)
	}
}

// fill writes after each section, so that one that fails costs no other.
func fill(file string, short bool, only string) error {
	for _, s := range sections() {
		if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
			continue
		}
		if short && s.short != nil {
			s.command = s.short
		}
		fmt.Fprintf(os.Stderr, "figures: %s\n", s.name)
		cmd := exec.Command(s.command[0], s.command[1:]...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(s.command, " "), err)
		}
		figures, err := s.render(out.String())
		if err != nil {
			return fmt.Errorf("%s: %w in:\n%s", s.name, err, out.String())
		}
		if s.command[0] != "sh" {
			figures = "    " + quoted(s.command) + "\n\n" + figures
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		put, err := between(string(text), s.name, figures)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(put), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// between replaces what stands between a section's markers.
func between(text, name, figures string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("no %q and %q", strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + strings.TrimSpace(figures) + "\n\n" + end + after, nil
}

// quoted is a command as a shell takes it.
func quoted(args []string) string {
	var q []string
	for _, a := range args {
		if strings.ContainsAny(a, "^$| ") {
			a = "'" + a + "'"
		}
		q = append(q, a)
	}
	return strings.Join(q, " ")
}

func asIs(out string) (string, error) { return out, nil }
