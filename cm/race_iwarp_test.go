//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// tcpThereAndBack is iWARP's part of TestPairRouteThereAndBack: the resolved path
// binds nothing there, the route is looked up when TCP connects, for both
// families. The peer is an address that both rails' peers have, and that nobody
// listens on: which of them resets the connection shows where it went. (No other test
// has it for one that nobody has: its neighbour stays known.)
func tcpThereAndBack(t *testing.T) {
	for _, s := range []struct {
		side
		back string
	}{
		{side{local: "10.1.0.1", peer: "10.1.0.88", gateway: "10.2.0.2"}, "10.2.0.1"},
		{side{local: "fd01::1", peer: "fd01::88", gateway: "fd02::2"}, "fd02::1"},
	} {
		back := fmt.Sprintf("-n peer-b route add %s via %s", s.local, s.back)
		ip(t, back, strings.Replace(back, "add", "del", 1))
		both := host32(s.peer).String()
		for _, peer := range []string{"a", "b"} {
			ip(t, "-n peer-"+peer+" address add "+both+" dev "+peer+"1 nodad", "-n peer-"+peer+" address del "+both+" dev "+peer+"1")
		}
		route := &netlink.Route{Dst: host32(s.peer), LinkIndex: index("b0"), Gw: net.ParseIP(s.gateway)}
		stays := netChange{name: "stays",
			do:   func(side) error { return netlink.RouteAdd(route) },
			undo: func(side) error { return netlink.RouteDel(route) }}
		gone := netChange{name: "there and back",
			do:   func(side) error { return errors.Join(netlink.RouteAdd(route), netlink.RouteDel(route)) },
			undo: func(side) error { return nil }}
		for _, c := range []struct {
			step   string
			change netChange
			err    error
			on     string // where the kernel's TCP went, "" where it was not asked
		}{
			{"before connect", stays, ErrRouteMismatch, ""},
			{"path checked", stays, ErrConnRefused, "b0"}, // the kernel alone: a split
			{"path checked", gone, ErrConnRefused, "a0"},
			{"address resolved", gone, ErrChanged, ""}, // too early to matter; not told apart
			{"before the route", gone, ErrConnRefused, "a0"},
		} {
			t.Run(s.peer+"/"+c.step+"/"+c.change.name, func(t *testing.T) {
				ch := &changer{step: c.step, c: c.change, s: s.side}
				local := netip.AddrPortFrom(netip.MustParseAddr(s.local), 0)
				d := Dialer{LocalAddr: local, stepHook: ch.at}
				before := tcpResets(t)
				_, err := d.dialOnce(within(t, time.Minute), netip.AddrPortFrom(netip.MustParseAddr(s.peer), 7471))
				after := tcpResets(t)
				ch.undo()
				require.NoError(t, ch.err)
				require.ErrorIs(t, err, c.err)
				if c.step == "path checked" { // what changed is told beside the kernel's error
					require.ErrorContains(t, err, "meanwhile: route "+both+" via "+s.gateway+" dev b0")
				}
				t.Log(err)
				for _, rail := range []string{"a0", "b0"} {
					require.Equal(t, rail == c.on, after[rail] > before[rail], "TCP on %s: before %v, after %v", rail, before, after)
				}
			})
		}
	}
}

// tcpResets counts the connections that each rail's peer has reset.
func tcpResets(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, peer := range []string{"a", "b"} {
		inNetns(t, "peer-"+peer, func() {
			text, err := os.ReadFile("/proc/thread-self/net/snmp")
			require.NoError(t, err)
			var lines [][]string
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); f[0] == "Tcp:" {
					lines = append(lines, f)
				}
			}
			require.Len(t, lines, 2, "names and values")
			out[peer+"0"], err = strconv.Atoi(lines[1][slices.Index(lines[0], "OutRsts")])
			require.NoError(t, err)
		})
	}
	return out
}
