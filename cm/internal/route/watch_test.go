//go:build linux

package route

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience bounds what must happen by itself.
const patience = 30 * time.Second

// signalled waits for a change; false is the end of the watch.
func signalled(t *testing.T, changes <-chan struct{}) bool {
	t.Helper()
	select {
	case _, ok := <-changes:
		return ok
	case <-time.After(patience):
		t.Fatal("nothing was told")
		return false
	}
}

// TestWatch: each kind of change is told, to a watch that was asked for from
// another namespace.
func TestWatch(t *testing.T) {
	s := newPair(t)
	for _, change := range []string{
		"link add d0 type veth peer name d1", "link set d0 up", "link set d0 mtu 1400",
		"addr add 10.9.0.1/24 dev d0", "addr add fd09::1/64 dev d0",
		"route add 10.99.0.0/24 dev d0", "route add fd99::/64 dev d0", "route add unreachable 10.98.0.0/24",
		"rule add from 10.1.0.1 lookup 100", "rule add from fd01::1 lookup 100",
		"nexthop add id 7 via 10.1.0.2 dev a0",
		"nexthop del id 7", "rule del from 10.1.0.1 lookup 100", "route del 10.99.0.0/24", "addr del 10.9.0.1/24 dev d0",
		"link set d0 down", "link del d0",
	} {
		t.Run(change, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			changes, err := s.Watch(ctx)
			require.NoError(t, err)
			s.ip(t, change)
			require.True(t, signalled(t, changes))
			cancel()
			for signalled(t, changes) { // what was told before the end, then the end
			}
		})
	}
}

// TestWatchOthers: what another namespace does, and what only asks, is not told.
func TestWatchOthers(t *testing.T) {
	s, other := newPair(t), newPair(t)
	var heard []ear
	require.NoError(t, s.inside(func() (err error) {
		heard, err = listen()
		return err
	}))
	for _, e := range heard {
		t.Cleanup(func() { e.file.Close() })
	}
	other.ip(t, "route add 10.99.0.0/24 dev a0", "link add d0 type veth peer name d1", "rule add from 10.1.0.1 lookup 100")
	_, err := s.Handle.Interfaces()
	require.NoError(t, err)
	_, err = s.Handle.Addrs(1)
	require.NoError(t, err)
	route := heard[0] // the kernel queues a message before the change returns
	require.Equal(t, unix.NETLINK_ROUTE, route.protocol)
	_, _, err = unix.Recvfrom(int(route.file.Fd()), make([]byte, 64), unix.MSG_DONTWAIT)
	require.ErrorIs(t, err, unix.EAGAIN)
	s.ip(t, "route add 10.99.0.0/24 dev a0")
	require.True(t, route.next())
}

// TestWatchOverflow: lost messages are a change.
func TestWatchOverflow(t *testing.T) {
	s := newPair(t)
	var e ear
	require.NoError(t, s.inside(func() (err error) {
		f, err := sources[0].open()
		e = ear{sources[0], f}
		return err
	}))
	defer e.file.Close()
	conn, err := e.file.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) {
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
	}))
	for range 20 {
		s.ip(t, "route add 10.99.0.0/24 dev a0", "route del 10.99.0.0/24 dev a0")
	}
	var lost error
	require.NoError(t, conn.Control(func(fd uintptr) {
		_, _, lost = unix.Recvfrom(int(fd), make([]byte, 64), unix.MSG_PEEK)
	}))
	require.ErrorIs(t, lost, unix.ENOBUFS, "the test does not overflow the socket")
	for range 20 {
		s.ip(t, "route add 10.99.0.0/24 dev a0", "route del 10.99.0.0/24 dev a0")
	}
	require.True(t, e.next(), "ENOBUFS comes first, then what fitted")
	require.True(t, e.next())
}

// TestWatchCoalesces: whoever does not take the changes finds one, and the watch
// leaves no file behind.
func TestWatchCoalesces(t *testing.T) {
	s := newPair(t)
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(list)
	}
	before := files()
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := s.Watch(ctx)
	require.NoError(t, err)
	for range 20 {
		s.ip(t, "route add 10.99.0.0/24 dev a0", "route del 10.99.0.0/24 dev a0")
	}
	require.True(t, signalled(t, changes))
	cancel()
	n := 0
	for signalled(t, changes) {
		n++
	}
	require.LessOrEqual(t, n, 1)
	require.Equal(t, before, files())
}

func TestWatchEnds(t *testing.T) {
	s := newSpace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	changes, err := s.Watch(ctx)
	require.NoError(t, err)
	for signalled(t, changes) {
	}
	require.NoError(t, s.Close())
	_, err = s.Watch(t.Context())
	require.ErrorIs(t, err, os.ErrClosed)
	var none *Handle
	_, err = none.Watch(t.Context())
	require.ErrorIs(t, err, os.ErrClosed)
}

// TestUevents picks those of RDMA.
func TestUevents(t *testing.T) {
	matters := sources[len(sources)-1].matters
	for message, want := range map[string]bool{
		"add@/devices/virtual/infiniband/rxe0\x00ACTION=add\x00SUBSYSTEM=infiniband\x00NAME=rxe0\x00":         true,
		"remove@/devices/virtual/infiniband_verbs/uverbs0\x00ACTION=remove\x00SUBSYSTEM=infiniband_verbs\x00": true,
		"add@/devices/virtual/block/loop0\x00ACTION=add\x00SUBSYSTEM=block\x00":                               false,
		"": false,
	} {
		require.Equal(t, want, matters([]byte(message)), message)
	}
}
