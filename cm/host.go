package cm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/internal/route"
	"github.com/railbind/railbind/cm/policy"
)

// host answers the policy's questions in one network namespace, the one that
// its ids were created in. It is safe for concurrent use.
type host struct {
	*route.Handle
	ns     string
	refs   int          // guarded by hosts.mu
	listed map[int]bool // RDMA devices of the last look-up; guarded by devices.mu
}

// RDMAPorts implements policy.Host.
func (h *host) RDMAPorts() ([]policy.RDMAPort, error) { return rdmaPorts(h) }

// hosts holds the open hosts by network namespace. One that nobody uses is kept
// open while it is the only one, so that a program that dials now and then does
// not open sockets each time.
var hosts struct {
	mu   sync.Mutex
	byNS map[string]*host
}

// acquireHost gives the host of the calling OS thread's network namespace; the
// caller has locked the thread. Each success needs a release.
func acquireHost() (*host, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("cm: %s: %w", cgo.NotBuilt(), errors.ErrUnsupported)
	}
	ns, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("cm: which network namespace is this: %w", err)
	}
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	h := hosts.byNS[ns]
	if h == nil {
		nl, err := route.Open()
		if err != nil {
			return nil, fmt.Errorf("cm: open netlink: %w", err)
		}
		h = &host{Handle: nl, ns: ns}
		if hosts.byNS == nil {
			hosts.byNS = make(map[string]*host)
		}
		hosts.byNS[ns] = h
	}
	h.refs++
	return h, nil
}

// retain adds a reference for a child of an id that has one.
func (h *host) retain() {
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	h.refs++
}

func (h *host) release() {
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	h.refs--
	if h.refs > 0 || len(hosts.byNS) == 1 {
		return
	}
	delete(hosts.byNS, h.ns)
	_ = h.Close()
}

// Host answers what package policy asks about this machine, in the network
// namespace of the OS thread that opened it: for programs that want a Decision
// without an id. It is safe for concurrent use.
type Host struct {
	host   *host
	closed atomic.Bool
}

// OpenHost opens the look-ups; Close ends them.
func OpenHost() (*Host, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := acquireHost()
	if err != nil {
		return nil, err
	}
	return &Host{host: h}, nil
}

// Close releases the look-ups. It may be called twice, and on nil.
func (h *Host) Close() error {
	if h != nil && h.host != nil && !h.closed.Swap(true) {
		h.host.release()
	}
	return nil
}
