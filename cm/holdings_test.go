//go:build linux

package cm

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holdings counts what this process holds: objects of the kernel, file
// descriptors, goroutines, and memory that is pinned for devices.
func holdings(t *testing.T) map[string]int {
	t.Helper()
	h := map[string]int{"goroutines": runtime.NumGoroutine()}
	for _, kind := range []string{"cm_id", "ctx", "qp", "cq", "srq", "pd", "mr"} {
		h[kind] = owned(t, kind)
	}
	fds, err := os.ReadDir(ownFDs())
	require.NoError(t, err)
	h["file descriptors"] = len(fds)
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, pinned, _ := bytes.Cut(status, []byte("VmPin:"))
	h["pinned kB"], err = strconv.Atoi(string(bytes.Fields(pinned)[0]))
	require.NoError(t, err)
	return h
}

// awaitHoldings waits until no more is held than before: some ends are left to
// the background.
func awaitHoldings(t *testing.T, before map[string]int) {
	t.Helper()
	for ctx := within(t, time.Minute); ; {
		now := holdings(t)
		if maps.EqualFunc(now, before, func(now, before int) bool { return now <= before }) {
			return
		}
		if ctx.Err() != nil {
			require.Fail(t, "more is held than before", tellHoldings(t, now, before))
		}
	}
}

// tellHoldings says what there is more of now, and which ones there are.
func tellHoldings(t *testing.T, now, before map[string]int) string {
	t.Helper()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if now[what] <= before[what] {
			continue
		}
		fmt.Fprintf(&b, "%s: %d, before: %d\n", what, now[what], before[what])
		switch what {
		case "goroutines":
			require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
		case "file descriptors":
			b.WriteString(run(t, "ls -l "+ownFDs()))
		case "pinned kB":
		default:
			for _, line := range ownedLines(t, what) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// ownFDs is the folder of this process's file descriptors, for other processes too.
func ownFDs() string { return fmt.Sprintf("/proc/%d/fd", os.Getpid()) }

// What is held counts also where the thread that made it has ended, as threads do
// that were locked.
func TestPairHoldingsOfThreads(t *testing.T) {
	needTopo(t, "pair")
	before := owned(t, "cm_id")
	var id *ID
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and so it ends with the goroutine
		var err error
		if id, err = NewID(IDConfig{}); err == nil {
			err = id.Bind(ap("10.1.0.1:0"))
		}
		ended <- err
	}()
	require.NoError(t, <-ended)
	require.Equal(t, before+1, owned(t, "cm_id"))
	require.NoError(t, id.Close())
	require.Equal(t, before, owned(t, "cm_id"))
}
