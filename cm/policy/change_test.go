package policy_test

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

func routeTo(prefix string) policy.Change {
	p := netip.MustParsePrefix(prefix)
	return policy.Change{Kind: policy.RouteChange, IPv6: p.Addr().Is6(), Prefix: p, Ifindex: 3, Netdev: "b0", Table: 254}
}

func TestChangeString(t *testing.T) {
	addr := netip.MustParsePrefix("fd01::9/64")
	for want, c := range map[string]policy.Change{
		"route fd01::2/128 dev b0 table 254 added":           routeTo("fd01::2/128"),
		"route 10.1.0.0/24 table 7 deleted":                  {Kind: policy.RouteChange, Deleted: true, Prefix: netip.MustParsePrefix("10.1.0.0/24"), Table: 7},
		"rule 77 added":                                      {Kind: policy.RuleChange, Number: 77},
		"rule 7 from fd01::9/128 to fd02::/64 table 9 added": {Kind: policy.RuleChange, Number: 7, From: netip.MustParsePrefix("fd01::9/128"), To: netip.MustParsePrefix("fd02::/64"), Table: 9},
		"route unreachable 10.1.0.0/24 table 7 added":        {Kind: policy.RouteChange, Route: policy.RouteUnreachable, Prefix: netip.MustParsePrefix("10.1.0.0/24"), Table: 7},
		"route ::/0 via fd01::2 dev a0 table 254 added":      {Kind: policy.RouteChange, Route: policy.RouteUnicast, Prefix: netip.MustParsePrefix("::/0"), Gateway: netip.MustParseAddr("fd01::2"), Ifindex: 2, Netdev: "a0", Table: 254},
		"nexthop object 5 deleted":                           {Kind: policy.NexthopChange, Number: 5, Deleted: true},
		"address fd01::9 of ifindex 2 deleted":               {Kind: policy.AddressChange, Deleted: true, Prefix: addr, Ifindex: 2},
		"link a0 changed (down, MTU 0)":                      {Kind: policy.LinkChange, Netdev: "a0"},
		"link a0 changed (up, MTU 4200)":                     {Kind: policy.LinkChange, Netdev: "a0", Up: true, MTU: 4200},
		"link ifindex 9 deleted":                             {Kind: policy.LinkChange, Ifindex: 9, Deleted: true},
		"more than the kernel could tell":                    {},
	} {
		require.Equal(t, want, c.String())
	}
}

// What may have led the kernel's IPv6 look-up elsewhere for a moment, and what not.
func TestCheckUnchanged(t *testing.T) {
	m := newPair(t)
	v6 := resolved(t, m, policy.Request{Binding: bind(t, m, "[fd01::1]:0"), Dst: ap("[fd01::2]:7471")})
	v4 := resolved(t, m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.2:7471")})
	for _, test := range []struct {
		name  string
		c     policy.Change
		moves bool
	}{
		{"a host route", routeTo("fd01::2/128"), true},
		{"the default route", routeTo("::/0"), true},
		{"a route to others", routeTo("fd01::3/128"), false},
		{"the default route of IPv4", routeTo("0.0.0.0/0"), false},
		{"a rule", policy.Change{Kind: policy.RuleChange, IPv6: true}, true},
		{"a rule of IPv4", policy.Change{Kind: policy.RuleChange}, false},
		{"a nexthop object", policy.Change{Kind: policy.NexthopChange}, true},
		{"an address", policy.Change{Kind: policy.AddressChange, Prefix: netip.MustParsePrefix("fd01::1/64")}, false},
		{"the link", policy.Change{Kind: policy.LinkChange, Ifindex: v6.Binding.Ifindex}, false},
		{"more than was kept", policy.Change{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			changes := []policy.Change{routeTo("fd09::/64"), test.c}
			require.NoError(t, policy.CheckUnchanged(v4, changes), "IPv4 keeps the device")
			err := policy.CheckUnchanged(v6, changes)
			require.Len(t, changes, 2)
			if !test.moves {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, policy.ErrChanged)
			require.ErrorIs(t, err, syscall.EHOSTUNREACH)
			require.ErrorContains(t, err, test.c.String())
			require.NotContains(t, err.Error(), "fd09")
		})
	}
	local := v6
	local.Request.Dst = ap("[fe80::1:2%a0]:1")
	require.NoError(t, policy.CheckUnchanged(local, []policy.Change{{}}), "a link-local path cannot leave the link")
}

// The route leaves the bound network device after the decision.
func TestCheckPath(t *testing.T) {
	m := newPair(t)
	d := resolved(t, m, policy.Request{Binding: bind(t, m, "[fd01::1]:0"), Dst: ap("[fd01::2]:7471")})
	home := resolved(t, m, policy.Request{Binding: bind(t, m, "[fd01::1]:0"), Dst: ap("[fd01::1]:7471")})
	require.NoError(t, policy.CheckPath(m, d))
	require.NoError(t, policy.CheckPath(m, home))
	require.NoError(t, policy.Explain(m, d, nil))
	require.NoError(t, m.IP("route add fd01::2/128 dev b0"))
	err := policy.CheckPath(m, d)
	require.ErrorIs(t, err, policy.ErrRouteMismatch)
	require.ErrorContains(t, err, "changed since")
	row := policy.GIDRow{GID: d.Binding.GID, Netdev: d.Binding.Ifindex, Port: d.Binding.Port}
	require.ErrorIs(t, policy.CheckEstablished(m, d, kernelOf(d.Binding, d.Request.Dst), row), policy.ErrRouteMismatch)

	changes := []policy.Change{routeTo("fd01::2/128"), routeTo("fd09::/64")}
	require.ErrorIs(t, policy.Explain(m, d, changes), policy.ErrRouteMismatch)
	require.Equal(t, "meanwhile: route fd01::2/128 dev b0 table 254 added", policy.Meanwhile(d, changes))
	require.Empty(t, policy.Meanwhile(policy.Decision{}, changes), "nothing was decided")
	require.ErrorIs(t, policy.CheckPath(nil, d), policy.ErrLookup)
}

// An error of the kernel gets what changed beside it.
func TestExplain(t *testing.T) {
	m := newPair(t)
	d := resolved(t, m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.2:7471")})
	var many []policy.Change
	for range 20 {
		many = append(many, policy.Change{Kind: policy.LinkChange, Ifindex: d.Binding.Ifindex, Netdev: "a0"})
	}
	err := policy.Explain(m, d, many)
	require.ErrorIs(t, err, policy.ErrChanged)
	require.ErrorContains(t, err, "12 changes, link a0 changed")
	require.NoError(t, policy.Explain(m, d, []policy.Change{{Kind: policy.LinkChange, Ifindex: 99}, routeTo("10.9.0.0/16")}))
	require.Error(t, policy.Explain(m, d, []policy.Change{{Kind: policy.AddressChange, Prefix: netip.MustParsePrefix("10.1.0.1/24")}}))
	require.NoError(t, policy.Explain(m, policy.Decision{}, many), "nothing was decided")
}
