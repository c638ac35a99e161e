//go:build linux && cgo

package ibv

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRingLeavesNoFiles: the file descriptors of a ring go with Close, and not
// when the garbage collector finds its memory.
func TestRingLeavesNoFiles(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f := newBench(t, benchConfig{})
	before := eventFDs(t)
	rings := make([]*CompletionRing, 8)
	for i := range rings {
		rings[i] = newRing(t, f, RingConfig{Size: 8})
	}
	require.Greater(t, eventFDs(t), before)
	for _, r := range rings {
		require.NoError(t, r.Close())
	}
	require.Equal(t, before, eventFDs(t))
}

// eventFDs counts this process's eventfds: those of rings, and the runtime's.
func eventFDs(t *testing.T) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); to == "anon_inode:[eventfd]" { // gone meanwhile: not one
			n++
		}
	}
	return n
}
