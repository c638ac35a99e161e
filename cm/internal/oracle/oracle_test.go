//go:build linux

package oracle

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// callsPerHost is how many calls are made on each host: to set one up costs
// more than to try a call.
const callsPerHost = 10

// shown is how many cases of a kind are shrunk and printed.
const shown = 3

// TestOracle compares predictions with the kernel. The environment says on what:
// RAILBIND_ORACLE_SEED, _N cases, from host number _FIRST on; else a few hosts that
// are always the same, and a few new ones.
func TestOracle(t *testing.T) {
	r := guest(t)
	if os.Getenv("RAILBIND_ORACLE_N") != "" {
		compare(t, r, uint64(number(t, "SEED", 1)), number(t, "FIRST", 0), number(t, "N", 0))
		return
	}
	compare(t, r, 1, 0, 150)
	compare(t, r, rand.Uint64N(1_000_000), 0, 50)
}

// guest opens the guest's machine.
func guest(t *testing.T) *Runner {
	t.Helper()
	if os.Getenv("RAILBIND_GUEST") == "" {
		t.Skip("runs in the guest: ci/guest -topo oracle")
	}
	require.Equal(t, "oracle", os.Getenv("RAILBIND_TOPO"), "this test is for another topology")
	r, err := NewRunner()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func number(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv("RAILBIND_ORACLE_" + name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

func compare(t *testing.T, r *Runner, seed uint64, host, n int) {
	t.Helper()
	t.Logf("seed %d, from host %d on", seed, host)
	var tally Tally
	kinds := map[string]int{}
	for ; tally.Cases < n; host++ {
		steps, calls := Draw(seed, host, callsPerHost)
		taken, err := r.Set(steps)
		require.NoError(t, err, "host %d: %v", host, steps)
		tally.Hosts++
		for _, c := range calls {
			got, err := r.Try(taken, c)
			require.NoError(t, err, "host %d: %v: %s", host, taken, c)
			tally.Add(got)
			if kinds[got.kind()]++; got.Class.good() || kinds[got.kind()] > shown {
				continue
			}
			small, err := r.Shrink(got)
			require.NoError(t, err)
			t.Logf("seed %d, host %d: %s", seed, host, small)
			_, err = r.Set(taken)
			require.NoError(t, err)
		}
	}
	t.Logf("\n%s", &tally)
	require.Empty(t, tally.Verdict(), "again with: make oracle SEED=%d N=%d", seed, n)
}

// TestOracleFound has what the comparison has found, as fixed cases: the class
// of each is good, whatever it is on this kernel, or is known not to be.
func TestOracleFound(t *testing.T) {
	r := guest(t)
	for _, f := range found() {
		t.Run(f.name, func(t *testing.T) {
			taken, err := r.Set(f.steps)
			require.NoError(t, err)
			require.Len(t, taken, len(f.steps))
			for _, c := range f.calls {
				got, err := r.Try(taken, c)
				require.NoError(t, err)
				require.True(t, got.Class.good() || f.needless && (got.Class == Needless || got.Class == OtherErrno), "%s", got)
				t.Logf("%s: %s %s", c, got.Class, got.Why)
			}
		})
	}
}

type finding struct {
	name  string
	steps []Step
	calls []Call

	needless bool // known to be refused without need, or with another errno
}

func found() []finding {
	pfx, addr, port := netip.MustParsePrefix, netip.MustParseAddr, netip.MustParseAddrPort
	both := func(bind, dst string) []Call {
		c := Call{Bind: port(bind), Dst: port(dst), Policy: policy.PinBound}
		crossing, idle := c, c
		crossing.LocalCrossing = true
		idle.Bind, idle.Policy = netip.AddrPort{}, policy.FollowRoute
		return []Call{c, crossing, idle}
	}
	a0, b0 := Address{"a0", pfx("10.1.0.1/24")}, Address{"b0", pfx("10.2.0.1/24")}
	a6, b6 := Address{"a0", pfx("fd01::1/64")}, Address{"b0", pfx("fd02::1/64")}
	vrf := VRF{vrfName, vrfTable, "b0"}
	var hops []Call
	for _, dst := range []string{"10.60.0.1:1", "10.60.0.2:1", "10.60.0.3:1", "10.60.0.4:1"} {
		hops = append(hops, Call{Dst: port(dst)})
	}
	follow := func(dst string) []Call { return []Call{{Dst: port(dst), Policy: policy.FollowRoute}} }
	return []finding{
		{name: "bind an address that c0 has too", steps: []Step{a0, Address{"c0", a0.Prefix}}, calls: both("10.1.0.1:0", "10.1.0.2:1")},
		{name: "bind an address that c0 had before", steps: []Step{Address{"c0", a0.Prefix}, a0}, calls: both("10.1.0.1:0", "10.1.0.2:1")},
		{name: "to an address that c0 has too", steps: []Step{a0, Address{"a0", pfx("10.1.0.9/24")}, Address{"c0", pfx("10.1.0.9/24")}}, calls: both("10.1.0.1:0", "10.1.0.9:1")},
		{name: "to an address that c0 has too, IPv6", steps: []Step{a6, Address{"a0", pfx("fd01::9/64")}, Address{"c0", pfx("fd01::9/64")}}, calls: both("[fd01::1]:0", "[fd01::9]:1")},
		{name: "to an address that a0 has too", steps: []Step{b0, Address{"b0", pfx("10.2.0.9/24")}, Address{"a0", pfx("10.2.0.9/24")}}, calls: both("10.2.0.1:0", "10.2.0.9:1")},
		{name: "to an address that a0 has too, IPv6", steps: []Step{b6, Address{"b0", pfx("fd02::9/64")}, Address{"a0", pfx("fd02::9/64")}}, calls: both("[fd02::1]:0", "[fd02::9]:1")},
		{name: "to the bound address that a0 has too", steps: []Step{Address{"a0", b0.Prefix}, b0}, calls: both("10.2.0.1:0", "10.2.0.1:1")},
		{name: "the own address in a VRF", steps: []Step{vrf, b0}, calls: both("10.2.0.1:0", "10.2.0.1:1")},
		{name: "the own address in a VRF, IPv6", steps: []Step{vrf, b6}, calls: both("[fd02::1]:0", "[fd02::1]:1")},
		{name: "a next hop without RDMA", steps: []Step{a0, Route{To: pfx("10.60.0.0/24"), Hops: []Hop{{Dev: "a0", Weight: 1}, {Dev: "c0", Weight: 1}}}}, calls: hops},
		{name: "next hops, IPv6", steps: []Step{a6, b6, Route{To: pfx("fd60::/64"), Hops: []Hop{{"a0", addr("fd01::fe"), 1}, {"b0", addr("fd02::fe"), 1}}}},
			calls: append(both("[fd01::1]:0", "[fd60::1]:1"), both("[fd01::1]:0", "[fd60::2]:1")...)},
		{name: "broadcast of another link", steps: []Step{a0, b0}, calls: both("10.2.0.1:0", "10.1.0.255:1")},
		{name: "broadcast of the bound link", steps: []Step{a0, b0}, calls: both("10.1.0.1:0", "10.1.0.255:1")},
		{name: "broadcast of the bound link and of another", steps: []Step{a0, b0, Address{"b0", a0.Prefix}}, calls: both("10.2.0.1:0", "10.1.0.255:1")},
		{name: "multicast", steps: []Step{b0}, calls: []Call{{Bind: port("10.2.0.1:0"), Dst: port("239.1.1.1:1"), PortSpace: policy.PortSpaceUDP, RequireOnLink: true}}},
		{name: "a VRF's own address to beyond the VRF, IPv6", steps: []Step{vrf, Address{"c0", pfx("fd03::1/64")}, Address{vrfName, pfx("fd05::1/128")}},
			calls: []Call{{Bind: port("[fd05::1]:0"), Dst: port("[fd03::2]:1")}}},
		{name: "crossing, IPv6", steps: []Step{a6, b6}, calls: both("[fd01::1]:0", "[fd02::1]:1")},
		{name: "local addresses of nobody", steps: []Step{a0, Route{To: pfx("10.60.0.0/24"), Type: "local", Dev: "a0"}}, calls: both("10.1.0.1:0", "10.60.0.1:1")},
		{name: "a route through a network device without an address of the family", calls: follow("10.60.0.1:1"),
			steps: []Step{b6, Route{To: pfx("10.60.0.0/24"), Dev: "b0"}}},
		{name: "a route through a network device without an address", calls: follow("10.60.0.1:1"),
			steps: []Step{Route{To: pfx("10.60.0.0/24"), Dev: "b0"}}},
		{name: "a route through a network device without an address, and another one has", calls: append(follow("10.60.0.1:1"), follow("[fd60::1]:1")...),
			steps: []Step{a0, a6, Route{To: pfx("10.60.0.0/24"), Dev: "b0"}, Route{To: pfx("fd60::/64"), Dev: "b0"}}},
		{name: "two rails", steps: []Step{a0, b0, Route{To: pfx("10.60.0.0/24"), Hops: []Hop{{Dev: "a0", Weight: 1}, {Dev: "b0", Weight: 2}}}}, calls: hops},
		{name: "a rule by source", calls: hops, steps: []Step{
			a0, b0, Route{To: pfx("10.60.0.0/24"), Dev: "a0"},
			Rule{From: pfx("10.1.0.1/32"), Table: otherTable, Pref: 100}, Route{To: pfx("10.60.0.0/24"), Dev: "b0", Table: otherTable},
		}},
		{name: "a link-local address that no link has", steps: []Step{b6}, calls: []Call{{Bind: port("[fe80::2%b0]:0"), Dst: port("[fd02::1:2]:1")}}},
		{name: "next hops in a VRF and out of it, IPv6", needless: true, calls: both("[fd01::1]:0", "[fd60::1]:1"), steps: []Step{
			VRF{vrfName, vrfTable, "a0"}, a6, Address{"c0", pfx("fd03::1/64")},
			Route{To: pfx("fd60::/64"), Table: vrfTable, Hops: []Hop{{"a0", addr("fd01::fe"), 1}, {"c0", addr("fd03::fe"), 1}}},
		}},
		{name: "a route by source only, IPv6", needless: true, calls: follow("[fd60::1]:1"), steps: []Step{
			b6, Rule{V6: true, From: pfx("fd02::1/128"), Table: otherTable, Pref: 100}, Route{To: pfx("fd60::/64"), Dev: "b0", Table: otherTable},
		}},
		{name: "no route by source only, IPv6", needless: true, calls: follow("[fd60::1]:1"), steps: []Step{
			b6, Rule{V6: true, From: pfx("fd02::1/128"), Refuse: "blackhole", Pref: 100},
		}},
	}
}
