// Package churn makes and closes objects again and again, and wants the memory of
// the process to stay what it was. It is for tests.
package churn

import (
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kind is how an object is made.
type Kind struct {
	Name string
	Make func() (io.Closer, error)
}

const (
	workers = 4        // that make and close at once
	growth  = 16 << 20 // bytes that memory may differ by, which allocators keep
)

// Run makes and closes n objects, as many of each kind, after a tenth of that as
// a start. settled is called after the start and after the end, to see that
// nothing else is left.
func Run(t testing.TB, n int, kinds []Kind, settled func()) {
	t.Helper()
	each := max(n/len(kinds), 1)
	for _, k := range kinds {
		cycle(t, k, each/10+1)
	}
	settled()
	before, began := resident(t), time.Now()
	for _, k := range kinds {
		from, start := resident(t), time.Now()
		cycle(t, k, each)
		took := time.Since(start)
		t.Logf("%-16s %7d times, %7.1f µs each, memory %+d kB", k.Name, each, float64(took.Microseconds())/float64(each), (resident(t)-from)>>10)
	}
	settled()
	more := resident(t) - before
	t.Logf("%d objects in %v, memory %+d kB", each*len(kinds), time.Since(began).Round(time.Second), more>>10)
	if more > growth && !instrumented {
		t.Errorf("memory has grown by %d bytes", more)
	}
}

// cycle makes and closes objects of a kind.
func cycle(t testing.TB, k Kind, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && !t.Failed(); i += workers {
				o, err := k.Make()
				if err == nil {
					err = o.Close()
				}
				if err != nil {
					t.Errorf("%s, time %d: %v", k.Name, i, err)
				}
			}
		})
	}
	wg.Wait()
}

// resident is the memory of this process that is in use, in bytes.
func resident(t testing.TB) int {
	t.Helper()
	for range 2 { // the second sees what the cleanups of the first released
		debug.FreeOSMemory()
	}
	f, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(f))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
