package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

func TestSentinels(t *testing.T) {
	for name, s := range map[string]struct {
		err   error
		errno syscall.Errno
	}{
		"ErrRouteMismatch": {policy.ErrRouteMismatch, syscall.EHOSTUNREACH}, "ErrDeviceSplit": {policy.ErrDeviceSplit, syscall.EHOSTUNREACH},
		"ErrSourceConflict": {policy.ErrSourceConflict, syscall.EINVAL}, "ErrScope": {policy.ErrScope, syscall.EINVAL},
		"ErrPoisoned": {policy.ErrPoisoned, syscall.EINVAL}, "ErrLoopbackDst": {policy.ErrLoopbackDst, syscall.EADDRNOTAVAIL},
		"ErrAmbiguousDevice": {policy.ErrAmbiguousDevice, 76}, "ErrNotRDMA": {policy.ErrNotRDMA, syscall.ENODEV},
		"ErrNotLocal": {policy.ErrNotLocal, syscall.EADDRNOTAVAIL}, "ErrNotBound": {policy.ErrNotBound, syscall.EINVAL},
		"ErrAlreadyBound": {policy.ErrAlreadyBound, syscall.EINVAL}, "ErrBindingLost": {policy.ErrBindingLost, syscall.EADDRNOTAVAIL},
		"ErrFamilyMismatch": {policy.ErrFamilyMismatch, syscall.EAFNOSUPPORT}, "ErrUnknownPolicy": {policy.ErrUnknownPolicy, syscall.EINVAL},
		"ErrKernelBindRegression": {policy.ErrKernelBindRegression, syscall.EADDRNOTAVAIL},
	} {
		err := fmt.Errorf("wrapped: %w", s.err)
		require.Equal(t, name, policy.SentinelName(err))
		require.ErrorIs(t, err, s.errno, name)
		require.NotErrorIs(t, err, syscall.ENOMEM, name)
		require.NotEmpty(t, s.err.Error())
	}
	require.Equal(t, "ErrLookup", policy.SentinelName(policy.ErrLookup))
	require.NotErrorIs(t, policy.ErrLookup, syscall.Errno(0))
	require.Equal(t, "ErrNoRoute", policy.SentinelName(policy.ErrNoRoute))
	require.Empty(t, policy.SentinelName(nil))
	require.Empty(t, policy.SentinelName(errors.New("other")))
}

func TestErrnoName(t *testing.T) {
	require.Equal(t, "EHOSTUNREACH", policy.ErrnoName(syscall.EHOSTUNREACH))
	require.Equal(t, "ENOTUNIQ", policy.ErrnoName(76))
	require.Equal(t, "errno 4242", policy.ErrnoName(4242))
	require.Empty(t, policy.ErrnoName(0))
}

func TestNamesOfUnknownValues(t *testing.T) {
	for _, s := range []fmt.Stringer{
		policy.Policy(77), policy.Transport(77), policy.BindState(77), policy.PortSpace(77), policy.GIDType(77), policy.RouteKind(77), policy.Verdict(77),
	} {
		require.Equal(t, "77", s.String())
	}
	require.Equal(t, "udp", policy.PortSpaceUDP.String())
	require.Equal(t, "RoCE v2", policy.GIDTypeRoCEv2.String())
}

func TestGID(t *testing.T) {
	a := netip.MustParseAddr("10.1.0.1")
	g := policy.GIDOf(a)
	require.Equal(t, a, g.Addr())
	require.Equal(t, "::ffff:10.1.0.1", g.String())
	require.False(t, g.IsZero())
	require.True(t, policy.GIDOf(netip.Addr{}).IsZero())
	text, err := policy.GID{}.MarshalText()
	require.NoError(t, err)
	require.Empty(t, text)
}

// TestText is what an operator reads.
func TestText(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("route add fd77::/64 via fd02::9 dev b0"))
	for _, test := range []struct {
		r    policy.Request
		text []string
		line string
	}{
		{policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.2.0.2:7471")}, []string{
			"policy       pin (asked: auto)",
			"destination  10.2.0.2:7471",
			"binding      bound to 10.1.0.1 = rxe0/1 on a0 (ifindex 2, MTU 4200), GID ::ffff:10.1.0.1 [0] RoCE v2",
			"bound route  to 10.2.0.2 from 10.1.0.1 oif 2: unicast via a0",
			"table entry  to 10.2.0.2 from 10.1.0.1 oif 2 fibmatch: unreachable (EHOSTUNREACH)",
			"host route   to 10.2.0.2 from 10.1.0.1: unicast via b0",
			"verdict      accepted, overridden, assumed on-link: rxe0/1 on a0",
			"because      the host's own route is unicast via b0; the binding keeps rxe0 on a0; no route through a0 leads",
			"to do        ip rule add from 10.1.0.1 lookup 1002\n" +
				"             ip route replace 10.2.0.2/32 dev a0 table 1002\n" +
				"             (with `via GATEWAY` where the peer is not on the link of a0)\n",
		}, "pin 10.1.0.1 -> 10.2.0.2:7471: accepted, overridden, assumed on-link, rxe0/1 on a0: the host's own route is unicast via b0"},
		{policy.Request{Policy: policy.PinBound, Binding: bind(t, m, "[fd01::1]:5000"), Dst: ap("[fd77::2]:7471")}, []string{
			"policy       pin\n",
			"bound route  to fd77::2 from fd01::1 oif 2: unicast via b0, gateway fd02::9",
			"verdict      refused: ErrRouteMismatch, EHOSTUNREACH",
			"because      with the binding the kernel answers unicast via b0, gateway fd02::9: for IPv6 the bound a0 is only a preference",
			"to do        ip -6 rule add from fd01::1 lookup 1002\n             ip -6 route replace fd77::2/128 dev a0 table 1002\n",
		}, "pin [fd01::1]:5000 -> [fd77::2]:7471: refused, ErrRouteMismatch (EHOSTUNREACH): with the binding"},
		{policy.Request{Policy: policy.RequireRoute, Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.2.0.1:0"), AllowLocalCrossing: true}, []string{
			"local, dev lo, an address of b0",
		}, "route 10.1.0.1 -> 10.2.0.1: refused"},
		{policy.Request{Dst: ap("10.2.0.2:7471")}, []string{
			"binding      not bound", "host route   to 10.2.0.2: unicast via b0", "verdict      accepted: rxe1/1 on b0",
		}, "follow any -> 10.2.0.2:7471: accepted, rxe1/1 on b0: the id is not bound, so the route decides: unicast via b0"},
		{policy.Request{Src: ap("10.3.0.1:0"), Dst: ap("10.2.0.2:7471")}, []string{"source       10.3.0.1", "ErrNotRDMA, ENODEV"},
			"pin 10.3.0.1 -> 10.2.0.2:7471: refused, ErrNotRDMA (ENODEV)"},
		{policy.Request{Binding: bind(t, m, "0.0.0.0:7000"), Policy: policy.PinBound, Dst: ap("10.2.0.2:1")}, []string{"bound to 0.0.0.0:7000, no device"}, "refused"},
		{policy.Request{}, []string{"destination  none", "ErrLoopbackDst"}, "auto any -> none: refused"},
	} {
		d := policy.Decide(m, test.r)
		for _, part := range test.text {
			require.Contains(t, d.Text(), part)
		}
		require.Contains(t, d.String(), test.line)
		require.NotContains(t, d.String(), "\n")
	}
	require.Contains(t, policy.Decision{}.String(), "undecided")
	require.Contains(t, policy.Decision{}.Text(), "undecided")
	odd := policy.Decision{Verdict: policy.Refused, Err: errors.New("foreign")}
	require.Contains(t, odd.String(), "refused, error ()")
	require.Contains(t, odd.Text(), "refused: error")

	d := resolved(t, m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.2:7471")})
	require.Contains(t, d.Text(), "kernel       rxe0/1, 10.1.0.1:40000 -> 10.1.0.2:7471, SGID ::ffff:10.1.0.1")
}

func TestRouteString(t *testing.T) {
	for want, r := range map[string]policy.Route{
		"to invalid IP: not asked":                                      {},
		"to invalid IP: no route":                                       {Kind: policy.RouteNone},
		"to invalid IP: other":                                          {Kind: policy.RouteOther},
		"to invalid IP: local, dev lo":                                  {Kind: policy.RouteLocal, Netdev: "lo", Ifindex: 1},
		"to invalid IP: unicast via ifindex 7, next hops a0, ifindex 7": {Kind: policy.RouteUnicast, Ifindex: 7, Hops: []policy.Hop{{Netdev: "a0"}, {Ifindex: 7}}},
	} {
		require.Equal(t, want, r.String())
	}
}

// TestErrorText: a refusal prints the binding, the routes looked up, the verdict
// and what to do.
func TestErrorText(t *testing.T) {
	m := newPair(t)
	d := policy.Decide(m, policy.Request{Binding: bind(t, m, "[fd01::1]:0"), Dst: ap("[fd02::2]:7471")})
	text := d.Err.Error()
	for _, part := range []string{
		"resolve fd01::1 -> [fd02::2]:7471: the route does not fit the binding (EHOSTUNREACH): ",
		"the id is bound to fd01::1 = rxe0/1 on a0",
		"routes [to fd02::2 from fd01::1 oif 2: unicast via b0], [to fd02::2 from fd01::1 oif 2 fibmatch: unicast via b0], [to fd02::2 from fd01::1: unicast via b0]",
		"ip -6 rule add from fd01::1 lookup 1002",
	} {
		require.Contains(t, text, part)
	}
	d = policy.Decide(m, policy.Request{Dst: ap("[fd99::2]:7471")})
	require.True(t, strings.HasPrefix(d.Err.Error(), "resolve to [fd99::2]:7471: no route to the destination (ENETUNREACH)"), d.Err)
}

// TestJSON is the schema that tools read.
func TestJSON(t *testing.T) {
	m := newPair(t)
	decode := func(d policy.Decision) map[string]any {
		raw, err := json.Marshal(d)
		require.NoError(t, err)
		var out map[string]any
		require.NoError(t, json.Unmarshal(raw, &out))
		for _, key := range []string{"policy", "verdict", "error", "errno", "overridden", "assumed_on_link", "binding", "effective_route", "host_route", "resolved"} {
			require.Contains(t, out, key)
		}
		return out
	}
	require.NoError(t, m.IP("route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"))
	d := policy.Decide(m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.60.0.1:7471")})
	d, err := policy.CheckResolved(m, d, kernelOf(d.Binding, d.Request.Dst))
	require.NoError(t, err)
	got := decode(d)
	hops := []any{
		map[string]any{"netdev": "a0", "ifindex": 2., "gateway": "10.1.0.2", "weight": 1.},
		map[string]any{"netdev": "b0", "ifindex": 3., "gateway": "10.2.0.2", "weight": 1.},
	}
	require.Empty(t, cmp.Diff(map[string]any{
		"policy": "pin", "verdict": "accepted", "error": nil, "errno": nil, "overridden": true, "assumed_on_link": false,
		"binding": map[string]any{
			"state": "device", "address": "10.1.0.1", "device": "rxe0", "port": 1., "transport": "RoCE", "netdev": "a0", "ifindex": 2., "mtu": 4200.,
			"gid": "::ffff:10.1.0.1", "gid_index": 0., "gid_type": "RoCE v2",
		},
		"effective_route": map[string]any{"kind": "unicast", "netdev": "a0", "ifindex": 2., "gateway": "10.1.0.2", "table": 254., "hops": hops, "query": "to 10.60.0.1 from 10.1.0.1 oif 2"},
		"host_route":      map[string]any{"kind": "unicast", "netdev": "a0", "ifindex": 2., "gateway": "10.1.0.2", "table": 254., "hops": hops, "query": "to 10.60.0.1 from 10.1.0.1"},
		"resolved": map[string]any{"device": "rxe0", "port": 1., "transport": "RoCE", "local": "10.1.0.1:40000", "peer": "10.60.0.1:7471",
			"sgid": "::ffff:10.1.0.1", "dgid": "::ffff:10.60.0.1", "path_mtu": 4096.},
		"asked": "auto", "destination": "10.60.0.1:7471", "reason": d.Reason, "commands": []any{},
		"predicted": []any{map[string]any{"device": "rxe0", "port": 1., "transport": "RoCE", "netdev": "a0", "ifindex": 2.}},
		"lookups":   14.,
	}, got))

	got = decode(policy.Decide(m, policy.Request{Policy: policy.RequireRoute, Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.99.0.1:1")}))
	require.Equal(t, "refused", got["verdict"])
	require.Equal(t, "ErrRouteMismatch", got["error"])
	require.Equal(t, "EHOSTUNREACH", got["errno"])
	require.Equal(t, map[string]any{"kind": "no route", "errno": "ENETUNREACH", "query": "to 10.99.0.1 from 10.1.0.1"}, got["host_route"])
	require.Nil(t, got["resolved"])
	require.Equal(t, []any{}, got["predicted"])
	require.NotEmpty(t, got["remedy"])
	require.Equal(t, []any{"ip rule add from 10.1.0.1 lookup 1002", "ip route replace 10.99.0.1/32 dev a0 table 1002"}, got["commands"])

	got = decode(policy.Decide(m, policy.Request{Src: ap("10.1.0.1:0"), Dst: ap("127.0.0.1:1")}))
	require.Equal(t, map[string]any{"state": "unbound"}, got["binding"])
	require.Nil(t, got["effective_route"])
	require.Nil(t, got["host_route"])
	require.Equal(t, "10.1.0.1", got["source"])
	require.Equal(t, "EADDRNOTAVAIL", got["errno"])
	decode(policy.Decision{})
}

func TestLogValue(t *testing.T) {
	m := newPair(t)
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	log.Info("dial", "decision", policy.Decide(m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.2.0.2:1")}))
	require.Contains(t, b.String(), "decision.verdict=accepted")
	require.Contains(t, b.String(), "decision.overridden=true")
	require.NotContains(t, b.String(), "decision.errno")
	log.Info("dial", "decision", policy.Decide(m, policy.Request{Dst: ap("127.0.0.1:1")}))
	require.Contains(t, b.String(), "decision.error=ErrLoopbackDst decision.errno=EADDRNOTAVAIL")
}
