// Package ibvtest helps tests to find objects of package ibv that they leaked.
package ibvtest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/railbind/railbind/ibv"
)

// Main runs a package's tests and fails if they left objects open, with the
// stacks that made them. For TestMain:
//
//	func TestMain(m *testing.M) { ibvtest.Main(m) }
func Main(m *testing.M) {
	ibv.TraceObjects(true)
	code := m.Run()
	if report := Report(); report != "" {
		fmt.Fprint(os.Stderr, report)
		if code == 0 {
			code = 1
		}
	}
	os.Exit(code)
}

// VerifyNone fails the test if objects are open when it ends.
func VerifyNone(t testing.TB) {
	t.Helper()
	ibv.TraceObjects(true)
	t.Cleanup(func() {
		if report := Report(); report != "" {
			t.Error(report)
		}
	})
}

// Report describes the objects that are open, or is empty.
func Report() string {
	left := ibv.Objects()
	if len(left) == 0 {
		return ""
	}
	// The second collection sees what the cleanups of the first released.
	runtime.GC()
	runtime.GC()
	var b strings.Builder
	fmt.Fprintf(&b, "%d objects left open:\n", len(left))
	for _, o := range ibv.Objects() {
		dropped := ""
		if o.Dropped {
			dropped = ", which nothing can reach any more"
		}
		fmt.Fprintf(&b, "  %s%s, made at\n", o.Name, dropped)
		for _, f := range o.Created {
			fmt.Fprintf(&b, "    %s\n      %s:%d\n", f.Function, f.File, f.Line)
		}
	}
	return b.String()
}
