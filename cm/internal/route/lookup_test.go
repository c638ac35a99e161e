//go:build linux

package route

import (
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/policy"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// index returns the index of a network device.
func (s *space) index(t testing.TB, name string) int {
	t.Helper()
	i, err := s.Handle.InterfaceByName(name)
	require.NoError(t, err)
	return i.Index
}

// TestRoute compares the kernel's answers with what the policy relies on.
func TestRoute(t *testing.T) {
	s := newPair(t)
	s.ip(t,
		"route add unreachable 10.50.0.0/24", "route add blackhole 10.51.0.0/24", "route add prohibit 10.52.0.0/24",
		"route add unreachable fd50::/64", "route add blackhole fd51::/64", "route add prohibit fd52::/64",
		"route add 10.70.0.0/24 via 10.1.0.9 dev a0 src 10.1.0.1", "route add fd70::/64 via fd01::9 dev a0",
		"rule add from 10.3.0.1 lookup 100", "route add 10.70.0.0/24 dev c0 table 100",
		"rule add from fd03::1 lookup 100", "route add fd70::/64 dev c0 table 100")
	a0, b0, c0 := s.index(t, "a0"), s.index(t, "b0"), s.index(t, "c0")
	unicast := func(netdev string, index int) policy.Route {
		return policy.Route{Kind: policy.RouteUnicast, Netdev: netdev, Ifindex: index}
	}
	refused := func(kind policy.RouteKind, errno syscall.Errno) policy.Route {
		return policy.Route{Kind: kind, Errno: errno}
	}
	local := policy.Route{Kind: policy.RouteLocal, Netdev: "lo", Ifindex: 1}
	localOn := func(netdev string, index int) policy.Route {
		return policy.Route{Kind: policy.RouteLocal, Netdev: netdev, Ifindex: index}
	}
	via := func(r policy.Route, gateway string) policy.Route { r.Gateway = ip(gateway); return r }
	a, b, c := unicast("a0", a0), unicast("b0", b0), unicast("c0", c0)
	none := refused(policy.RouteNone, unix.ENETUNREACH)
	unreachable := refused(policy.RouteUnreachable, unix.EHOSTUNREACH)
	blackhole := refused(policy.RouteBlackhole, unix.EINVAL)
	prohibit := refused(policy.RouteProhibit, unix.EACCES)

	for _, test := range []struct {
		name, dst, src string
		oif            int
		plain, fib     policy.Route
	}{
		{"v4 own rail", "10.1.0.2", "10.1.0.1", a0, a, a},
		{"v4 own rail, no oif", "10.1.0.2", "10.1.0.1", 0, a, a},
		{"v4 own rail, nothing but dst", "10.1.0.2", "", 0, a, a},
		{"v4 other rail: the on-link guess", "10.2.0.2", "10.1.0.1", a0, a, unreachable},
		{"v4 other rail, no oif", "10.2.0.2", "10.1.0.1", 0, b, b},
		{"v4 own address", "10.1.0.1", "10.1.0.1", a0, local, localOn("a0", a0)},
		{"v4 other's address: the on-link guess", "10.2.0.1", "10.1.0.1", a0, a, unreachable},
		{"v4 other's address, no oif", "10.2.0.1", "10.1.0.1", 0, local, localOn("b0", b0)},
		{"v4 unreachable: the on-link guess", "10.50.0.1", "10.1.0.1", a0, a, unreachable},
		{"v4 unreachable, no oif", "10.50.0.1", "10.1.0.1", 0, unreachable, unreachable},
		{"v4 blackhole: the on-link guess", "10.51.0.1", "10.1.0.1", a0, a, unreachable},
		{"v4 blackhole, no oif", "10.51.0.1", "10.1.0.1", 0, blackhole, blackhole},
		{"v4 prohibit: the on-link guess", "10.52.0.1", "10.1.0.1", a0, a, unreachable},
		{"v4 prohibit, no oif", "10.52.0.1", "10.1.0.1", 0, prohibit, prohibit},
		{"v4 nothing: the on-link guess", "10.99.0.1", "10.1.0.1", a0, a, unreachable},
		{"v4 nothing, no oif", "10.99.0.1", "10.1.0.1", 0, none, none},
		{"v4 gateway", "10.70.0.1", "10.1.0.1", a0, via(a, "10.1.0.9"), via(a, "10.1.0.9")},
		{"v4 gateway of the other rail: the guess", "10.70.0.1", "10.2.0.1", b0, b, unreachable},
		{"v4 rule by source", "10.70.0.1", "10.3.0.1", 0, c, c},

		{"v6 own rail", "fd01::2", "fd01::1", a0, a, a},
		{"v6 other rail: only a preference", "fd02::2", "fd01::1", a0, b, b},
		{"v6 other rail, no oif", "fd02::2", "fd01::1", 0, b, b},
		{"v6 own address", "fd01::1", "fd01::1", a0, local, localOn("a0", a0)},
		{"v6 other's address", "fd02::1", "fd01::1", a0, local, localOn("b0", b0)},
		{"v6 unreachable", "fd50::1", "fd01::1", a0, unreachable, unreachable},
		{"v6 blackhole", "fd51::1", "fd01::1", a0, blackhole, blackhole},
		{"v6 prohibit", "fd52::1", "fd01::1", a0, prohibit, prohibit},
		{"v6 nothing", "fd99::1", "fd01::1", a0, none, none},
		{"v6 gateway", "fd70::1", "fd01::1", a0, via(a, "fd01::9"), via(a, "fd01::9")},
		{"v6 rule by source", "fd70::1", "fd03::1", 0, c, c},
		{"v6 rule by source against oif", "fd70::1", "fd03::1", a0, c, c},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := policy.Query{Dst: ip(test.dst), Oif: test.oif}
			if test.src != "" {
				q.Src = ip(test.src)
			}
			for _, want := range []policy.Route{test.plain, test.fib} {
				want.Query = q
				got, err := s.Handle.Route(q)
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(policy.Route{}, "PrefSrc", "Table"), addrs))
				q.FIBMatch = true
			}
		})
	}

	// A source of nobody: ENETUNREACH or EINVAL, as the kernel's version has it.
	r, err := s.Handle.Route(policy.Query{Dst: ip("10.1.0.2"), Src: ip("10.99.0.1")})
	require.NoError(t, err)
	require.Contains(t, []policy.RouteKind{policy.RouteNone, policy.RouteBlackhole}, r.Kind)

	r, err = s.Handle.Route(policy.Query{Dst: ip("10.2.0.2")})
	require.NoError(t, err)
	require.Equal(t, ip("10.2.0.1"), r.PrefSrc)
	require.Equal(t, unix.RT_TABLE_MAIN, r.Table)
	r, err = s.Handle.Route(policy.Query{Dst: ip("fd02::2")})
	require.NoError(t, err)
	require.Equal(t, ip("fd02::1"), r.PrefSrc)
	r, err = s.Handle.Route(policy.Query{Dst: ip("10.70.0.1"), Src: ip("10.3.0.1")})
	require.NoError(t, err)
	require.Equal(t, 100, r.Table)
}

var addrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestRouteMultipath(t *testing.T) {
	s := newPair(t)
	s.ip(t,
		"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 weight 3 nexthop via 10.2.0.2 dev b0",
		"route add fd60::/64 nexthop via fd01::2 dev a0 weight 3 nexthop via fd02::2 dev b0",
		"nexthop add id 1 via 10.1.0.2 dev a0", "nexthop add id 2 via 10.2.0.2 dev b0", "nexthop add id 3 group 1,3/2",
		"nexthop add id 11 via fd01::2 dev a0", "nexthop add id 12 via fd02::2 dev b0", "nexthop add id 13 group 11,3/12",
		"route add 10.61.0.0/24 nhid 3", "route add fd61::/64 nhid 13", "route add 10.62.0.0/24 nhid 1")
	a0, b0 := s.index(t, "a0"), s.index(t, "b0")
	hops := func(gatewayA, gatewayB string) []policy.Hop {
		return []policy.Hop{{Ifindex: a0, Netdev: "a0", Gateway: ip(gatewayA), Weight: 3}, {Ifindex: b0, Netdev: "b0", Gateway: ip(gatewayB), Weight: 1}}
	}
	for _, compat := range []string{"1", "0"} {
		s.sysctl(t, "ipv4/nexthop_compat_mode", compat)
		for dst, want := range map[string][]policy.Hop{
			"10.60.0.1": hops("10.1.0.2", "10.2.0.2"), "10.61.0.1": hops("10.1.0.2", "10.2.0.2"),
			"fd60::1": hops("fd01::2", "fd02::2"), "fd61::1": hops("fd01::2", "fd02::2"), "10.62.0.1": nil,
		} {
			t.Run(dst+" compat "+compat, func(t *testing.T) {
				r, err := s.Handle.Route(policy.Query{Dst: ip(dst), FIBMatch: true})
				require.NoError(t, err)
				require.Equal(t, policy.RouteUnicast, r.Kind)
				require.NotZero(t, r.Ifindex)
				// The order of IPv6's is the kernel's own.
				slices.SortFunc(r.Hops, func(x, y policy.Hop) int { return x.Ifindex - y.Ifindex })
				require.Empty(t, cmp.Diff(want, r.Hops, addrs))
			})
		}
	}

	// A bound IPv4 look-up takes its own next hop, also where the hash says another.
	for _, oif := range []int{a0, b0} {
		for _, dst := range []string{"10.60.0.1", "10.60.0.2", "10.60.0.3", "10.61.0.1", "10.61.0.2"} {
			r, err := s.Handle.Route(policy.Query{Dst: ip(dst), Oif: oif})
			require.NoError(t, err)
			require.Equal(t, oif, r.Ifindex, dst)
		}
	}
}

// TestRouteBoundIPv6Multipath: among several next hops of an IPv6 route, some
// kernels (6.18) let the hash choose whatever the output device, others (6.1,
// 6.12, 7.3) do not. The decision knows which kind it is on.
func TestRouteBoundIPv6Multipath(t *testing.T) {
	s := newPair(t)
	s.ip(t, "route add fd60::/64 nexthop via fd01::2 dev a0 nexthop via fd02::2 dev b0")
	a0, b0 := s.index(t, "a0"), s.index(t, "b0")
	bound, err := policy.ResolveBinding(s, netip.MustParseAddrPort("[fd01::1]:0"))
	require.NoError(t, err)
	left, refused := 0, 0
	for n := range 64 {
		dst := ip("fd60::").As16()
		dst[15] = byte(n + 1)
		r, err := s.Handle.Route(policy.Query{Dst: netip.AddrFrom16(dst), Src: ip("fd01::1"), Oif: a0})
		require.NoError(t, err)
		require.Contains(t, []int{a0, b0}, r.Ifindex)
		if r.Ifindex != a0 {
			left++
		}
		d := policy.Decide(s, policy.Request{Binding: bound, Dst: netip.AddrPortFrom(r.Query.Dst, 7471)})
		if d.Err != nil {
			require.ErrorIs(t, d.Err, policy.ErrRouteMismatch)
			refused++
		}
		d = policy.Decide(s, policy.Request{Dst: netip.AddrPortFrom(r.Query.Dst, 7471)})
		require.NoError(t, d.Err)
		require.ElementsMatch(t, []int{a0, b0}, d.Netdevs())
	}
	t.Logf("%d of 64 look-ups left the bound network device", left)
	if left > 0 {
		require.Equal(t, 64, refused, "where the hash chooses, the ones that stayed are chance")
	} else {
		require.Zero(t, refused)
	}
}

// TestRouteUID looks up with another user's thread: the answer is root's.
func TestRouteUID(t *testing.T) {
	s := newPair(t)
	s.ip(t, "rule add uidrange 0-0 lookup 100", "route add 10.99.0.0/24 dev c0 table 100")
	type answer struct {
		r   policy.Route
		err error
	}
	out := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its user
		if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			out <- answer{err: errno}
			return
		}
		r, err := s.Handle.Route(policy.Query{Dst: ip("10.99.0.1")})
		out <- answer{r, err}
	}()
	a := <-out
	require.NoError(t, a.err)
	require.Equal(t, "c0", a.r.Netdev)
}

func TestRouteErrors(t *testing.T) {
	s := newPair(t)
	_, err := s.Handle.Route(policy.Query{})
	require.ErrorIs(t, err, unix.EINVAL)
	_, err = s.Handle.Route(policy.Query{Dst: ip("10.1.0.2"), Src: ip("fd01::1")})
	require.ErrorIs(t, err, unix.EINVAL)
	_, err = s.Handle.Route(policy.Query{Dst: ip("10.1.0.2"), Oif: 9999})
	require.ErrorIs(t, err, unix.ENODEV)

	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Handle.Route(policy.Query{Dst: ip("10.1.0.2")})
	require.ErrorIs(t, err, os.ErrClosed)
	var none *Handle
	require.NoError(t, none.Close())
	_, err = none.Interfaces()
	require.ErrorIs(t, err, os.ErrClosed)
}

// remedy is a refusal, or an override, that the printed commands must mend.
type remedy struct {
	name, bind, dst string // no bind: an unbound id
	setup           []string
	policy          policy.Policy
	err             error // nil: an override
	onLink          bool
}

// TestRemedies applies the commands that decisions print, and asks again.
func TestRemedies(t *testing.T) {
	hops := []string{"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0",
		"route add fd60::/64 nexthop via fd01::2 dev a0 nexthop via fd02::2 dev b0"}
	linkLocal := []string{"addr add fe80::a/64 dev a0", "addr add fe80::b/64 dev b0"}
	mismatch, noRoute := policy.ErrRouteMismatch, policy.ErrNoRoute
	for _, test := range []remedy{
		{"v6 through the other rail", "fd01::1", "fd02::2", nil, policy.PinBound, mismatch, false},
		{"v6 through the other rail, route", "fd01::1", "fd02::2", nil, policy.RequireRoute, mismatch, false},
		{"v6 no route", "fd01::1", "fd99::2", nil, policy.PinBound, mismatch, false},
		{"v6 unreachable", "fd01::1", "fd50::2", []string{"route add unreachable fd50::/64"}, policy.PinBound, mismatch, false},
		{"v6 two next hops", "fd01::1", "fd60::2", hops, policy.RequireRoute, mismatch, false},
		{"v6 rules before", "fd01::1", "fd02::2", []string{"rule add to fd02::/64 lookup 77 pref 10", "route add unreachable fd02::/64 table 77"}, policy.PinBound, mismatch, false},
		{"v6 from a link-local address", "fe80::a%a0", "fd02::2", linkLocal, policy.PinBound, mismatch, false},
		{"v6 the link's route is missing", "fe80::a%a0", "fe80::2%a0", append(linkLocal, "route del fe80::/64 dev a0"), policy.PinBound, mismatch, false},
		{"v4 through the other rail", "10.1.0.1", "10.2.0.2", nil, policy.RequireRoute, mismatch, false},
		{"v4 unreachable", "10.1.0.1", "10.50.0.2", []string{"route add unreachable 10.50.0.0/24"}, policy.RequireRoute, mismatch, false},
		{"v4 host route through the other rail", "10.1.0.1", "10.1.0.2", []string{"route add 10.1.0.2/32 dev b0"}, policy.RequireRoute, mismatch, false},
		{"v4 two next hops", "10.1.0.1", "10.60.0.2", hops, policy.RequireRoute, mismatch, false},
		{"v4 a route wanted", "10.1.0.1", "10.2.0.2", nil, policy.PinBound, mismatch, true},
		{"v4 no route, a route wanted", "10.1.0.1", "10.99.0.2", nil, policy.PinBound, mismatch, true},
		{"v4 down", "10.1.0.1", "10.1.0.2", []string{"link set a0 down"}, policy.RequireRoute, mismatch, false},
		{"v4 assumed on-link", "10.1.0.1", "10.2.0.2", nil, policy.PinBound, nil, false},
		{"v4 assumed on-link, no route", "10.1.0.1", "10.99.0.2", nil, policy.PinBound, nil, false},
		{"unbound, no route", "", "10.99.0.2", nil, policy.FollowRoute, noRoute, false},
		{"unbound, no route, v6", "", "fd99::2", nil, policy.FollowRoute, noRoute, false},
		{"unbound, prohibited", "", "10.52.0.1", []string{"route add prohibit 10.52.0.0/24"}, policy.FollowRoute, noRoute, false},
		{"unbound, unreachable, v6", "", "fd50::2", []string{"route add unreachable fd50::/64"}, policy.FollowRoute, noRoute, false},
		{"unbound, the first rail is down", "", "10.99.0.2", []string{"link set a0 down"}, policy.FollowRoute, noRoute, false},
		{"unbound, the link is down", "", "fe80::2%a0", append(linkLocal, "link set a0 down"), policy.FollowRoute, noRoute, false},
		{"unbound, the link's route is missing", "", "fe80::2%a0", append(linkLocal, "route del fe80::/64 dev a0"), policy.FollowRoute, noRoute, false},
	} {
		test.run(t)
	}
}

// TestPairRemediesVRF is TestRemedies for links in a VRF.
func TestPairRemediesVRF(t *testing.T) {
	if !newSpace(t).has("vrf") {
		if os.Getenv("RAILBIND_GUEST") != "" {
			t.Fatal("the guest's kernel makes no VRF")
		}
		t.Skip("this kernel makes no VRF")
	}
	vrf := []string{"link add vrf-b type vrf table 10", "link set vrf-b up", "link set b0 master vrf-b", "addr replace fd02::1/64 dev b0"}
	for _, test := range []remedy{
		{"v6 leak", "fd02::1", "fd01::2", vrf, policy.PinBound, policy.ErrRouteMismatch, false},
		{"v4 through the other rail", "10.2.0.1", "10.1.0.2", vrf, policy.PinBound, policy.ErrRouteMismatch, false},
		{"v6 host route", "fd02::1", "fd02::2", vrf, policy.RequireRoute, policy.ErrRouteMismatch, false},
		{"v4 host route", "10.2.0.1", "10.2.0.2", vrf, policy.RequireRoute, policy.ErrRouteMismatch, false},
		{"v6 the link's route is missing", "fe80::b%b0", "fe80::2%b0",
			append(vrf, "addr replace fe80::b/64 dev b0", "route del fe80::/64 dev b0 table 10"), policy.PinBound, policy.ErrRouteMismatch, false},
	} {
		test.run(t)
	}
}

func (test remedy) run(t *testing.T) {
	t.Run(test.name, func(t *testing.T) {
		s := newPair(t)
		r := policy.Request{Policy: test.policy, RequireOnLinkRoute: test.onLink, Dst: netip.AddrPortFrom(ip(test.dst), 7471)}
		before, after := test.setup, []string(nil)
		if strings.Contains(strings.Join(test.setup, " "), " down") {
			before, after = nil, test.setup // the bind comes first
		}
		s.ip(t, before...)
		if test.bind != "" {
			var err error
			r.Binding, err = policy.ResolveBinding(s, netip.AddrPortFrom(ip(test.bind), 0))
			require.NoError(t, err)
		}
		s.ip(t, after...)
		ask := func() policy.Decision { return policy.Decide(s, r) }
		d := ask()
		require.ErrorIs(t, d.Err, test.err, d.Text())
		require.NotEmpty(t, d.Commands, d.Text())
		for _, c := range d.Commands {
			require.Contains(t, d.Text(), c+"\n", "as it is printed")
			args, ok := strings.CutPrefix(c, "ip ")
			require.True(t, ok, c)
			require.NoError(t, s.run("", strings.Fields(args)...), d.Text())
		}
		// A link that is up again has its link-local address a little later.
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if d = ask(); d.Err == nil || time.Now().After(end) {
				break
			}
		}
		require.NoError(t, d.Err, d.Text())
		require.False(t, d.Overridden && test.err == nil, d.Text())
		require.False(t, d.AssumedOnLink && (test.onLink || test.err == nil), d.Text())
	})
}

// FuzzParse feeds the parsers with messages that no kernel should send.
func FuzzParse(f *testing.F) {
	f.Add([]byte{0})
	f.Add(attr{unix.RTA_MULTIPATH, []byte{8, 0, 0, 0, 1, 0, 0, 0}}.append(make([]byte, unix.SizeofRtMsg)))
	f.Add(attr{unix.RTA_CACHEINFO, make([]byte, 16)}.append(make([]byte, unix.SizeofRtMsg)))
	f.Add(attr{unix.IFLA_LINKINFO, attr{unix.IFLA_INFO_KIND, []byte("vrf")}.append(nil)}.append(make([]byte, unix.SizeofIfInfomsg)))
	closed := &Handle{closed: true}
	f.Fuzz(func(_ *testing.T, m []byte) {
		if len(m) >= unix.SizeofRtMsg {
			_, _ = closed.parse(policy.Query{}, m)
		}
		parseLink(m)
		hops(m)
	})
}
