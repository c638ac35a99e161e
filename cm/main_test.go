package cm

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// needTopo says which guest a test is for. On a machine that is no guest the
// test is skipped; in a guest of another topology it must not have been chosen.
func needTopo(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("RAILBIND_GUEST") == "" {
		t.Skipf("runs in the guest: ci/guest -topo %s", name)
	}
	require.Equal(t, name, os.Getenv("RAILBIND_TOPO"), "this test is for another topology")
}

// iwarp tells whether the guest's devices are siw's. Then the kernel resolves no
// path, a socket of its own routes the connection, and TCP carries the data.
func iwarp() bool { return os.Getenv("RAILBIND_TRANSPORT") == "siw" }

// dev gives rxe0 the name that it has in this guest: siw0 where that is the transport.
func dev(name string) string {
	if iwarp() {
		return strings.ReplaceAll(name, "rxe", "siw")
	}
	return name
}

// ip runs iproute2 and undoes with undo at the end, if that is given.
func ip(t *testing.T, do string, undo ...string) {
	t.Helper()
	run(t, "ip "+do)
	for _, u := range undo {
		t.Cleanup(func() { run(t, "ip "+u) })
	}
}

func run(t *testing.T, command string) string {
	t.Helper()
	f := strings.Fields(command)
	out, err := exec.Command(f[0], f[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
	return string(out)
}

// owned counts the objects of a kind that user space holds.
func owned(t *testing.T, kind string) int {
	t.Helper()
	return len(ownedLines(t, kind))
}

// ownedLines are these objects, whoever made them: the kernel names the thread that
// made an object, not its process, and nobody once that thread has ended. Its own
// objects have a module's name in brackets.
func ownedLines(t *testing.T, kind string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(run(t, "rdma resource show "+kind)) {
		if !strings.Contains(line, " comm [") {
			lines = append(lines, line)
		}
	}
	return lines
}

func ap(s string) netip.AddrPort {
	if s == "" {
		return netip.AddrPort{}
	}
	return netip.MustParseAddrPort(s)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// newTestID makes an id that is closed at the end.
func newTestID(t *testing.T, cfg IDConfig) *ID {
	t.Helper()
	id, err := NewID(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, id.Close()) })
	return id
}
