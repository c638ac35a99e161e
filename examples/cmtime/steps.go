package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
)

// step is how long a step took, in microseconds.
type step struct {
	Name  string `json:"name"`
	Total int64  `json:"total_us"` // for all connections
	Avg   int64  `json:"avg_us"`   // for each, from its own beginning
	Max   int64  `json:"max_us"`
	Min   int64  `json:"min_us"`
}

// newStep sums up what a step took for each connection, and for all.
func newStep(name string, total time.Duration, each []time.Duration) step {
	s := step{Name: name, Total: total.Microseconds()}
	var sum time.Duration
	for i, d := range each {
		sum += d
		s.Max = max(s.Max, d.Microseconds())
		if i == 0 || d.Microseconds() < s.Min {
			s.Min = d.Microseconds()
		}
	}
	s.Avg = (sum / time.Duration(max(1, len(each)))).Microseconds()
	return s
}

type result struct {
	peer.Outcome
	Connections int    `json:"connections"`
	Steps       []step `json:"steps"`
}

// Text is the table of the steps.
func (r *result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d connections, %s\n", r.Role, r.Connections, r.Where())
	fmt.Fprintf(&b, "%-18s %12s %12s %12s %12s %12s", "step", "total us", "us/conn", "avg us", "max us", "min us")
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "\n%-18s %12d %12d %12d %12d %12d", s.Name, s.Total, s.Total/int64(max(1, r.Connections)), s.Avg, s.Max, s.Min)
	}
	return b.String()
}
