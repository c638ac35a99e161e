//go:build linux

package oracle

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// kept is what the kernel makes of a call from a local address on a0.
func kept(local, dst string) Truth {
	from, to := netip.MustParseAddr(local), netip.MustParseAddr(dst)
	return Truth{
		Bound: true, Device: "rxe0", PathMTU: 4096, Local: netip.AddrPortFrom(from, 5000),
		SGID: policy.GIDOf(from), DGID: policy.GIDOf(to),
	}
}

// TestJudge holds the judge to the design's words: it is what everything else is
// measured by.
func TestJudge(t *testing.T) {
	port := netip.MustParseAddrPort
	bound := Call{Bind: port("10.1.0.1:0"), Dst: port("10.1.0.2:1"), Policy: policy.PinBound}
	right := Evidence{
		Call: bound, Kernel: kept("10.1.0.1", "10.1.0.2"), Habit: Habit{Netdevs: []string{"a0"}, OnLink: true},
		Owners: map[netip.Addr][]string{
			netip.MustParseAddr("10.1.0.1"): {"a0"}, netip.MustParseAddr("10.2.0.1"): {"b0"}, netip.MustParseAddr("10.3.0.1"): {"c0"},
			netip.MustParseAddr("fe80::1"): {"a0"}, netip.MustParseAddr("fd01::1"): {"a0"}, netip.MustParseAddr("10.7.0.1"): {"a0", "c0"},
			netip.MustParseAddr("10.5.0.1"): {vrfName},
		},
	}
	for name, test := range map[string]struct {
		change func(*Evidence)
		want   string
	}{
		"nothing":      {func(*Evidence) {}, ""},
		"route agrees": {func(e *Evidence) { e.Policy = policy.RequireRoute }, ""},
		"auto":         {func(e *Evidence) { e.Policy = policy.Auto }, ""},
		"same source":  {func(e *Evidence) { e.Src = e.Bind }, ""},
		"idle, source": {func(e *Evidence) { e.Src, e.Bind = e.Bind, netip.AddrPort{} }, ""},
		"idle":         {func(e *Evidence) { e.Bind, e.Policy = netip.AddrPort{}, policy.FollowRoute }, ""},
		"overridden":   {func(e *Evidence) { e.Habit = Habit{Netdevs: []string{"b0"}} }, ""},
		"loopback":     {func(e *Evidence) { e.Dst = port("127.0.0.1:1") }, "rule 1"},
		"unspecified":  {func(e *Evidence) { e.Dst = port("0.0.0.0:1") }, "rule 1"},
		"multicast":    {func(e *Evidence) { e.Dst = port("239.1.1.1:1") }, "rule 1"},
		"multicast, UDP": {func(e *Evidence) {
			e.PortSpace, e.Dst, e.Kernel = policy.PortSpaceUDP, port("239.1.1.1:1"), kept("10.1.0.1", "239.1.1.1")
		}, ""},
		"broadcast":           {func(e *Evidence) { e.Habit.Broadcast = true }, "rule 1"},
		"broadcast here":      {func(e *Evidence) { e.Habit = Habit{Netdevs: []string{"c0"}, Broadcast: true, BroadcastHere: true} }, "rule 1"},
		"broadcast elsewhere": {func(e *Evidence) { e.Habit = Habit{Netdevs: []string{"c0"}, Broadcast: true} }, ""},
		"families":            {func(e *Evidence) { e.Dst = port("[fd01::2]:1") }, "rule 1"},
		"no zone":             {func(e *Evidence) { e.Bind, e.Dst = port("[fd01::1]:0"), port("[fe80::2]:1") }, "rule 1"},
		"other zone":          {func(e *Evidence) { e.Bind, e.Dst = port("[fe80::1%a0]:0"), port("[fe80::2%b0]:1") }, "rule 1"},
		"other source":        {func(e *Evidence) { e.Src = port("10.2.0.1:0") }, "rule 2"},
		"other port":          {func(e *Evidence) { e.Src = port("10.1.0.1:9") }, "rule 2"},
		"wildcard":            {func(e *Evidence) { e.Bind = port("0.0.0.0:5"); e.Src = port("10.1.0.1:0") }, "rule 3"},
		"wildcard zone":       {func(e *Evidence) { e.Bind, e.Dst = port("[::]:5"), port("[fe80::2%a0]:1") }, "rule 3"},
		"bind loopback":       {func(e *Evidence) { e.Bind = port("127.0.0.1:0") }, "loopback binds"},
		"pin, idle":           {func(e *Evidence) { e.Bind = netip.AddrPort{} }, "policies pin, route"},
		"follow, bound":       {func(e *Evidence) { e.Policy = policy.FollowRoute }, "policy follow"},
		"follow, source": {func(e *Evidence) { e.Src, e.Bind, e.Policy = e.Bind, netip.AddrPort{}, policy.FollowRoute },
			"policy follow"},
		"kernel fails":  {func(e *Evidence) { e.Kernel.Failed = "bind" }, "the kernel fails to bind"},
		"other device":  {func(e *Evidence) { e.Kernel.Device = "rxe1" }, "the kernel is on another device"},
		"split":         {func(e *Evidence) { e.Kernel.PathMTU = 2048 }, "the kernel splits"},
		"split, idle":   {func(e *Evidence) { e.Bind, e.Policy, e.Kernel.PathMTU = netip.AddrPort{}, 0, 1024 }, "the kernel splits"},
		"other SGID":    {func(e *Evidence) { e.Kernel.SGID = policy.GID{} }, "the kernel's path"},
		"crossing":      {func(e *Evidence) { e.Habit = Habit{Netdevs: []string{"lo"}} }, "an address of another"},
		"crossing, VRF": {func(e *Evidence) { e.Habit = Habit{Netdevs: []string{vrfName}} }, "an address of another"},
		"crossing in a VRF": {func(e *Evidence) {
			e.Member, e.Habit, e.Dst, e.Kernel = "a0", Habit{}, port("10.5.0.1:1"), kept("10.1.0.1", "10.5.0.1")
		}, "an address of another"},
		"let through": {func(e *Evidence) { e.Habit, e.LocalCrossing = Habit{Netdevs: []string{"lo"}}, true }, ""},
		"not let through": {func(e *Evidence) {
			e.Habit, e.LocalCrossing, e.Policy = Habit{Netdevs: []string{"lo"}}, true, policy.RequireRoute
		}, "an address of another"},
		"route, elsewhere":  {func(e *Evidence) { e.Policy, e.Habit.Netdevs = policy.RequireRoute, []string{"b0"} }, "policy route"},
		"route, two hops":   {func(e *Evidence) { e.Policy, e.Habit.Netdevs = policy.RequireRoute, []string{"a0", "b0"} }, "policy route"},
		"route, no route":   {func(e *Evidence) { e.Policy, e.Habit = policy.RequireRoute, Habit{} }, "policy route"},
		"no route, wanted":  {func(e *Evidence) { e.RequireOnLink, e.Habit.OnLink = true, false }, "no route"},
		"a route, as asked": {func(e *Evidence) { e.RequireOnLink = true }, ""},
		"bound twice": {func(e *Evidence) {
			e.Bind, e.Kernel = port("10.7.0.1:0"), kept("10.7.0.1", "10.1.0.2")
		}, "several network devices have the local"},
		"to an address twice": {func(e *Evidence) {
			e.Bind, e.Policy, e.Dst, e.Kernel = netip.AddrPort{}, policy.FollowRoute, port("10.7.0.1:1"), kept("10.1.0.1", "10.7.0.1")
		}, "several network devices have the destination"},
	} {
		e := right
		test.change(&e)
		got := e.judge()
		require.True(t, test.want == "" && got == "" || test.want != "" && strings.HasPrefix(got, test.want), "%s: %q, want %q", name, got, test.want)
	}
}

// TestJudgeIWARP: without a path, what counts is where TCP leaves.
func TestJudgeIWARP(t *testing.T) {
	iwarp = true
	t.Cleanup(func() { iwarp = false })
	own, dst := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddrPort("10.1.0.2:1")
	right := Evidence{
		Call: Call{Bind: netip.AddrPortFrom(own, 0), Dst: dst}, Owners: map[netip.Addr][]string{own: {"a0"}},
		Kernel: Truth{Device: "siw0", Local: netip.AddrPortFrom(own, 5000)}, Habit: Habit{Netdevs: []string{"a0"}},
	}
	for name, test := range map[string]struct {
		change func(*Evidence)
		want   string
	}{
		"nothing":          {func(*Evidence) {}, ""},
		"idle":             {func(e *Evidence) { e.Bind = netip.AddrPort{} }, ""},
		"other device":     {func(e *Evidence) { e.Kernel.Device = "siw1" }, "the kernel is on another device"},
		"route elsewhere":  {func(e *Evidence) { e.Habit.Netdevs = []string{"b0"} }, "the host leads TCP elsewhere"},
		"route to several": {func(e *Evidence) { e.Habit.Netdevs = []string{"a0", "b0"} }, "the host leads TCP elsewhere"},
		"no route":         {func(e *Evidence) { e.Habit = Habit{} }, "the host leads TCP elsewhere"},
		"itself": {func(e *Evidence) { e.Dst, e.Habit.Netdevs = netip.AddrPortFrom(own, 1), []string{"lo"} },
			""},
		"nobody's address": {func(e *Evidence) { e.Kernel.Local = netip.AddrPort{} }, "TCP cannot use"},
	} {
		e := right
		test.change(&e)
		got := e.judge()
		require.True(t, test.want == "" && got == "" || test.want != "" && strings.HasPrefix(got, test.want), "%s: %q, want %q", name, got, test.want)
	}
}

// TestCompare: each class can be told.
func TestCompare(t *testing.T) {
	port := netip.MustParseAddrPort
	base := func() Result {
		c := Call{Bind: port("10.1.0.1:0"), Dst: port("10.1.0.2:1")}
		return Result{
			Case: Case{Call: c},
			Evidence: Evidence{Call: c, Kernel: kept("10.1.0.1", "10.1.0.2"), Habit: Habit{Netdevs: []string{"a0"}},
				Owners: map[netip.Addr][]string{netip.MustParseAddr("10.1.0.1"): {"a0"}}},
			Claim: Claim{Predicted: []policy.Target{{Device: "rxe0", Netdev: "a0"}}, Real: policy.Binding{Device: "rxe0", Netdev: "a0"}},
		}
	}
	refuse := func(r *Result, err error) { r.Claim = Claim{Err: err, RealErr: err} }
	for name, test := range map[string]struct {
		change func(*Result)
		want   Class
	}{
		"right":                 {func(*Result) {}, Right},
		"promised elsewhere":    {func(r *Result) { r.Claim.Predicted[0] = policy.Target{Device: "rxe1", Netdev: "b0"} }, Wrong},
		"the ID says elsewhere": {func(r *Result) { r.Claim.Real = policy.Binding{Device: "rxe1", Netdev: "b0"} }, Wrong},
		"forbidden":             {func(r *Result) { r.Kernel.PathMTU = 1024 }, Wrong},
		"two places":            {func(r *Result) { r.Claim.Predicted = append(r.Claim.Predicted, policy.Target{}) }, Wrong},
		"two places by multipath": {func(r *Result) {
			r.Claim.Predicted = append(r.Claim.Predicted, policy.Target{})
			r.Steps = []Step{Route{Hops: make([]Hop, 2)}}
		}, Right},
		"the ID fails":           {func(r *Result) { r.Claim.RealErr = policy.ErrDeviceSplit }, Disagree},
		"the ID fails otherwise": {func(r *Result) { refuse(r, policy.ErrScope); r.Claim.RealErr = policy.ErrNotRDMA }, Disagree},
		"needless":               {func(r *Result) { refuse(r, policy.ErrRouteMismatch) }, Needless},
		"needed":                 {func(r *Result) { refuse(r, policy.ErrRouteMismatch); r.Kernel.PathMTU = 1024 }, Needed},
		"other errno": {func(r *Result) {
			refuse(r, policy.ErrNoRoute)
			r.Kernel = Truth{Failed: "resolve address", Errno: 13}
		}, OtherErrno},
	} {
		r := base()
		test.change(&r)
		got, why := r.compare()
		require.Equal(t, test.want, got, "%s: %s", name, why)
	}
}

// TestDraw: a number is one host, and the hosts differ and have everything.
func TestDraw(t *testing.T) {
	var all strings.Builder
	for host := range 300 {
		steps, calls := Draw(1, host, 5)
		again, callsAgain := Draw(1, host, 5)
		require.Equal(t, steps, again)
		require.Equal(t, calls, callsAgain)
		for _, s := range steps {
			all.WriteString(command(s) + "\n")
		}
		for _, c := range calls {
			all.WriteString(c.String() + "\n")
		}
	}
	for _, what := range []string{
		"type vrf", " dev lo", "nodad", "default", "unreachable ", "blackhole ", "prohibit ", "throw ", "local 10.",
		"nexthop via", "weight", " src ", "metric", "table 100", "table 10", "rule add from", " to ", " oif ", "lookup 100", "down",
		"bind 0.0.0.0", "bind [::]", "bind 127.0.0.1", "%a0]", "[fe80::1]", "239.1.1.1", "10.1.0.255", "[::ffff:",
		"nexthop add id 1 ", "nexthop add id 1 dev", " via fe80::99", "blackhole\n", " group 1,", "type resilient", " nhid ", " carrier off", "ignore_routes_with_linkdown",
		"port space udp", "AllowLocalCrossing", "RequireOnLinkRoute", "policy auto", "policy pin", "policy route", "policy follow",
	} {
		require.Contains(t, all.String(), what)
	}
}

// TestReductions: everything about a case can be left out.
func TestReductions(t *testing.T) {
	pfx := netip.MustParsePrefix
	c := Case{
		Steps: []Step{
			Address{"a0", pfx("10.1.0.1/24")},
			Route{To: pfx("10.9.0.0/24"), Dev: "a0", Via: netip.MustParseAddr("10.1.0.2"), Src: netip.MustParseAddr("10.1.0.1"), Metric: 5, Table: 100},
			Route{To: pfx("10.8.0.0/24"), Hops: []Hop{{Dev: "a0"}, {Dev: "b0"}, {Dev: "c0"}}},
			Nexthop{ID: 3, Group: []Member{{1, 1}, {2, 1}}},
		},
		Call: Call{Dst: netip.MustParseAddrPort("10.1.0.2:1"), Src: netip.MustParseAddrPort("10.1.0.1:0"), Policy: policy.PinBound, PortSpace: policy.PortSpaceUDP, LocalCrossing: true, RequireOnLink: true},
	}
	less := Result{Case: c}.reductions()
	require.Len(t, less, 4+4+3+2+5)
	for _, l := range less {
		require.NotEqual(t, c, l)
	}
}

func TestVerdict(t *testing.T) {
	var tally Tally
	add := func(n int, c Class) {
		for range n {
			tally.Hosts++
			tally.Add(Result{Class: c, Why: "so"})
		}
	}
	add(100, Right)
	add(399, Needed)
	add(1, Needless)
	require.Empty(t, tally.Verdict())
	add(1, Needless)
	require.Empty(t, tally.Verdict(), "2 of 401")
	add(1, Needless)
	require.NotEmpty(t, tally.Verdict(), "3 of 402")
	require.Contains(t, tally.String(), "502 cases")
	require.Contains(t, tally.String(), "399 so")
	add(1, Wrong)
	require.Contains(t, tally.Verdict(), "wrong")

	var short Tally
	short.Hosts = 1
	for range 3 { // calls that met the same rule
		short.Add(Result{Class: OtherErrno})
	}
	require.Empty(t, short.Verdict())
	short.Hosts++
	short.Add(Result{Class: OtherErrno})
	require.NotEmpty(t, short.Verdict())
}
