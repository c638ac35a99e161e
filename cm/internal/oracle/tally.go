//go:build linux

package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tally counts results by class, and within each by what made it so.
type Tally struct {
	Cases, Hosts int
	classes      map[Class]int
	reasons      map[Class]map[string]int
	on           map[Class]map[int]bool // hosts
}

// Add counts a result of the newest host.
func (t *Tally) Add(r Result) {
	if t.classes == nil {
		t.classes, t.reasons, t.on = map[Class]int{}, map[Class]map[string]int{}, map[Class]map[int]bool{}
	}
	if t.reasons[r.Class] == nil {
		t.reasons[r.Class], t.on[r.Class] = map[string]int{}, map[int]bool{}
	}
	t.on[r.Class][t.Hosts] = true
	t.Cases++
	t.classes[r.Class]++
	t.reasons[r.Class][r.Why]++
}

// Refused counts the refused cases, needed or not.
func (t *Tally) Refused() int { return t.classes[Needed] + t.classes[Needless] + t.classes[OtherErrno] }

// Verdict says what is wrong with the predictions, "" where nothing is: at most
// one in 200 refusals may be without need, and one with another errno; in a short
// run those of one host, whose calls meet the same rule.
func (t *Tally) Verdict() string {
	for _, never := range []Class{Wrong, Disagree} {
		if n := t.classes[never]; n > 0 {
			return fmt.Sprintf("%d cases %s", n, never)
		}
	}
	for _, seldom := range []Class{Needless, OtherErrno} {
		if n := t.classes[seldom]; n > t.Refused()/200 && len(t.on[seldom]) > 1 {
			return fmt.Sprintf("%d of %d %s", n, t.Refused(), seldom)
		}
	}
	return ""
}

// String returns the table.
func (t *Tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6d cases on %d hosts\n", t.Cases, t.Hosts)
	for _, c := range Classes {
		fmt.Fprintf(&b, "%6d %s\n", t.classes[c], c)
		for _, why := range slices.Sorted(maps.Keys(t.reasons[c])) {
			if why != "" {
				fmt.Fprintf(&b, "       %6d %s\n", t.reasons[c][why], why)
			}
		}
	}
	return b.String()
}
