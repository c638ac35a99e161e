//go:build linux

package route

import (
	"sync"
	"time"
)

// memo keeps answers for as long as they cannot have changed: while the journal
// is silent. A connection asks the same questions several times, and those beside
// it as well; to read an empty socket costs a hundredth of asking.
//
// The kernel tells of some changes before they hold (a link that goes down, then
// the routes through it), within one critical section: so an answer is kept only
// if the journal was silent for a while before it was asked for. And of a few
// things that bear on routes it does not tell at all (sysctls, a route that ends by
// its lifetime): so no answer is kept long.
type memo struct {
	mu   sync.Mutex
	at   Mark // the journal's, of all answers here
	kept map[any]answer
}

type answer struct {
	value any
	asked time.Time
}

const (
	silence = 100 * time.Millisecond // before an answer that is kept
	lasts   = 100 * time.Millisecond // how long it is
	most    = 1024                   // answers at once
)

// Questions beside a policy.Query: of a network device by its index, of the
// addresses of a family, of the ports of an RDMA device by its index.
type (
	linkOf      int
	addressesOf uint8
	portsOf     int
)

// remember answers a question from memory, or asks it: one at a time, so that of
// many that ask the same at once the first asks for all. ask remembers nothing
// itself. What it gives may be shared: nobody writes to it. Where there is a keep,
// it says of which answers the kernel tells each change.
func remember[T any](h *Handle, question any, ask func() (T, error), keep func(T) bool) (T, error) {
	if h == nil {
		return ask()
	}
	m := &h.memo
	m.mu.Lock()
	defer m.mu.Unlock()
	at, since := h.journal.now()
	began := time.Now()
	if at != m.at || m.kept == nil {
		m.at, m.kept = at, map[any]answer{}
	}
	if known, ok := m.kept[question]; ok && began.Sub(known.asked) < lasts {
		return known.value.(T), nil
	}
	v, err := ask()
	if err == nil && (keep == nil || keep(v)) && began.Sub(since) >= silence {
		if len(m.kept) >= most {
			clear(m.kept)
		}
		m.kept[question] = answer{v, began}
	}
	return v, err
}
