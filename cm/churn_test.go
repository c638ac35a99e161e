//go:build linux

package cm

import (
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Case 53: 64 goroutines make and close a thousand ids, again and again; memory
// stays what it was.
func TestPairChurn(t *testing.T) {
	needTopo(t, "pair")
	churn := func() {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 1000 / 64 {
					id, err := NewID(IDConfig{})
					if err == nil {
						err = errors.Join(id.Bind(ap(home)), id.Close())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	churn() // what is made once, and the threads
	before := resident(t)
	churn()
	churn()
	require.Less(t, resident(t)-before, 16<<20)
}

// resident is the memory of this process that is in use, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	f, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(f))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
