//go:build linux

package cm

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What comes and goes between bind and resolve. (A netdev under a soft device
// cannot be among it: its removal waits for every program that has the device
// open, and this one has.)

var lost = refused(ErrBindingLost, syscall.EADDRNOTAVAIL)

var changes = []struct {
	name      string
	before    []string // ip commands, and a GID to wait for
	gid       string
	bind, dst string
	change    []string
	peer      []string // the same in peer-b
	undo      []string
	undoPeer  []string
	want      map[Policy]outcome
	kernel    string
}{
	{
		name: "address comes back/v4", before: []string{"addr add 10.1.0.9/24 dev a0"}, gid: "rxe0 10.1.0.9",
		bind: "10.1.0.9:0", dst: "10.1.0.2:7471",
		change: []string{"addr del 10.1.0.9/24 dev a0", "addr add 10.1.0.9/24 dev a0"}, undo: []string{"addr del 10.1.0.9/24 dev a0"},
		want: bothPin(accepted("rxe0@a0")), kernel: "rxe0 from 10.1.0.9, path MTU 4096",
	},
	{
		name: "address comes back/v6", before: []string{"addr add fd01::9/64 dev a0 nodad"}, gid: "rxe0 fd01::9",
		bind: "[fd01::9]:0", dst: "[fd01::2]:7471",
		change: []string{"addr del fd01::9/64 dev a0", "addr add fd01::9/64 dev a0 nodad"}, undo: []string{"addr del fd01::9/64 dev a0"},
		want: bothPin(accepted("rxe0@a0")), kernel: "rxe0 from fd01::9, path MTU 4096",
	},
	{
		// The kernel would go on: on the old rail, with an address of another.
		name: "address moves to another rail/v4", before: []string{"addr add 10.70.0.1/32 dev a0"}, gid: "rxe0 10.70.0.1",
		bind: "10.70.0.1:0", dst: "10.1.0.2:7471",
		change: []string{"addr del 10.70.0.1/32 dev a0", "addr add 10.70.0.1/32 dev b0"}, undo: []string{"addr del 10.70.0.1/32 dev b0"},
		want: bothPin(lost), kernel: "rxe0 from 10.70.0.1, path MTU 4096",
	},
	{
		name: "address moves to another rail/v6", before: []string{"addr add fd70::1/128 dev a0 nodad"}, gid: "rxe0 fd70::1",
		bind: "[fd70::1]:0", dst: "[fd01::2]:7471",
		change: []string{"addr del fd70::1/128 dev a0", "addr add fd70::1/128 dev b0 nodad"}, undo: []string{"addr del fd70::1/128 dev b0"},
		want: bothPin(lost), kernel: "rxe0 from fd70::1, path MTU 4096",
	},
	{
		name: "link goes down/v4", bind: "10.2.0.1:0", dst: "10.2.0.2:7471",
		change: []string{"link set b0 down"}, undo: []string{"link set b0 up", "addr add fd02::1/64 dev b0 nodad", "addr add fe80::2/64 dev b0 nodad"},
		want: bothPin(unreachable), kernel: noNetwork,
	},
	{
		// It loses its IPv6 addresses.
		name: "link goes down/v6", bind: "[fd02::1]:0", dst: "[fd02::2]:7471",
		change: []string{"link set b0 down"}, undo: []string{"link set b0 up", "addr add fd02::1/64 dev b0 nodad", "addr add fe80::2/64 dev b0 nodad"},
		want: bothPin(lost), kernel: noNetwork,
	},
	{
		name: "link comes back/v4", bind: "10.2.0.1:0", dst: "10.2.0.2:7471",
		change: []string{"link set b0 down", "link set b0 up", "addr add fd02::1/64 dev b0 nodad", "addr add fe80::2/64 dev b0 nodad"},
		want:   bothPin(accepted("rxe1@b0")), kernel: onB4,
	},
	{
		name: "link comes back/v6", bind: "[fd02::1]:0", dst: "[fd02::2]:7471",
		change: []string{"link set b0 down", "link set b0 up", "addr add fd02::1/64 dev b0 nodad", "addr add fe80::2/64 dev b0 nodad"},
		want:   bothPin(accepted("rxe1@b0")), kernel: onB6,
	},
	{
		name: "carrier is lost/v4", bind: "10.2.0.1:0", dst: "10.2.0.2:7471",
		peer: []string{"link set b1 down"}, undoPeer: peerUp,
		want: bothPin(outcome{}.unanswered()), kernel: noAnswer,
	},
	{
		name: "carrier is lost/v6", bind: "[fd02::1]:0", dst: "[fd02::2]:7471",
		peer: []string{"link set b1 down"}, undoPeer: peerUp,
		want: bothPin(outcome{}.unanswered()), kernel: noAnswer,
	},
	{
		name: "MTU changes/v4", bind: "10.2.0.1:0", dst: "10.2.0.2:7471",
		change: []string{"link set b0 mtu 1500"}, undo: []string{"link set b0 mtu 2200"},
		want: bothPin(accepted("rxe1@b0")), kernel: "rxe1 from 10.2.0.1, path MTU 1024",
	},
	{
		name: "rail enters a VRF/v4", bind: "10.2.0.1:0", dst: "10.2.0.2:7471",
		change: []string{"link add vrf-b type vrf table 10", "link set vrf-b up", "link set b0 master vrf-b"}, undo: vrfDown,
		want: pinned(accepted("rxe1@b0").override(), unreachable), kernel: onB4,
	},
	{
		name: "rail enters a VRF/v6", bind: "[fd02::1]:0", dst: "[fd02::2]:7471",
		change: []string{"link add vrf-b type vrf table 10", "link set vrf-b up", "link set b0 master vrf-b"}, undo: vrfDown,
		want: bothPin(lost),
	},
}

var peerUp = []string{"link set b1 up", "addr add fd02::2/64 dev b1 nodad", "addr add fe80::2:2/64 dev b1 nodad"}

func TestHostsComeAndGo(t *testing.T) {
	needTopo(t, "hosts")
	for _, c := range changes {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			m := machine{up: c.before, down: c.undo, peersDown: map[string][]string{"peer-b": c.undoPeer}}
			if c.gid != "" {
				m.gids = []string{c.gid}
			}
			m.make(t)
			ids := map[Policy]*ID{Auto: nil, PinBound: nil, RequireRoute: nil, FollowRoute: nil}
			for pol := range ids {
				cfg := IDConfig{Policy: pol, Timeouts: Timeouts{ResolveAddr: 20 * time.Second}}
				if errno := c.want[pol].errno; errno == syscall.ETIMEDOUT {
					cfg.Timeouts.ResolveAddr = 300 * time.Millisecond
				}
				ids[pol] = newTestID(t, cfg)
				require.NoError(t, ids[pol].Bind(ap(c.bind)))
			}
			slice := 3 * time.Second // a cold neighbour costs the kernel all of it
			if c.kernel == noAnswer {
				slice = 300 * time.Millisecond
			}
			kernel := alone(t, c.bind, "", c.dst, slice, func() {
				ips(t, "", c.change...)
				ips(t, "peer-b", c.peer...)
				if c.want[Auto].err == nil {
					device, _, _ := strings.Cut(c.want[Auto].on[0], "@")
					awaitGID(t, device, ap(c.bind).Addr())
				}
			})
			for pol, id := range ids {
				calls := resolveCalls.Load()
				err := id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.dst))
				c.want[pol].check(t, id, err, resolveCalls.Load()-calls)
			}
			if kernel == noAnswer && c.kernel != noAnswer {
				kernel = alone(t, c.bind, "", c.dst, slice) // the neighbour is warm now
			}
			if c.kernel != "" {
				require.Equal(t, c.kernel, kernel)
			}
		})
	}
}
