package policy_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// randomHost makes a host with random routes, rules, VRFs, addresses and link
// states out of ip commands, so that a failure can be read and replayed.
func randomHost(t testing.TB, r *rand.Rand) (m *model, commands []string) {
	m = newPair(t)
	run := func(format string, args ...any) {
		c := fmt.Sprintf(format, args...)
		require.NoError(t, m.IP(c), c)
		commands = append(commands, c)
	}
	netdev := func() string { return pick(r, "a0", "b0", "c0") }
	if r.IntN(4) == 0 {
		run("link add vrf-x type vrf table 10")
		run("link set %s master vrf-x", netdev())
	}
	for range r.IntN(6) {
		v6 := r.IntN(2) == 0
		m.hashes = r.IntN(2) == 0
		dst := randomDst(r, v6)
		prefix := netip.PrefixFrom(dst, pick(r, 0, 24, dst.BitLen(), dst.BitLen())).Masked()
		gateway := fmt.Sprintf("10.%d.0.9", 1+r.IntN(3))
		if v6 {
			gateway = fmt.Sprintf("fd0%d::9", 1+r.IntN(3))
		}
		table := pick(r, "", "", " table 100", " table 101")
		switch r.IntN(5) {
		case 0:
			run("route add %s %s%s", pick(r, "unreachable", "blackhole", "prohibit"), prefix, table)
		case 1:
			run("route add %s nexthop via %s dev %s nexthop via %s dev %s%s", prefix, gateway, netdev(), gateway, netdev(), table)
		default:
			run("route add %s via %s dev %s%s", prefix, gateway, netdev(), table)
		}
	}
	for range r.IntN(3) {
		src := pick(r, "10.1.0.1", "10.2.0.1", "fd01::1", "fd02::1")
		run("rule add from %s lookup %d", src, 100+r.IntN(2))
	}
	if r.IntN(6) == 0 {
		run("addr add %s dev %s", pick(r, "10.1.0.1/32", "10.2.0.1/32", "fd01::1/128", "fd02::1/128"), netdev())
	}
	if r.IntN(8) == 0 {
		run("link set %s down", netdev())
	}
	return m, commands
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func randomDst(r *rand.Rand, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("fd0%d::%d", 1+r.IntN(4), 1+r.IntN(2)))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.%d.0.%d", 1+r.IntN(4), 1+r.IntN(2)))
}

// TestProperties compares the decisions with what the model's kernel would do,
// whatever next hop its hash chooses.
func TestProperties(t *testing.T) {
	var accepted, overridden, refused int
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, commands := randomHost(t, r)
		v6 := r.IntN(2) == 0
		m.hashes = r.IntN(2) == 0
		dst := netip.AddrPortFrom(randomDst(r, v6), 7471)
		local := pick(r, "10.1.0.1:0", "10.2.0.1:0")
		if v6 {
			local = pick(r, "[fd01::1]:0", "[fd02::1]:0")
		}
		fail := func(d policy.Decision, why string) {
			t.Helper()
			t.Fatalf("seed %d, %v: %s\n%s", seed, commands, why, d.Text())
		}

		follow := policy.Decide(m, policy.Request{Policy: policy.FollowRoute, Dst: dst})
		if follow.Err == nil {
			for _, netdev := range m.kernel(policy.Query{Dst: dst.Addr()}) {
				if netdev != 0 && !contains(follow.Netdevs(), netdev) && m.carries(netdev) {
					fail(follow, fmt.Sprintf("the kernel may choose link %d", netdev))
				}
			}
		}

		b, err := policy.ResolveBinding(m, ap(local))
		if err != nil {
			continue // the address is on two links
		}
		pin := policy.Decide(m, policy.Request{Policy: policy.PinBound, Binding: b, Dst: dst})
		strict := policy.Decide(m, policy.Request{Policy: policy.RequireRoute, Binding: b, Dst: dst})
		effective := m.kernel(policy.Query{Dst: dst.Addr(), Src: b.Addr.Addr(), Oif: b.Ifindex})
		host := m.kernel(policy.Query{Dst: dst.Addr(), Src: b.Addr.Addr()})
		crossing := m.crosses(policy.Query{Dst: dst.Addr(), Src: b.Addr.Addr()}, b.Ifindex)
		// In a VRF an own address connects on the newest kernels only.
		looped := b.VRF != "" && m.lookup(policy.Query{Dst: dst.Addr(), Src: b.Addr.Addr(), Oif: b.Ifindex}).Kind == policy.RouteLocal
		kept := only(effective, b.Ifindex) && m.links[b.Ifindex].Up && !crossing && !looped

		switch {
		case pin.Err == nil && !kept:
			fail(pin, "the kernel may leave the bound link")
		case pin.Err != nil && kept:
			fail(pin, "refused without need")
		case pin.Err == nil && (len(pin.Netdevs()) != 1 || pin.Netdevs()[0] != b.Ifindex):
			fail(pin, "the prediction is not the binding")
		case pin.Err == nil && pin.Overridden == only(host, b.Ifindex):
			fail(pin, "overridden is wrong")
		case strict.Err == nil && (pin.Err != nil || pin.Overridden || !only(host, b.Ifindex)):
			fail(strict, "the route policy accepts what the pin policy would not, or overrides")
		case strict.Err != nil && pin.Err == nil && !pin.Overridden:
			fail(strict, "refused although the route agrees")
		}
		switch {
		case pin.Err != nil:
			refused++
		case pin.Overridden:
			overridden++
		default:
			accepted++
		}
	}
	t.Logf("%d accepted, %d of them overridden, %d refused", accepted+overridden, overridden, refused)
	require.Greater(t, min(accepted, overridden, refused), 200, "the hosts are too much alike")
}

// kernel returns the links that a look-up may end on, over all hashes: for a
// local address that of its owners that the query names, or else the first.
func (m *model) kernel(q policy.Query) (out []int) {
	defer func(hash int) { m.hash = hash }(m.hash)
	for m.hash = range 2 {
		r := m.lookup(q)
		switch r.Kind {
		case policy.RouteUnicast:
			out = append(out, r.Ifindex)
		case policy.RouteLocal:
			owners := m.owners(q.Dst)
			index := owners[0].Index
			for _, o := range owners {
				if src := m.owners(q.Src); o.Index == q.Oif || q.Oif == 0 && len(src) > 0 && o.Index == src[0].Index {
					index = o.Index
				}
			}
			out = append(out, index)
		default:
			out = append(out, 0)
		}
	}
	return out
}

// crosses says whether the host calls the destination a local address, and not
// one of that link.
func (m *model) crosses(q policy.Query, ifindex int) bool {
	if m.lookup(q).Kind != policy.RouteLocal {
		return false
	}
	for _, o := range m.owners(q.Dst) {
		if o.Index == ifindex {
			return false
		}
	}
	return true
}

func (m *model) carries(ifindex int) bool {
	return m.links[ifindex].Name == "a0" || m.links[ifindex].Name == "b0"
}

func only(list []int, ifindex int) bool {
	for _, i := range list {
		if i != ifindex {
			return false
		}
	}
	return true
}

func contains(list []int, i int) bool {
	for _, x := range list {
		if x == i {
			return true
		}
	}
	return false
}
