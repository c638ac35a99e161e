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
	probe := newSpace(t)
	shared := newPair(t) // for all that change nothing
	for _, s := range acceptance.Scenarios {
		t.Run(s.String(), func(t *testing.T) {
			if s.Needs != "" && !probe.has(s.Needs) {
				if os.Getenv("RAILBIND_GUEST") != "" {
					t.Fatalf("the guest's kernel makes no link of kind %s", s.Needs)
				}
				t.Skipf("this kernel makes no link of kind %s", s.Needs)
			}
			h := shared
			if len(s.Setup)+len(s.AfterBind)+len(s.RDMA) > 0 {
				h = newPair(t)
			}
			acceptance.Run(t, s, h)
		})
	}
}
