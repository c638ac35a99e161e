package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
)

func TestOptions(t *testing.T) {
	client := options{addr: "10.0.0.2", port: 7174, size: 64, verify: true, timeout: 15 * time.Second}
	server := options{server: true, addr: "0.0.0.0", port: 7174, size: 65536, verify: true, timeout: 15 * time.Second}
	for _, c := range []struct {
		args string
		from options
		want func(o *options)
	}{
		{"-c -a 10.0.0.2", client, nil},
		{"-s", server, nil},
		{"-cVv -a 10.0.0.2 -C10 -S 100", client, func(o *options) { o.verbose, o.count, o.size = true, 10, 100 }},
		{"-cvVC 10 -a10.0.0.2 -p1 -d", client, func(o *options) { o.verbose, o.count, o.port, o.debug = true, 10, 1, true }},
		{"-c -a peer.example -I fe80::1%a0 -json", client, func(o *options) {
			o.addr, o.source, o.json = "peer.example", netip.MustParseAddr("fe80::1%a0"), true
		}},
		{"-c -a 10.0.0.2 -device rxe1 -policy route -timeout 3s", client, func(o *options) {
			o.device, o.policy, o.timeout = "rxe1", cm.RequireRoute, 3*time.Second
		}},
		{"-c -a 10.0.0.2 -S 65536", client, func(o *options) { o.size = 65536 }},
		{"-sP -V=false -p 0 -a ::0", server, func(o *options) { o.persistent, o.verify, o.port, o.addr = true, false, 0, "::0" }},
		{"-s -device rxe0 -a :: -S 16", server, func(o *options) { o.device, o.addr, o.size = "rxe0", "::", 16 }},
	} {
		t.Run(c.args, func(t *testing.T) {
			want := c.from
			if c.want != nil {
				c.want(&want)
			}
			got, err := parse(strings.Fields(c.args))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"-c -a 10.1.0.1:7174":             `rb-rping: -a "10.1.0.1:7174" takes no port: give it with -p`,
		"-c -a host.example:7174":         `rb-rping: -a "host.example:7174" takes no port: give it with -p`,
		"-s -a [::1]:7174":                `rb-rping: -a "[::1]:7174" takes no port: give it with -p`,
		"-c -I rxe0 -a 10.1.0.1":          `rb-rping: -I "rxe0" is not an address; -device takes a name`,
		"-s -a rxe0":                      `rb-rping: -a "rxe0" is not an address; -device takes a name`,
		"-c -device 10.1.0.1 -a 10.1.0.1": `rb-rping: -device "10.1.0.1" is not a name; -I takes an address`,
		"-c -a 10.1.0.1 -address":         `rb-rping: unknown flag -address`,
		"-c -a 10.1.0.1 -vpolicy":         `rb-rping: unknown flag -vpolicy`,
	})
}

func TestMisuse(t *testing.T) {
	for _, args := range []string{
		"", "-s -c", "-a 10.0.0.2", "-c", "-c -a 10.0.0.2 more", "-c -a 10.0.0.2 -C -1", "-c -a 10.0.0.2 -C ten",
		"-c -a 10.0.0.2 -S 15", "-c -a 10.0.0.2 -S 65537", "-s -S 0", "-c -a 10.0.0.2 -p 0", "-s -p 65536",
		"-c -a 10.0.0.2 -I eth0", "-c -a 10.0.0.2 -I 10.0.0.1 -device rxe0", "-c -a 10.0.0.2 -policy none",
		"-c -a 10.0.0.2 -timeout 0s", "-c -a 10.0.0.2 -P", "-s -a peer", "-s -a 10.0.0.1 -device rxe0",
		"-s -I 10.0.0.1", "-s -C 1", "-s -policy pin", "-s -q", "-sq", "-c -a",
	} {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, peer.Misuse, run(t.Context(), strings.Fields(args), &out, &errs))
			require.Empty(t, out.String())
			require.Contains(t, errs.String(), "rb-rping: ")
			require.Contains(t, errs.String(), "rb-rping -h")
		})
	}
}

func TestHelp(t *testing.T) {
	for _, flag := range []string{"-h", "-help", "--help"} {
		var out, errs strings.Builder
		require.Equal(t, peer.OK, run(t.Context(), []string{flag}, &out, &errs))
		require.Equal(t, usage, out.String())
		require.Empty(t, errs.String())
	}
}
