package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"

	"github.com/railbind/railbind/cm/policy"
)

func TestOptions(t *testing.T) {
	ap := netip.MustParseAddrPort
	for _, c := range []struct {
		args string
		want options
	}{
		{"10.0.0.2", options{dst: ap("10.0.0.2:0")}},
		{"10.0.0.2:7471", options{dst: ap("10.0.0.2:7471")}},
		{"fd00::2", options{dst: ap("[fd00::2]:0")}},
		{"[fd00::2]", options{dst: ap("[fd00::2]:0")}},
		{"[fe80::2%a0]:7471", options{dst: ap("[fe80::2%a0]:7471")}},
		{"-bind 10.0.0.1 -policy route -resolve -json 10.0.0.2", options{
			bind: ap("10.0.0.1:0"), policy: policy.RequireRoute, resolve: true, json: true, dst: ap("10.0.0.2:0"),
		}},
		{"-bind rxe0 -src 10.0.0.1:99 10.0.0.2", options{device: "rxe0", src: ap("10.0.0.1:99"), dst: ap("10.0.0.2:0")}},
		{"-bind eth0.100 10.0.0.2", options{device: "eth0.100", dst: ap("10.0.0.2:0")}},
		{"-device rxe0 -local-crossing -on-link-route -watch -svg a.svg 10.0.0.2", options{
			device: "rxe0", localCrossing: true, onLinkRoute: true, watch: true, svg: "a.svg", dst: ap("10.0.0.2:0"),
		}},
		{"-ps udp 239.1.1.1", options{space: policy.PortSpaceUDP, dst: ap("239.1.1.1:0")}},
		{"-ps tcp 10.0.0.2", options{dst: ap("10.0.0.2:0")}},
		{"peer", options{name: "peer"}},
		{"peer-1.storage.example.:7471", options{name: "peer-1.storage.example.", dst: netip.AddrPortFrom(netip.Addr{}, 7471)}},
		{"-bind 0.0.0.0:7000 10.0.0.2", options{bind: ap("0.0.0.0:7000"), dst: ap("10.0.0.2:0")}},
	} {
		got, err := parse(strings.Fields(c.args))
		require.NoError(t, err, c.args)
		c.want.target = strings.Fields(c.args)[len(strings.Fields(c.args))-1]
		require.Equal(t, c.want, got, c.args)
	}
}

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"-device 10.1.0.1 10.1.0.2": `rb-explain: -device "10.1.0.1" is not a name; -bind takes an address`,
		"-address 10.1.0.1":         `rb-explain: unknown flag -address`,
	})
}

func TestMisuse(t *testing.T) {
	for _, args := range []string{
		"", "a b", "non/sense", "-a", "peer:x", "peer:70000", "peer:1:2", "a%b", "10.0.0.300", "10.0.0.1:99999", "fd00::2:x", "-bind 10.0.0.300 10.0.0.2", "-bind fd00::g 10.0.0.2",
		"-src rxe0 10.0.0.2", "-policy none 10.0.0.2", "-ps sctp 10.0.0.2", "-nonsense 10.0.0.2", "10.0.0.2 -nonsense",
		"-bind 10.0.0.1 -device rxe0 10.0.0.2", "-svg - -json 10.0.0.2", "-svg - -watch 10.0.0.2",
	} {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, statusMisuse, run(t.Context(), strings.Fields(args), &out, &errs))
			require.Empty(t, out.String())
			require.Contains(t, errs.String(), "rb-explain: ")
		})
	}
}

func TestHelp(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, statusAccepted, run(t.Context(), []string{"-h"}, &out, &errs))
	require.Equal(t, usage, out.String())
	require.Empty(t, errs.String())
}

func TestFlagsBehind(t *testing.T) {
	o, err := parse(strings.Fields("10.0.0.2 -json -policy pin"))
	require.NoError(t, err)
	require.True(t, o.json)
	require.Equal(t, policy.PinBound, o.policy)
}

func TestSchemaFlag(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, statusAccepted, run(t.Context(), []string{"-schema"}, &out, &errs))
	require.Equal(t, schema, out.String())
}
