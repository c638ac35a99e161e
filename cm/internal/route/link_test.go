//go:build linux

package route

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/policy"
)

func TestInterface(t *testing.T) {
	s := newPair(t)
	s.ip(t, "link property add dev a0 altname rail-a altname a-name-longer-than-fifteen-characters", "link set c0 down")
	a0, err := s.Handle.InterfaceByName("a0")
	require.NoError(t, err)
	require.Equal(t, "a0", a0.Name)
	require.Equal(t, 4200, a0.MTU)
	require.Equal(t, "veth", a0.Kind)
	require.True(t, a0.Up)
	require.False(t, a0.Loopback)
	require.Len(t, a0.HWAddr, 6)
	for _, name := range []string{"rail-a", "a-name-longer-than-fifteen-characters"} {
		alt, err := s.Handle.InterfaceByName(name)
		require.NoError(t, err)
		require.Equal(t, a0, alt)
	}
	same, err := s.Handle.Interface(a0.Index)
	require.NoError(t, err)
	require.Equal(t, a0, same)
	lo, err := s.Handle.InterfaceByName("lo")
	require.NoError(t, err)
	require.True(t, lo.Loopback)
	c0, err := s.Handle.InterfaceByName("c0")
	require.NoError(t, err)
	require.False(t, c0.Up)

	all, err := s.Handle.Interfaces()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, i := range all {
		names[i.Name] = true
	}
	for _, n := range []string{"lo", "a0", "a1", "b0", "b1", "c0", "c1"} {
		require.True(t, names[n], n)
	}

	// None of these is a0, where the kernel would cut the text or the number.
	for _, name := range []string{"", "nix", "a-name-longer-than-fifteen-chars", "a0\x00", "a0\x00b0", "\x00a0",
		strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("x", 1<<16), "a0" + strings.Repeat("\x00", 1<<16)} {
		_, err = s.Handle.InterfaceByName(name)
		require.ErrorIs(t, err, unix.ENODEV, "%.20q", name)
	}
	for _, index := range []int{-1, 0, 9999, math.MaxInt32, math.MaxUint32, a0.Index + 1<<32, a0.Index - 1<<32, math.MaxInt} {
		_, err = s.Handle.Interface(index)
		require.ErrorIs(t, err, unix.ENODEV, index)
		if index == 0 {
			continue // which names none
		}
		r, err := s.Handle.Route(policy.Query{Dst: ip("10.1.0.2"), Oif: index})
		require.False(t, err == nil && r.Kind == policy.RouteUnicast, "through %d: %v", index, r)
	}
}

func TestInterfaceMaster(t *testing.T) {
	s := newPair(t)
	s.ip(t, "link add br0 type bridge", "link set a0 master br0")
	br0, err := s.Handle.InterfaceByName("br0")
	require.NoError(t, err)
	require.Equal(t, "bridge", br0.Kind)
	a0, err := s.Handle.InterfaceByName("a0")
	require.NoError(t, err)
	require.Equal(t, br0.Index, a0.Master)
}

func TestInterfaceVRF(t *testing.T) {
	s := newPair(t)
	if !s.has("vrf") {
		if os.Getenv("RAILBIND_GUEST") != "" {
			t.Fatal("the guest's kernel makes no VRF")
		}
		t.Skip("this kernel makes no VRF")
	}
	s.ip(t, "link add vrf-b type vrf table 10", "link set b0 master vrf-b")
	vrf, err := s.Handle.InterfaceByName("vrf-b")
	require.NoError(t, err)
	require.Equal(t, "vrf", vrf.Kind)
	require.Equal(t, 10, vrf.Table)
	b0, err := s.Handle.InterfaceByName("b0")
	require.NoError(t, err)
	require.Equal(t, vrf.Index, b0.Master)
}

func TestAddresses(t *testing.T) {
	s := newPair(t)
	s.ip(t, "addr add 10.1.0.1/32 dev b0", "addr add 10.8.0.1 peer 10.8.0.2/32 dev c0", "addr add fe80::a/64 dev a0", "addr add fe80::a/64 dev b0")
	owners := func(addr string) (out []string) {
		list, err := s.Handle.Owners(ip(addr))
		require.NoError(t, err)
		for _, i := range list {
			out = append(out, i.Name)
		}
		return out
	}
	require.Equal(t, []string{"a0", "b0"}, owners("10.1.0.1"))
	require.Equal(t, []string{"a0", "b0"}, owners("::ffff:10.1.0.1"))
	require.Equal(t, []string{"c0"}, owners("10.8.0.1"))
	require.Empty(t, owners("10.8.0.2"), "the peer's address is not ours")
	require.Empty(t, owners("10.99.0.1"))
	require.Equal(t, []string{"b0"}, owners("fd02::1"))
	require.Equal(t, []string{"a0", "b0"}, owners("fe80::a%a0"))

	list, err := s.Handle.Addrs(s.index(t, "c0"))
	require.NoError(t, err)
	for _, p := range []string{"10.3.0.1/24", "10.8.0.1/32", "fd03::1/64"} {
		require.Contains(t, list, netip.MustParsePrefix(p))
	}
	list, err = s.Handle.Addrs(9999)
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestTentative: an address that duplicate address detection still holds back
// cannot be bound, so nobody has it; an optimistic one can.
func TestTentative(t *testing.T) {
	s := newPair(t)
	require.NoError(t, s.run("", "-6", "addr", "add", "fd09::1/64", "dev", "a0"))
	owners, err := s.Handle.Owners(ip("fd09::1"))
	require.NoError(t, err)
	require.Empty(t, owners)
	require.Eventually(t, func() bool {
		owners, err := s.Handle.Owners(ip("fd09::1"))
		return err == nil && len(owners) == 1
	}, 10*time.Second, 50*time.Millisecond)
}

func TestNeighbour(t *testing.T) {
	s, peer := newPair(t), newSpace(t)
	var path string
	peer.do(func() { path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid()) })
	s.ip(t, "link set a1 netns "+path)
	peer.ip(t, "link set a1 up", "addr add 10.1.0.2/24 dev a1", "addr add fd01::2/64 dev a1")
	s.ip(t, "neigh add 10.1.0.7 lladdr 02:00:00:00:00:07 dev a0 nud permanent")
	a0 := s.index(t, "a0")

	state := func(addr string) NeighbourState {
		n, err := s.Neighbour(a0, ip(addr))
		require.NoError(t, err)
		return n.State
	}
	n, err := s.Neighbour(a0, ip("10.1.0.7"))
	require.NoError(t, err)
	require.Equal(t, Neighbour{State: NeighbourValid, HWAddr: []byte{2, 0, 0, 0, 0, 7}}, n)

	for _, addr := range []string{"10.1.0.2", "fd01::2"} {
		require.Equal(t, NeighbourNone, state(addr), "cold")
		require.NoError(t, s.Nudge(a0, ip(addr)))
		require.Eventually(t, func() bool { return state(addr) == NeighbourValid }, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, s.Nudge(a0, ip(addr)), "again")
	}
	// Nobody is there: the kernel asks, then gives up.
	require.NoError(t, s.Nudge(a0, ip("10.1.0.3")))
	require.Equal(t, NeighbourIncomplete, state("10.1.0.3"))
	require.Eventually(t, func() bool { return state("10.1.0.3") == NeighbourFailed }, 20*time.Second, 100*time.Millisecond)

	_, err = s.Neighbour(9999, ip("10.1.0.2"))
	require.ErrorIs(t, err, unix.ENODEV)
	require.ErrorIs(t, s.Nudge(9999, ip("10.1.0.2")), unix.ENODEV)
	for _, s := range []NeighbourState{NeighbourNone, NeighbourIncomplete, NeighbourValid, NeighbourFailed} {
		require.NotEqual(t, "unknown", s.String())
	}
}

func TestNetNS(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	require.NotZero(t, a.NetNS())
	require.NotEqual(t, a.NetNS(), b.NetNS())
	// The namespace is that of the sockets, whichever thread asks.
	b.ip(t, "link add only-here type veth peer name there")
	_, err := b.Handle.InterfaceByName("only-here")
	require.NoError(t, err)
	_, err = a.Handle.InterfaceByName("only-here")
	require.ErrorIs(t, err, unix.ENODEV)
}

// TestRDMALinks: a kernel without RDMA says so, any other lists what is there.
func TestRDMALinks(t *testing.T) {
	h, err := Open()
	require.NoError(t, err)
	defer h.Close()
	links, err := h.RDMALinks()
	if _, e := os.Stat("/sys/class/infiniband"); os.IsNotExist(e) {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "no RDMA in this kernel")
		return
	}
	require.NoError(t, err)
	for _, l := range links {
		require.NotEmpty(t, l.Name)
		require.NotZero(t, l.GUID)
		require.NotEmpty(t, l.Ports)
	}
}

// TestPairRDMALinks: the guest's devices stand on their network devices, with
// either transport.
func TestPairRDMALinks(t *testing.T) {
	if os.Getenv("RAILBIND_GUEST") == "" {
		t.Skip("needs the guest's RDMA devices")
	}
	h, err := Open()
	require.NoError(t, err)
	defer h.Close()
	links, err := h.RDMALinks()
	require.NoError(t, err)
	on := map[string]bool{}
	for _, l := range links {
		require.NotZero(t, l.GUID)
		require.Len(t, l.Ports, 1)
		require.Equal(t, uint8(1), l.Ports[0].Port)
		require.True(t, l.Ports[0].Active)
		i, err := h.Interface(l.Ports[0].Netdev)
		require.NoError(t, err)
		on[i.Name] = true
	}
	require.Equal(t, map[string]bool{"a0": true, "b0": true}, on)
}

// TestConcurrent asks from many goroutines at once, and closes in the middle.
func TestConcurrent(t *testing.T) {
	s := newPair(t)
	a0 := s.index(t, "a0")
	var wg sync.WaitGroup
	ask := func(wantClosed bool) {
		for range 50 {
			r, err := s.Handle.Route(policy.Query{Dst: ip("10.1.0.2"), Oif: a0})
			if wantClosed && errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil || r.Netdev != "a0" {
				t.Errorf("%v, %v", r, err)
			}
			owners, err := s.Handle.Owners(ip("fd02::1"))
			if wantClosed && errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil || len(owners) != 1 {
				t.Errorf("%v, %v", owners, err)
			}
		}
	}
	for range 8 {
		wg.Go(func() { ask(false) })
	}
	wg.Wait()
	for range 8 {
		wg.Go(func() { ask(true) })
	}
	require.NoError(t, s.Close())
	wg.Wait()
}

// BenchmarkDecide is the cost of one decision with all its look-ups.
func BenchmarkDecide(b *testing.B) {
	s := newPair(b)
	bound, err := policy.ResolveBinding(s, netip.MustParseAddrPort("10.1.0.1:0"))
	require.NoError(b, err)
	r := policy.Request{Binding: bound, Dst: netip.MustParseAddrPort("10.1.0.2:7471")}
	var d policy.Decision
	for b.Loop() {
		d = policy.Decide(s, r)
	}
	require.NoError(b, d.Err)
	b.ReportMetric(float64(d.Lookups), "lookups/op")
}
