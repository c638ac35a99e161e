//go:build linux

package cm

import (
	"context"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// inNetns runs f in a named network namespace, on a thread that ends with it.
func inNetns(t *testing.T, name string, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }() // also where f ends the test
		// (The thread is not unlocked: Go ends it, namespace and all.)
		runtime.LockOSThread()
		var ns *os.File
		if ns, err = os.Open("/run/netns/" + name); err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			f()
		}
	}()
	require.NoError(t, <-done)
	if t.Failed() {
		t.FailNow()
	}
}

func idIn(t *testing.T, ns string, cfg IDConfig) (id *ID) {
	t.Helper()
	var err error
	inNetns(t, ns, func() { id, err = NewID(cfg) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, id.Close()) })
	return id
}

// An id belongs to the network namespace of the thread that made it, and stays
// there whichever thread uses it: its addresses, its routes, its devices. (In
// the shared mode of RDMA namespaces, which is the default.)
func TestHostsNamespaces(t *testing.T) {
	needTopo(t, "hosts")
	cfg := IDConfig{Timeouts: Timeouts{ResolveAddr: 20 * time.Second}}

	t.Run("made there, used here", func(t *testing.T) {
		for _, c := range []struct{ bind, dst string }{{"10.6.0.2:0", "10.6.0.1:7471"}, {"[fd06::2]:0", "[fd06::1]:7471"}} {
			id := idIn(t, "peer-d", cfg)
			require.NoError(t, id.Bind(ap(c.bind)))
			require.Equal(t, "rxe6", id.Binding().Device)
			err := id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.dst))
			accepted("rxe6@f1").check(t, id, err, 1)

			id = idIn(t, "peer-d", cfg)
			err = id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.dst))
			accepted("rxe6@f1").check(t, id, err, 1)
		}
	})
	t.Run("made here, used there", func(t *testing.T) {
		id := newTestID(t, cfg)
		var err error
		inNetns(t, "peer-d", func() {
			if err = id.Bind(ap("10.1.0.1:0")); err == nil {
				err = id.ResolveAddr(context.Background(), ap(""), ap("10.1.0.2:7471"))
			}
		})
		accepted("rxe0@a0").check(t, id, err, 1)
	})
	t.Run("an address of another namespace", func(t *testing.T) {
		err := idIn(t, "peer-d", cfg).Bind(ap("10.1.0.1:0"))
		require.ErrorIs(t, err, ErrNotLocal)
		require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
		err = newTestID(t, cfg).Bind(ap("10.6.0.2:0"))
		require.ErrorIs(t, err, ErrNotLocal)
	})
	t.Run("a namespace without a device", func(t *testing.T) {
		err := idIn(t, "peer-a", cfg).Bind(ap("10.1.0.2:0"))
		require.ErrorIs(t, err, ErrNotRDMA, "rxe0 is seen there, and has no address of it")
		require.ErrorIs(t, err, syscall.ENODEV)
		id := idIn(t, "peer-a", cfg)
		calls := resolveCalls.Load()
		err = id.ResolveAddr(within(t, time.Minute), ap(""), ap("10.1.0.1:7471"))
		noRDMA19.check(t, id, err, resolveCalls.Load()-calls)
	})
}

// rxe moves data inside a namespace from kernel 7 on. Before, a connection from
// there ends with our deadline, never with a wrong device.
func TestHostsNamespaceData(t *testing.T) {
	needTopo(t, "hosts")
	l := listen(t, "10.6.0.1:0", ListenConfig{})
	go func() {
		for {
			r, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			if c, err := r.Accept(within(t, time.Minute), AcceptConfig{}); err == nil {
				<-c.Done()
				c.Close()
			}
		}
	}()
	h, err := OpenHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	major, _ := h.KernelVersion()

	d := Dialer{LocalAddr: ap("10.6.0.2:0"), Timeouts: Timeouts{Connect: time.Second}}
	if major >= 7 {
		d.Timeouts.Connect = 20 * time.Second
	}
	var c *Conn
	inNetns(t, "peer-d", func() { c, err = d.DialAddr(within(t, time.Minute), l.Addr()) })
	if major < 7 {
		require.ErrorIs(t, err, syscall.ETIMEDOUT)
		require.ErrorContains(t, err, "connect")
		return
	}
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, "rxe6", c.Binding().Device)
	require.NoError(t, c.Send(within(t, time.Minute), []byte("across")))
}
