package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// on explains on a fake host.
func on(t *testing.T, h *fake, args string) report {
	t.Helper()
	o, err := parse(strings.Fields(args))
	require.NoError(t, err)
	return explainOn(t.Context(), h, nil, o)
}

func (r report) jsonText(t *testing.T) string {
	t.Helper()
	r.json = true
	var out strings.Builder
	require.NoError(t, r.print(&out))
	return out.String()
}

// TestText is what an operator reads.
func TestText(t *testing.T) {
	r := on(t, rails2(), "-bind 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 -policy pin 2001:db8:1111:2222:3333:4444:5555:6662")
	require.Equal(t, statusRefused, r.status())
	require.Equal(t, `asked        2001:db8:1111:2222:3333:4444:5555:6662, bound to 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1, policy pin
unbound      to 2001:db8:1111:2222:3333:4444:5555:6662: unicast via ens1f0np0, so mlx5_0/1 on ens1f0np0
policy       pin
destination  2001:db8:1111:2222:3333:4444:5555:6662
binding      bound to 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 = mlx5_1/1 on ens2f1np1 (ifindex 4, MTU 4200), GID 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 [1] RoCE v2
host route   to 2001:db8:1111:2222:3333:4444:5555:6662 from 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1: unicast via ens1f0np0
bound route  to 2001:db8:1111:2222:3333:4444:5555:6662 from 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 oif 4: unicast via ens1f0np0
table entry  to 2001:db8:1111:2222:3333:4444:5555:6662 from 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 oif 4 fibmatch: unicast via ens1f0np0
verdict      refused: ErrRouteMismatch, EHOSTUNREACH
because      with the binding the kernel answers unicast via ens1f0np0: for IPv6 the bound ens2f1np1 is only a preference, and the connection would be split between ens2f1np1 and ens1f0np0
to do        ip -6 rule add from 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 lookup 1004
             ip -6 route replace 2001:db8:1111:2222:3333:4444:5555:6662/128 dev ens2f1np1 table 1004
             (with `+"`via GATEWAY`"+` where the peer is not on the link of ens2f1np1)
`, r.text())

	r = on(t, rails2(), "-bind 10.10.1.1 192.0.2.18")
	require.Regexp(t, `(?m)^unbound +to 192.0.2.18: unicast via eno1, so refused: ErrNotRDMA$`, r.text())
	r = on(t, rails2(), "-bind 10.10.1.1 198.51.100.1 -on-link-route -local-crossing -src 10.10.1.1")
	require.Regexp(t, `(?m)^unbound +to 198.51.100.1: no route \(ENETUNREACH\)$`, r.text())
	require.Contains(t, r.text(), "198.51.100.1, bound to 10.10.1.1, from source 10.10.1.1, policy auto, local crossing allowed, a route on the link required\n")
	r = on(t, rails2(), "-device mlx5_1 10.10.1.2")
	require.Equal(t, statusAccepted, r.status())
}

// TestNames: a dial tries the addresses of a name in turn, and so does this.
func TestNames(t *testing.T) {
	knowNames(t, map[string][]string{"peer": {"2001:db8:1111:2222:3333:4444:5555:6662", "192.0.2.18", "::ffff:10.10.1.2", "10.10.0.2"}})
	for _, test := range []struct {
		args   string
		status int
		text   []string
		dst    string
		others int
	}{
		{"-bind 10.10.1.1 -policy route peer:7471", statusAccepted,
			[]string{"peer is 192.0.2.18, 10.10.1.2 (taken), 10.10.0.2, 2001:db8:1111:2222:3333:4444:5555:6662 (not tried: of the other family)", "-- to 192.0.2.18:7471\n"}, "10.10.1.2:7471", 2},
		{"peer", statusAccepted, []string{"6662 (taken)", "-- to 10.10.0.2\n"}, "2001:db8:1111:2222:3333:4444:5555:6662", 3},
		{"-policy pin peer", statusRefused, []string{"peer is 2001:db8:1111:2222:3333:4444:5555:6662, 192.0.2.18, 10.10.1.2, 10.10.0.2\n"}, "2001:db8:1111:2222:3333:4444:5555:6662", 3},
		{"nobody:1", statusUnknown, []string{"undecided", "no such host"}, "", 0},
	} {
		r := on(t, rails2(), test.args)
		require.Equal(t, test.status, r.status(), test.args)
		for _, s := range test.text {
			require.Contains(t, r.text(), s)
		}
		m := parseJSON(t, r.jsonText(t))
		require.Equal(t, test.dst, m["destination"])
		require.Len(t, m["alternatives"], test.others)
	}
	knowNames(t, map[string][]string{"six": {"2001:db8:1111:2222:3333:4444:5555:6662"}})
	r := on(t, rails2(), "-bind 10.10.1.1 six")
	require.Contains(t, r.text(), "ErrFamilyMismatch", "the only address is tried")
}

// TestSchema: all that the program finds on fake hosts is as the schema says, and
// the schema refuses what it does not describe.
func TestSchema(t *testing.T) {
	knowNames(t, map[string][]string{"storage.example": {"10.10.1.2", "10.10.0.2"}})
	for _, p := range pictures {
		parseJSON(t, on(t, p.host(), p.args).jsonText(t))
	}
	var m map[string]any
	good := on(t, rails2(), "-bind 10.10.1.1 10.10.1.2").jsonText(t)
	for key, value := range map[string]any{"more": 1, "verdict": "maybe", "error": "EINVAL", "commands": nil, "binding": map[string]any{"state": "device"},
		"host_route": map[string]any{"kind": "unicast"}, "time": "2026-12-02T08:00:00Z", "alternatives": []any{map[string]any{}}} {
		require.NoError(t, json.Unmarshal([]byte(good), &m))
		require.NoError(t, contract().Validate(any(m)))
		m[key] = value
		require.Error(t, contract().Validate(any(m)), key)
		clear(m)
	}
}

// TestEditions: -watch prints what is new, and says how it was.
func TestEditions(t *testing.T) {
	h := rails2()
	var out strings.Builder
	const args = "-bind 10.10.1.1 10.10.1.2"
	first, err := edition{}.next(on(t, h, args), &out)
	require.NoError(t, err)
	require.Regexp(t, `^== [0-9-]+ [0-9:.]+ accepted\nasked `, out.String())
	out.Reset()
	h.add("eth9", "", 1500, "192.0.2.99/32")
	same, err := first.next(on(t, h, args), &out)
	require.NoError(t, err)
	require.Empty(t, out.String(), "nothing that it rests on")
	h.route("10.10.1.2/32", "ens1f0np0", "10.10.0.254")
	next, err := same.next(on(t, h, args), &out)
	require.NoError(t, err)
	require.Regexp(t, `^\n== .* accepted\n`, out.String())
	for _, line := range []string{
		"unbound      to 10.10.1.2: unicast via ens1f0np0, gateway 10.10.0.254, so mlx5_0/1 on ens1f0np0\n   was       to 10.10.1.2: unicast via ens2f1np1, so mlx5_1/1 on ens2f1np1\n",
		"verdict      accepted, overridden: mlx5_1/1 on ens2f1np1\n   was       accepted: mlx5_1/1 on ens2f1np1\n",
	} {
		require.Contains(t, out.String(), line)
	}

	out.Reset()
	picture := filepath.Join(t.TempDir(), "a.svg")
	one, err := edition{}.next(on(t, rails2(), "-json -svg "+picture+" "+args), &out)
	require.NoError(t, err)
	_, err = one.next(on(t, h, "-json -svg "+picture+" "+args), &out)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, []any{}, parseJSON(t, lines[0])["changed"])
	require.Equal(t, []any{"host_route", "overridden", "reason", "unbound"}, parseJSON(t, lines[1])["changed"])
	svg, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Contains(t, string(svg), "overridden")
	require.Equal(t, statusAccepted, next.status())
}

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "real"), []byte("old"), 0o644))
	require.NoError(t, replaceFile(filepath.Join(dir, "link"), "new"))
	got, err := os.ReadFile(filepath.Join(dir, "real"))
	require.NoError(t, err)
	require.Equal(t, "new", string(got))
	require.NoError(t, replaceFile("/dev/null", "x"))
	st, err := os.Stat("/dev/null")
	require.NoError(t, err)
	require.False(t, st.Mode().IsRegular())
	require.Error(t, replaceFile(filepath.Join(dir, "no", "such"), "x"))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 2, "nothing half is left")
}

// TestWords: what the words of a remedy say to ask instead is accepted.
func TestWords(t *testing.T) {
	h := func() *fake { return rails2().add("eth7", "mlx5_7", 1500, "10.20.0.1/24", "10.20.0.2/24") }
	for _, test := range []struct{ args, err, words, instead string }{
		{"-bind 10.10.1.1 -src 10.10.0.1 10.10.1.2", "ErrSourceConflict", "leave the source out", "-bind 10.10.1.1 10.10.1.2"},
		{"-policy follow -src 10.10.1.1 10.10.1.2", "ErrSourceConflict", "leave the source out, or use policy pin or route", "-policy route -src 10.10.1.1 10.10.1.2"},
		{"-policy pin 10.10.1.2", "ErrNotBound", "bind an address of a rail first, or use policy follow", "-policy follow 10.10.1.2"},
		{"-policy follow -bind 10.10.1.1 10.10.1.2", "ErrAlreadyBound", "use an id that is not bound, or policy pin or route", "-policy pin -bind 10.10.1.1 10.10.1.2"},
		{"-bind 10.10.1.1 2001:db8::1", "ErrFamilyMismatch", "use two addresses of one family", "-bind 10.10.1.1 10.10.1.2"},
		{"-bind 10.10.1.1 127.0.0.1", "ErrLoopbackDst", "give this host's address on the rail", "-bind 10.10.1.1 10.10.1.1"},
		{"-bind 10.10.1.1 239.1.1.1", "ErrLoopbackDst", "or use the UDP port space", "-ps udp -bind 10.10.1.1 239.1.1.1"},
		{"-bind 10.10.1.1 10.10.0.1", "ErrRouteMismatch", "bind 10.10.0.1 itself, or use an unbound id with policy follow", "-bind 10.10.0.1 10.10.0.1"},
		{"-bind 10.10.1.1 10.10.0.1", "ErrRouteMismatch", "AllowLocalCrossing lets it through", "-local-crossing -bind 10.10.1.1 10.10.0.1"},
		{"-bind 10.10.1.1 -policy route 10.10.0.2", "ErrRouteMismatch", "or use policy pin", "-bind 10.10.1.1 -policy pin 10.10.0.2"},
		{"-bind fe80::5054:ff:fe00:1 fe80::9%ens1f0np0", "ErrScope", "add the link, as in fe80::5054:ff:fe00:1%", "-bind fe80::5054:ff:fe00:1%ens1f0np0 fe80::9%ens1f0np0"},
		{"-bind fe80::5054:ff:fe00:1%ens1f0np0 fe80::9%ens2f1np1", "ErrScope", "give the destination on ens1f0np0", "-bind fe80::5054:ff:fe00:1%ens1f0np0 fe80::9%ens1f0np0"},
		{"-bind 192.0.2.17 10.10.1.2", "ErrNotRDMA", "mlx5_1/1 on ens2f1np1", "-device ens2f1np1 10.10.1.2"},
		{"-device mlx5_7 198.51.100.1", "ErrAmbiguousDevice", "give the local address instead of the device", "-bind 10.20.0.2 198.51.100.1"},
		{"192.0.2.18", "ErrNotRDMA", "bind an address of a rail", "-bind 10.10.1.1 192.0.2.18"},
	} {
		t.Run(test.args, func(t *testing.T) {
			m := parseJSON(t, on(t, h(), test.args).jsonText(t))
			require.Equal(t, test.err, m["error"])
			require.Contains(t, m["remedy"], test.words)
			require.Equal(t, statusAccepted, on(t, h(), test.instead).status())
		})
	}
}
