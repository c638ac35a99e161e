//go:build linux

package route

import (
	"os"
	"testing"

	"github.com/railbind/railbind/cm/internal/acceptance"
)

// TestAcceptance runs the table that package policy runs against its model
// against the routing of the real kernel.
func TestAcceptance(t *testing.T) {
	runTable(t, func(acceptance.Scenario) bool { return true })
}

// TestPairAcceptance is the part of the table that the guest adds to that: what
// needs a VRF, and what needs no host of its own, which would cost seconds each.
func TestPairAcceptance(t *testing.T) {
	if os.Getenv("RAILBIND_GUEST") == "" {
		t.Skip("TestAcceptance runs the whole table here")
	}
	runTable(t, func(s acceptance.Scenario) bool { return s.Needs == "vrf" || !changes(s) })
}

// changes says whether a scenario changes its host.
func changes(s acceptance.Scenario) bool { return len(s.Setup)+len(s.AfterBind)+len(s.RDMA) > 0 }

func runTable(t *testing.T, want func(acceptance.Scenario) bool) {
	probe, shared := newSpace(t), newPair(t)
	for _, s := range acceptance.Scenarios {
		if !want(s) {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			if s.Needs != "" && !probe.has(s.Needs) {
				if os.Getenv("RAILBIND_GUEST") != "" {
					t.Fatalf("the guest's kernel makes no link of kind %s", s.Needs)
				}
				t.Skipf("this kernel makes no link of kind %s", s.Needs)
			}
			h := shared
			if changes(s) {
				h = newPair(t)
			}
			acceptance.Run(t, s, h)
		})
	}
}
