// Package guest says which machine a test is for.
package guest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Here reports whether this is the guest that ci/guest boots.
func Here() bool { return os.Getenv("RAILBIND_GUEST") != "" }

// IWARP reports whether its RDMA devices are siw's.
func IWARP() bool { return os.Getenv("RAILBIND_TRANSPORT") == "siw" }

// Device names a device for this guest, in a text too: siw0 for rxe0 on siw.
func Device(text string) string {
	if IWARP() {
		return strings.ReplaceAll(text, "rxe", "siw")
	}
	return text
}

// NeedTopo is for a test that runs in a guest of that topology. On a machine that
// is no guest the test is skipped; in a guest of another topology it must not
// have been chosen.
func NeedTopo(t *testing.T, name string) {
	t.Helper()
	if !Here() {
		t.Skipf("runs in the guest: ci/guest -topo %s", name)
	}
	require.Equal(t, name, os.Getenv("RAILBIND_TOPO"), "this test is for another topology")
}

// NeedNoRDMA is for a test that runs in the guests bare and none, or on a machine
// without RDMA anyway.
func NeedNoRDMA(t *testing.T) {
	t.Helper()
	if devices, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(devices) > 0 {
		require.False(t, Here(), "this test is for a guest without RDMA")
		t.Skip("this machine has RDMA")
	}
}
