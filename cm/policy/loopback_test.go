package policy_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// versioned is a model that knows its kernel's version.
type versioned struct {
	*model
	major, minor int
}

func (v versioned) KernelVersion() (int, int) { return v.major, v.minor }

// TestOwnAddressInVRF: before kernel 6.18 the path of a connection to oneself
// inside a VRF is that of the VRF's own device.
func TestOwnAddressInVRF(t *testing.T) {
	m := newPair(t)
	for _, c := range []string{"link add vrf-b type vrf table 10", "link set vrf-b up", "link set b0 master vrf-b", "addr replace fd02::1/64 dev b0"} {
		require.NoError(t, m.IP(c))
	}
	for _, addr := range []string{"10.2.0.1:0", "[fd02::1]:0"} {
		r := policy.Request{Binding: bind(t, m, addr), Dst: ap(addr), AllowLocalCrossing: true}
		for _, old := range []policy.Host{m, versioned{m, 5, 19}, versioned{m, 6, 17}} {
			d := policy.Decide(old, r)
			require.ErrorIs(t, d.Err, policy.ErrRouteMismatch)
			require.Contains(t, d.Reason, "b0 is in VRF vrf-b")
		}
		for _, fixed := range []policy.Host{versioned{m, 6, 18}, versioned{m, 7, 0}} {
			d := policy.Decide(fixed, r)
			require.NoError(t, d.Err)
			require.True(t, d.Overridden, "without the binding the host finds nothing")
		}
	}
	require.NoError(t, policy.Decide(m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.1:1")}).Err, "outside of it")
}

// TestDestinationTwice: to an address of this host that several network devices
// have, only the binding shows the way.
func TestDestinationTwice(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("addr add 10.1.0.9/24 dev a0"))
	r := policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.9:1")}
	require.NoError(t, policy.Decide(m, r).Err)
	require.NoError(t, m.IP("addr add 10.1.0.9/24 dev c0"))
	require.NoError(t, policy.Decide(m, r).Err)
	require.ErrorIs(t, policy.Decide(m, policy.Request{Dst: r.Dst}).Err, policy.ErrAmbiguousDevice)
}

// TestOtherHopFails: the question that tells whether the hash chooses cannot be
// asked.
func TestOtherHopFails(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("route add fd60::/64 nexthop via fd01::2 dev a0 nexthop via fd02::2 dev b0"))
	r := policy.Request{Binding: bind(t, m, "[fd01::1]:0"), Dst: ap("[fd60::1]:1")}
	require.NoError(t, policy.Decide(m, r).Err)
	d := policy.Decide(deaf{m, m.named("b0").Index}, r)
	require.ErrorIs(t, d.Err, policy.ErrLookup)
	require.ErrorIs(t, d.Err, syscall.ENOBUFS)
}

// deaf fails to look up routes through one link.
type deaf struct {
	*model
	oif int
}

func (f deaf) Route(q policy.Query) (policy.Route, error) {
	if q.Oif == f.oif {
		return policy.Route{}, syscall.ENOBUFS
	}
	return f.model.Route(q)
}
