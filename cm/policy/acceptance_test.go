package policy_test

import (
	"testing"

	"github.com/railbind/railbind/cm/internal/acceptance"
)

// TestAcceptance runs the table against the model. Package route runs the same
// table against the real kernel's routing.
func TestAcceptance(t *testing.T) {
	for _, s := range acceptance.Scenarios {
		t.Run(s.String(), func(t *testing.T) {
			acceptance.Run(t, s, newPair(t))
		})
	}
}
