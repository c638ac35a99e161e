package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
)

// In the topology `rails` this is host 1; host 2 runs rb-rping -s -P on port
// 7174 and rping -s -P on port 7175.
const oursPort, theirsPort = 7174, 7175

var rails = []struct{ local, peer, device, netdev string }{
	{"10.10.0.1", "10.10.0.2", "rxe0", "rail0"},
	{"10.10.1.1", "10.10.1.2", "rxe1", "rail1"},
	{"fd10:0::1", "fd10:0::2", "rxe0", "rail0"},
	{"fd10:1::1", "fd10:1::2", "rxe1", "rail1"},
}

func TestRailsBothWays(t *testing.T) {
	guest.NeedTopo(t, "rails")
	for _, r := range rails {
		t.Run(r.peer, func(t *testing.T) {
			for _, port := range []int{oursPort, theirsPort} {
				overOnly(t, r.device, func() {
					cl := guest.Ours(t, fmt.Sprintf("-c -json -C 20 -S 5000 -I %s -a %s -p %d", r.local, r.peer, port))
					cl.WantStatus(peer.OK)
					got := guest.Result[result](t, cl)
					require.Equal(t, 20, got.Rounds)
					require.Equal(t, r.device, got.Device)
					require.Equal(t, r.netdev, got.Netdev)
					require.False(t, got.Overridden)
				})
			}
			cl := guest.Theirs(t, "rping", fmt.Sprintf("-c -v -V -C 5 -S 5000 -I %s -a %s -p %d", r.local, r.peer, oursPort))
			cl.WantStatus(0)
			require.Equal(t, pingLines("ping data: ", 5, 5000), cl.Out.String())
		})
	}
}

// A name of a device, without any address of this host.
func TestRailsDevice(t *testing.T) {
	guest.NeedTopo(t, "rails")
	cl := guest.Ours(t, fmt.Sprintf("-c -json -C 1 -device rxe1 -a 10.10.1.2 -p %d", oursPort))
	cl.WantStatus(peer.OK)
	require.True(t, strings.HasPrefix(guest.Result[result](t, cl).Local, "10.10.1.1:"))
}

// Scenario 16: a host route sends rail 1's peer through rail 0.
func TestRailsOverride(t *testing.T) {
	guest.NeedTopo(t, "rails")
	ip := func(args string) {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		require.NoError(t, err, "ip %s: %s", args, out)
	}
	ip("route add 10.10.1.2/32 via 10.10.0.2 dev rail0")
	t.Cleanup(func() { ip("route del 10.10.1.2/32") })
	const to = "-c -json -a 10.10.1.2 -C 50 "

	t.Run("unbound", func(t *testing.T) {
		overOnly(t, "rxe0", func() {
			cl := guest.Ours(t, to+"-timeout 2s")
			cl.WantStatus(peer.Failed)
			r := guest.Result[result](t, cl)
			require.Equal(t, "rxe0", r.Device)
			require.Equal(t, "ETIMEDOUT", r.Errno)
			require.False(t, r.Connected)
		})
	})
	for _, args := range []string{"-I 10.10.1.1", "-I 10.10.1.1 -policy pin", "-device rail1"} {
		for _, port := range []int{oursPort, theirsPort} {
			t.Run(fmt.Sprintf("%s, port %d", args, port), func(t *testing.T) {
				overOnly(t, "rxe1", func() {
					cl := guest.Ours(t, fmt.Sprintf("%s %s -p %d", to, args, port))
					cl.WantStatus(peer.OK)
					r := guest.Result[result](t, cl)
					require.Equal(t, "rxe1", r.Device)
					require.Equal(t, "rail1", r.Netdev)
					require.Equal(t, 50, r.Rounds)
					require.True(t, r.Overridden)
				})
			})
		}
	}
	t.Run("route required", func(t *testing.T) {
		overOnly(t, "", func() {
			cl := guest.Ours(t, to+"-I 10.10.1.1 -policy route")
			cl.WantStatus(peer.Refused)
			r := guest.Result[result](t, cl)
			require.Equal(t, "ErrRouteMismatch", r.Error)
			require.Equal(t, "EHOSTUNREACH", r.Errno)
		})
	})
}

// packets counts what each device has sent and received.
func packets(t *testing.T) map[string]int {
	t.Helper()
	m := map[string]int{}
	for _, device := range []string{"rxe0", "rxe1"} {
		for _, counter := range []string{"sent_pkts", "rcvd_pkts"} {
			raw, err := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + counter)
			require.NoError(t, err)
			n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			require.NoError(t, err)
			m[device] += n
		}
	}
	return m
}

// overOnly wants what is done to send over one device only, or over none. An earlier
// connection can still be ending on the other one, so it is done up to three times.
func overOnly(t *testing.T, device string, do func()) {
	t.Helper()
	other := 0
	for range 3 {
		before := packets(t)
		do()
		other = 0
		for d, n := range packets(t) {
			if d == device {
				require.Greater(t, n, before[d], "no packet on %s", d)
			} else {
				other += n - before[d]
			}
		}
		if other == 0 {
			return
		}
	}
	require.Zero(t, other, "packets on the other device, three times")
}
