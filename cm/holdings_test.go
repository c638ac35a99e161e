//go:build linux

package cm

import (
	"bytes"
	"maps"
	"os"
	"runtime"
	"strconv"
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
	fds, err := os.ReadDir("/proc/self/fd")
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
		require.NoError(t, ctx.Err(), "now held: %v; before: %v", now, before)
	}
}
