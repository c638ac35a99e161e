package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are the figures of `go test -bench`: of each benchmark, of each unit, one
// of each run.
type results struct {
	names []string
	of    map[string]map[string][]float64
}

var benchLine = regexp.MustCompile(`^Benchmark(\S+?)(-\d+)?\s+\d+\s+(.*)$`)

func parse(out string) (*results, error) {
	r := &results{of: map[string]map[string][]float64{}}
	for line := range strings.Lines(out) {
		m := benchLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		name, f := m[1], strings.Fields(m[3])
		if r.of[name] == nil {
			r.names = append(r.names, name)
			r.of[name] = map[string][]float64{}
		}
		for i := 0; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			r.of[name][f[i+1]] = append(r.of[name][f[i+1]], v)
		}
	}
	if len(r.names) == 0 {
		return nil, errors.New("no benchmark")
	}
	return r, nil
}

// span is the lowest and the highest of the runs.
func (r *results) span(name, unit string) string {
	v := r.of[name][unit]
	if len(v) == 0 {
		return ""
	}
	low, high := digits(slices.Min(v)), digits(slices.Max(v))
	if low == high {
		return low
	}
	return low + "-" + high
}

// digits are three that count, and no exponent.
func digits(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// postPoll puts the three ways of a batch side by side.
func postPoll(out string) (string, error) {
	r, err := parse(out)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| batch | Go : C, separate | combined | ranges | of the bar, separate | combined | ranges |\n|---|---|---|---|---|---|---|\n")
	for _, name := range r.names {
		batch, isFirst := strings.CutSuffix(name, "/separate")
		if !isFirst {
			continue
		}
		fmt.Fprintf(&b, "| %s ", strings.TrimPrefix(batch, "PostPoll/batch="))
		for _, unit := range []string{"go/c", "of-bar"} {
			for _, way := range []string{"separate", "combined", "ranges"} {
				fmt.Fprintf(&b, "| %s ", r.span(batch+"/"+way, unit))
			}
		}
		b.WriteString("|\n")
	}
	return b.String(), nil
}

// ranges lists each benchmark with what it says.
func ranges(out string) (string, error) {
	r, err := parse(out)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| benchmark | ns | Go : C | allocations |\n|---|---|---|---|\n")
	for _, name := range r.names {
		ns := r.span(name, "go-ns/req")
		if ns == "" {
			ns = r.span(name, "ns/op")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, ns, r.span(name, "go/c"), r.span(name, "allocs/op"))
	}
	return b.String(), nil
}
