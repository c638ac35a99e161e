//go:build linux

package route

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// TestMemo: an answer is given again while nothing changes, and never after a
// change.
func TestMemo(t *testing.T) {
	s := newPair(t)
	on := func(name string) int {
		i, err := s.InterfaceByName(name)
		require.NoError(t, err)
		return i.Index
	}
	a0, b0 := on("a0"), on("b0")
	toward := func(dst string, want int) {
		t.Helper()
		r, err := s.Route(policy.Query{Dst: netip.MustParseAddr(dst)})
		require.NoError(t, err)
		require.Equal(t, want, r.Ifindex)
	}
	// asks counts the requests of a look-up.
	asks := func(f func()) int {
		before := s.Requests()
		f()
		return int(s.Requests() - before)
	}
	quiet := func() { // a new link has more to tell for a while
		for m := s.Mark(); ; m = s.Mark() {
			if time.Sleep(2 * silence); m == s.Mark() {
				return
			}
		}
	}
	for _, f := range []struct{ dst, gateway, away, back string }{
		{"10.1.0.2", "10.98.0.1", "route add 10.1.0.2/32 dev b0", "route del 10.1.0.2/32 dev b0"},
		{"fd01::2", "fd98::1", "route add fd01::2/128 dev b0", "route del fd01::2/128 dev b0"},
	} {
		quiet()
		toward(f.dst, a0)
		require.Zero(t, asks(func() { toward(f.dst, a0) }), "nothing has changed")

		s.ip(t, f.away)
		require.NotZero(t, asks(func() { toward(f.dst, b0) }))
		require.NotZero(t, asks(func() { toward(f.dst, b0) }), "too soon after a change")
		quiet()
		toward(f.dst, b0)
		require.Zero(t, asks(func() { toward(f.dst, b0) }))
		s.ip(t, f.back)
		toward(f.dst, a0)

		quiet()
		toward(f.dst, a0)
		time.Sleep(lasts)
		require.NotZero(t, asks(func() { toward(f.dst, a0) }), "no answer is kept long")

		s.ip(t, "route add "+f.gateway+" via "+f.dst+" dev a0")
		quiet()
		toward(f.gateway, a0)
		require.NotZero(t, asks(func() { toward(f.gateway, a0) }), "the kernel chooses gateways by their health")
	}

	addr := netip.MustParseAddr("10.1.0.1")
	owned := func(want int) {
		t.Helper()
		all, err := s.Owners(addr)
		require.NoError(t, err)
		require.Len(t, all, want)
	}
	quiet()
	owned(1)
	require.Zero(t, asks(func() { owned(1) }))
	s.ip(t, "addr del 10.1.0.1/24 dev a0")
	owned(0)

	quiet()
	_, err := s.Interface(a0)
	require.NoError(t, err)
	require.Zero(t, asks(func() { _, _ = s.Interface(a0) }))
	s.ip(t, "link set a0 mtu 1300")
	i, err := s.Interface(a0)
	require.NoError(t, err)
	require.Equal(t, 1300, i.MTU)

	for n := range 2 * most { // of which only so many are kept
		_, _ = remember(s.Handle, n, func() (int, error) { return n, nil }, nil)
	}
	require.LessOrEqual(t, len(s.memo.kept), most)
}
