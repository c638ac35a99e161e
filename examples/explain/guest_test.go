package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

func ip(t *testing.T, args string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	require.NoError(t, err, "ip %s: %s", args, out)
}

// want is what the program must find.
type want struct {
	status          int
	error, errno    string // of a refusal
	device, netdev  string // where accepted
	overridden      bool
	assumed         bool
	kernel          string // device that -resolve must find
	host, effective string // netdev of the routes, or their kind where there is none
	disagree        bool   // the kernel must not confirm
}

func accepted(device, netdev string) want {
	device = guest.Device(device)
	return want{device: device, netdev: netdev, kernel: device, host: netdev, effective: netdev}
}

func refused(error, errno string) want {
	return want{status: statusRefused, error: error, errno: errno}
}

func (w want) onRoutes(effective, host string) want {
	w.effective, w.host = effective, host
	return w
}

func (w want) check(t *testing.T, args string) {
	t.Helper()
	args = guest.Device(args)
	var out, errs strings.Builder
	status := run(t.Context(), append([]string{"-json"}, strings.Fields(args)...), &out, &errs)
	defer func() {
		if t.Failed() {
			t.Log(args, out.String())
		}
	}()
	require.Equal(t, w.status, status)
	require.Empty(t, errs.String())
	m := parseJSON(t, out.String())
	require.Equal(t, w.overridden, m["overridden"])
	require.Equal(t, w.assumed, m["assumed_on_link"])
	if w.error != "" {
		require.Equal(t, "refused", m["verdict"])
		require.Equal(t, w.error, m["error"])
		require.Equal(t, w.errno, m["errno"])
		require.NotEmpty(t, m["remedy"])
	} else {
		require.Equal(t, "accepted", m["verdict"])
		require.Nil(t, m["error"])
		require.Nil(t, m["errno"])
		place := m["predicted"].([]any)[0].(map[string]any)
		require.Equal(t, w.device, place["device"])
		require.Equal(t, w.netdev, place["netdev"])
	}
	for key, where := range map[string]string{"effective_route": w.effective, "host_route": w.host} {
		if where == "" {
			continue
		}
		route := m[key].(map[string]any)
		if route["kind"] != where {
			require.Equal(t, where, route["netdev"], key)
		}
	}
	if bound := m["binding"].(map[string]any); w.error == "" && strings.Contains(args, "-bind") {
		require.Equal(t, "device", bound["state"])
		for _, key := range []string{"address", "device", "port", "netdev", "ifindex", "gid", "gid_index", "gid_type", "mtu"} {
			require.Contains(t, bound, key)
		}
		require.Equal(t, w.device, bound["device"])
	}
	resolved, _ := m["resolved"].(map[string]any)
	if !strings.Contains(args, "-resolve") {
		require.Nil(t, resolved)
		return
	}
	require.Equal(t, !w.disagree, resolved["agrees"])
	kernel, _ := resolved["kernel"].(map[string]any)
	if w.kernel == "" {
		require.Nil(t, kernel)
	} else {
		require.Equal(t, w.kernel, kernel["device"])
	}
	if w.error != "" {
		require.Equal(t, w.error, resolved["error"], "the id refuses as the decision does")
	}
}

// The acceptance scenarios of the binding rule that need no second host.
func TestPairScenarios(t *testing.T) {
	guest.NeedTopo(t, "pair")
	conflict, mismatch := refused("ErrSourceConflict", "EINVAL"), refused("ErrRouteMismatch", "EHOSTUNREACH")
	for _, c := range []struct {
		name, args string
		want       want
	}{
		{"01 v4", "-bind 10.1.0.1 10.1.0.2:7471", accepted("rxe0", "a0")},
		{"01 v6", "-bind fd01::1 -policy route [fd01::2]:7471", accepted("rxe0", "a0")},
		{"01 by device", "-bind rxe0 10.1.0.2:7471", accepted("rxe0", "a0")},
		{"01 by netdev", "-bind a0 fd01::2", accepted("rxe0", "a0")},
		{"01 idle with a source", "-src 10.1.0.1 -policy pin 10.1.0.2:7471", accepted("rxe0", "a0")},
		{"02 follow", "-policy follow 10.2.0.2:7471", accepted("rxe1", "b0")},
		{"02 follow v6", "fd02::2", accepted("rxe1", "b0")},
		{"02 pin", "-policy pin 10.2.0.2:7471", refused("ErrNotBound", "EINVAL")},
		{"02 UDP", "-ps udp -policy follow 10.2.0.2:7471", accepted("rxe1", "b0")},
		{"02 UDP v6, bound", "-ps udp -bind fd02::1 -policy route fd02::2", accepted("rxe1", "b0")},
		{"07 UDP", "-ps udp -bind fd01::1 [fd02::2]:7471", mismatch.onRoutes("b0", "b0")},
		{"18 multicast", "-bind 10.1.0.1 239.1.1.1:7471", refused("ErrLoopbackDst", "EADDRNOTAVAIL")},
		{"02 without RDMA", "10.3.0.2:7471", refused("ErrNotRDMA", "ENODEV").onRoutes("c0", "c0")},
		{"03", "-bind 10.1.0.1 -src 10.2.0.1 10.2.0.2:7471", conflict},
		{"04", "-bind 10.1.0.1 -src 10.3.0.1 10.1.0.1:7471", conflict},
		{"04 no source", "-bind 10.1.0.1 10.1.0.1:7471", accepted("rxe0", "a0").onRoutes("local", "local")},
		{"05", "-bind 10.1.0.1 10.2.0.1:7471", mismatch.onRoutes("", "local")},
		{"05 route", "-bind 10.1.0.1 -policy route 10.2.0.1:7471", mismatch},
		{"06", "-bind fd01::1 [fd02::1]:7471", mismatch},
		{"07", "-bind fd01::1 [fd02::2]:7471", mismatch.onRoutes("b0", "b0")},
		{"08", "-bind fd01::1 [fd03::2]:7471", mismatch.onRoutes("c0", "c0")},
		{"09 route", "-bind 10.1.0.1 -policy route 10.2.0.2:7471", mismatch.onRoutes("a0", "b0")},
		{"11", "-bind 0.0.0.0:7000 -src 10.2.0.1 10.1.0.2:7471", conflict},
		{"11 v6", "-bind [::]:7000 -src fd02::1 [fd01::2]:7471", conflict},
		{"12", "-bind 10.3.0.1 10.1.0.2", refused("ErrNotRDMA", "ENODEV")},
		{"12 not local", "-bind 10.99.0.1 10.1.0.2", refused("ErrNotLocal", "EADDRNOTAVAIL")},
		{"14 zones differ", "-bind fe80::1%a0 fe80::2:2%b0", refused("ErrScope", "EINVAL")},
		{"14 zones agree", "-bind fe80::1%a0 fe80::1:2%a0", accepted("rxe0", "a0")},
		{"14 no zone", "-bind fe80::1 fe80::1:2%a0", refused("ErrScope", "EINVAL")},
		{"18", "-bind 10.1.0.1 127.0.0.1:7471", refused("ErrLoopbackDst", "EADDRNOTAVAIL")},
		{"18 idle v6", "::1", refused("ErrLoopbackDst", "EADDRNOTAVAIL")},
		{"30 families", "-bind 10.1.0.1 fd01::2", refused("ErrFamilyMismatch", "EAFNOSUPPORT")},
	} {
		if guest.IWARP() && strings.Contains(c.args, "-ps udp") {
			continue // which has no datagrams
		}
		t.Run(c.name, func(t *testing.T) { c.want.check(t, c.args) })
		t.Run(c.name+", resolved", func(t *testing.T) { c.want.check(t, "-resolve "+c.args) })
	}
}

// A device that has no fitting address cannot be bound at all.
func TestPairDevices(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, args := range []string{"-bind c0 10.3.0.2", "-bind nosuch 10.1.0.2", "-bind lo 10.1.0.2"} {
		refused("ErrNotRDMA", "ENODEV").check(t, args)
	}
}

// Scenario 9: the override is told before, and what the kernel then finds out.
func TestPairAssumedOnLink(t *testing.T) {
	guest.NeedTopo(t, "pair")
	if guest.IWARP() { // its TCP connection would not stay on the link
		refused("ErrRouteMismatch", "EHOSTUNREACH").onRoutes("a0", "b0").check(t, "-resolve -bind 10.1.0.1 10.2.0.2:7471")
		return
	}
	w := want{device: "rxe0", netdev: "a0", overridden: true, assumed: true, effective: "a0", host: "b0"}
	w.check(t, "-bind 10.1.0.1 10.2.0.2:7471")
	w.status, w.disagree = statusUnknown, true
	w.check(t, "-resolve -bind 10.1.0.1 10.2.0.2:7471")
}

func TestPairText(t *testing.T) {
	guest.NeedTopo(t, "pair")
	sgid := `, SGID ::ffff:10\.1\.0\.1`
	if guest.IWARP() { // has no GID of an address
		sgid = ".*"
	}
	for _, c := range []struct {
		args   string
		status int
		lines  []string
	}{
		{"-resolve -bind 10.1.0.1 10.1.0.2:7471", statusAccepted, []string{
			`policy +pin \(asked: auto\)`,
			`destination +10\.1\.0\.2:7471`,
			`binding +.*10\.1\.0\.1.*rxe0/1.*a0.*`,
			`bound route +to 10\.1\.0\.2 from 10\.1\.0\.1 oif \d+: unicast via a0`,
			`host route +to 10\.1\.0\.2 from 10\.1\.0\.1: unicast via a0`,
			`verdict +accepted: rxe0/1 on a0`,
			`kernel +agrees: resolved on rxe0/1, 10\.1\.0\.1:\d+ -> 10\.1\.0\.2:7471` + sgid,
		}},
		{"-resolve -bind fd01::1 fd02::2", statusRefused, []string{
			`host route +to fd02::2 from fd01::1: unicast via b0`,
			`verdict +refused: ErrRouteMismatch, EHOSTUNREACH`,
			`because +.*only a preference.*`,
			`to do +ip -6 rule add from fd01::1 lookup .*`,
			`kernel +agrees: refused before the connection manager was asked`,
		}},
		{"-bind 10.3.0.1 10.1.0.2", statusRefused, []string{
			`verdict +refused: ErrNotRDMA, ENODEV`,
			`because +10\.3\.0\.1 is on c0, and no RDMA port has it there`,
			`to do +.*rxe0/1 on a0; rxe1/1 on b0`,
		}},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, c.status, run(t.Context(), strings.Fields(c.args), &out, &errs))
			require.Empty(t, errs.String())
			for _, line := range c.lines {
				require.Regexp(t, "(?m)^"+guest.Device(line)+"$", out.String())
			}
		})
	}
}

// Scenario 16: rail 1's peer behind a route through rail 0.
func TestRailsOverride(t *testing.T) {
	guest.NeedTopo(t, "rails")
	ip(t, "route add 10.10.1.2/32 via 10.10.0.2 dev rail0")
	t.Cleanup(func() { ip(t, "route del 10.10.1.2/32") })
	onRail1 := accepted("rxe1", "rail1").onRoutes("rail1", "rail0")
	onRail1.overridden = true
	for args, w := range map[string]want{
		"10.10.1.2:7174":                               accepted("rxe0", "rail0"),
		"-bind 10.10.1.1 10.10.1.2:7174":               onRail1,
		"-bind rail1 -policy pin 10.10.1.2:7174":       onRail1,
		"-bind 10.10.1.1 -policy route 10.10.1.2:7174": refused("ErrRouteMismatch", "EHOSTUNREACH").onRoutes("rail1", "rail0"),
		"-bind fd10:1::1 [fd10:1::2]:7174":             accepted("rxe1", "rail1"),
	} {
		t.Run(args, func(t *testing.T) { w.check(t, "-resolve "+args) })
	}
}

// found runs the program with -json.
func found(t *testing.T, args string) (status int, m map[string]any) {
	t.Helper()
	var out, errs strings.Builder
	status = run(t.Context(), append([]string{"-json"}, strings.Fields(args)...), &out, &errs)
	require.Empty(t, errs.String())
	return status, parseJSON(t, out.String())
}

// shell runs a command as it is printed.
func shell(t *testing.T, command string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
}

// undo takes back what a remedy's command made.
func undo(t *testing.T, command string) {
	t.Helper()
	command = strings.Replace(strings.Replace(command, "rule add", "rule del", 1), "route replace", "route del", 1)
	if !strings.HasSuffix(command, " up") {
		shell(t, command)
	}
}

// TestPairRemedies: the printed commands, given to a shell, turn a refusal into
// an acceptance that the kernel confirms.
func TestPairRemedies(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct{ args, before, device string }{
		{"-bind fd01::1 [fd02::2]:7471", "", "rxe0"},
		{"-bind 10.1.0.1 -policy route 10.2.0.2", "", "rxe0"},
		{"-bind 10.1.0.1 -on-link-route 10.99.0.2", "", "rxe0"},
		{"-bind 10.1.0.1 10.1.0.2", "link set a0 down", "rxe0"},
		{"10.98.0.2", "", "rxe0"},
	} {
		t.Run(c.args, func(t *testing.T) {
			if c.before != "" {
				ip(t, c.before)
				t.Cleanup(func() { // which IPv6 addresses do not survive
					ip(t, "address replace fd01::1/64 dev a0 nodad")
					ip(t, "address replace fe80::1/64 dev a0 nodad")
					waitGIDs(t)
				})
			}
			status, m := found(t, c.args)
			require.Equal(t, statusRefused, status)
			require.NotEmpty(t, m["commands"])
			for _, command := range m["commands"].([]any) {
				shell(t, command.(string))
				t.Cleanup(func() { undo(t, command.(string)) })
			}
			status, m = found(t, c.args)
			require.Equal(t, statusAccepted, status, m["reason"])
			require.Equal(t, guest.Device(c.device), m["predicted"].([]any)[0].(map[string]any)["device"])
		})
	}
}

// waitGIDs waits until rail a has its addresses again.
func waitGIDs(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, a := range []string{"10.1.0.1", "fd01::1", "fe80::1%a0"} {
			var out, errs strings.Builder
			if run(t.Context(), []string{"-bind", a, a}, &out, &errs) != statusAccepted {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond)
}

// TestPairAmbiguous: of two devices behind one address the remedy removes one.
// The program runs on its own: the kernel removes no rxe device that a process
// has open, as this one would.
func TestPairAmbiguous(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []string{"link add v0 type veth peer name v1", "link add v2 type veth peer name v3", "link add br9 type bridge",
		"link set v0 master br9", "link set v2 master br9", "link set v0 up", "link set v1 up", "link set v2 up", "link set v3 up", "link set br9 up"} {
		ip(t, c)
	}
	t.Cleanup(func() {
		shell(t, "rdma link delete rxe8")
		ip(t, "link del br9")
		ip(t, "link del v0")
		ip(t, "link del v2")
	})
	shell(t, "rdma link add rxe8 type rxe netdev v0 && rdma link add rxe9 type rxe netdev v2")
	ip(t, "address add 10.9.0.1/24 dev br9")
	becomes := func(key, value string) (m map[string]any) {
		t.Helper()
		require.Eventually(t, func() bool { // the GIDs follow in their own time
			out, _ := exec.Command("rb-explain", "-json", "-bind", "10.9.0.1", "10.9.0.2").Output()
			m = parseJSON(t, string(out))
			return m[key] == value
		}, time.Minute, 50*time.Millisecond)
		return m
	}
	require.Contains(t, becomes("error", "ErrAmbiguousDevice")["remedy"], "rdma link delete")
	shell(t, "rdma link delete rxe9")
	becomes("verdict", "accepted")
}

// TestPairNames: a name of /etc/hosts with an address on each rail.
func TestPairNames(t *testing.T) {
	guest.NeedTopo(t, "pair")
	old, err := os.ReadFile("/etc/hosts")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.WriteFile("/etc/hosts", old, 0o644)) })
	require.NoError(t, os.WriteFile("/etc/hosts", append(old, "\n10.3.0.2 peer.test\n10.2.0.2 peer.test\nfd01::2 peer.test\n"...), 0o644))
	status, m := found(t, "-resolve -policy follow peer.test:7471")
	require.Equal(t, statusAccepted, status)
	require.Len(t, m["alternatives"], 2)
	require.Equal(t, true, m["resolved"].(map[string]any)["agrees"])
}

// TestPairWatch: -watch tells that a route, an address and a device changed what
// it said, and nothing else.
func TestPairWatch(t *testing.T) {
	guest.NeedTopo(t, "pair")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan int)
	go func() {
		var errs strings.Builder
		ended <- run(ctx, strings.Fields("-json -watch -bind 10.1.0.1 -policy route 10.1.0.2"), out, &errs)
	}()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	last := ""
	next := func(verdict string) (m map[string]any) {
		t.Helper()
		// (A look in the middle of a change is followed by another, of what was
		// half done: the verdict is that of before.)
		for m = map[string]any{"verdict": last}; m["verdict"] == last; {
			require.True(t, lines.Scan())
			m = parseJSON(t, lines.Text())
		}
		require.Equal(t, verdict, m["verdict"], m["reason"])
		last = verdict
		return m
	}
	require.Empty(t, next("accepted")["changed"])
	ip(t, "route add 10.77.0.0/24 dev b0") // has no part in it
	ip(t, "route add 10.1.0.2/32 via 10.2.0.2 dev b0")
	require.Contains(t, next("refused")["changed"], "host_route")
	ip(t, "route del 10.1.0.2/32 via 10.2.0.2 dev b0")
	next("accepted")
	ip(t, "address del 10.1.0.1/24 dev a0")
	// (Where this fails half-way, others need the address.)
	t.Cleanup(func() { _ = exec.Command("ip", "address", "replace", "10.1.0.1/24", "dev", "a0").Run() })
	// (In the middle of it, it is the route that is missing.)
	for m := next("refused"); m["error"] != "ErrNotLocal"; {
		require.True(t, lines.Scan())
		m = parseJSON(t, lines.Text())
	}
	ip(t, "address add 10.1.0.1/24 dev a0")
	for accepted := false; !accepted; { // the GID follows in its own time
		require.True(t, lines.Scan())
		accepted = parseJSON(t, lines.Text())["verdict"] == "accepted"
	}
	ip(t, "route del 10.77.0.0/24 dev b0")
	cancel()
	go func() { _, _ = io.Copy(io.Discard, in) }()
	require.Equal(t, statusAccepted, <-ended)
}
