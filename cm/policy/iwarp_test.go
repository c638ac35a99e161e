package policy_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// TestIWARPFollows: the TCP connection of an id that is not bound has a source,
// and looks the route up again.
func TestIWARPFollows(t *testing.T) {
	for _, setup := range [][]string{
		{"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"},
		{"route add 10.60.0.0/24 via 10.1.0.2 dev a0", "rule add from 10.1.0.1 lookup 100", "route add 10.60.0.0/24 via 10.2.0.2 dev b0 table 100"},
	} {
		m := newPair(t)
		for _, command := range setup {
			require.NoError(t, m.IP(command))
		}
		require.NoError(t, policy.Decide(m, policy.Request{Dst: ap("10.60.0.1:1")}).Err, "RoCE sends where it resolved")
		m.siw()
		d := policy.Decide(m, policy.Request{Dst: ap("10.60.0.1:1")})
		require.ErrorIs(t, d.Err, policy.ErrRouteMismatch)
		require.ErrorContains(t, d.Err, "iWARP's TCP connection")
		if d.Commands != nil {
			_, err := m.remedy(d.Remedy)
			require.NoError(t, err)
			require.NoError(t, policy.Decide(m, policy.Request{Dst: ap("10.60.0.1:1")}).Err)
		}
	}
}

// TestIWARPSource: where the route's network device has no address to send from,
// RoCE has no GID, and iWARP's proves nothing.
func TestIWARPSource(t *testing.T) {
	for dst, setup := range map[string][]string{
		"10.60.0.1:1": {"addr del 10.2.0.1/24 dev b0", "route add 10.60.0.0/24 dev b0"},
		"[fd60::1]:1": {"addr del fd02::1/64 dev b0", "route add fd60::/64 dev b0"},
	} {
		m := newPair(t)
		for _, command := range setup {
			require.NoError(t, m.IP(command))
		}
		require.ErrorIs(t, policy.Decide(m, policy.Request{Dst: ap(dst)}).Err, policy.ErrNotRDMA, dst)
		m.siw()
		d := policy.Decide(m, policy.Request{Dst: ap(dst)})
		require.ErrorIs(t, d.Err, policy.ErrNotRDMA, dst)
		t.Log(d.Err)
	}
}

// TestIWARPPath: until TCP connects, the host's route must stay what it was.
func TestIWARPPath(t *testing.T) {
	for local, dst := range map[string]string{"10.1.0.1:0": "10.1.0.2:1", "[fd01::1]:0": "[fd01::2]:1"} {
		m := newPair(t)
		m.siw()
		peer := ap(dst).Addr()
		d := resolved(t, m, policy.Request{Binding: bind(t, m, local), Dst: ap(dst)})
		home := resolved(t, m, policy.Request{Binding: bind(t, m, local), Dst: ap(local)})
		k := kernelOf(d.Binding, d.Request.Dst)
		require.NoError(t, policy.CheckPath(m, d))
		require.NoError(t, policy.CheckPath(m, home))
		require.NoError(t, policy.CheckEstablished(m, d, k, policy.GIDRow{}))
		require.ErrorIs(t, policy.CheckUnchanged(d, []policy.Change{routeTo(netip.PrefixFrom(peer, peer.BitLen()).String())}), policy.ErrChanged)
		require.NoError(t, policy.CheckUnchanged(d, []policy.Change{routeTo("10.9.0.0/16"), routeTo("fd09::/16")}))

		require.NoError(t, m.IP("route add "+netip.PrefixFrom(peer, peer.BitLen()).String()+" dev b0"))
		require.ErrorContains(t, policy.CheckPath(m, d), "the routing has changed")
		require.ErrorIs(t, policy.CheckPath(m, d), policy.ErrRouteMismatch)
		require.ErrorIs(t, policy.CheckEstablished(m, d, k, policy.GIDRow{}), policy.ErrRouteMismatch)
		require.NoError(t, policy.CheckPath(m, home))
		require.ErrorIs(t, policy.CheckPath(nil, d), policy.ErrLookup)
	}
}
