//go:build linux

package cm

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Other hosts than the plain one of `pair`, each made out of it by ip commands
// in the topology `hosts`: what the rule promises there under every policy, and
// what the kernel does alone.

// machine is a host, and the calls tried on it.
type machine struct {
	name      string
	up, down  []string            // ip commands; -6 in front where no address tells the family
	peers     map[string][]string // commands in a peer's namespace
	peersDown map[string][]string
	gids      []string // "rxe1 fd02::1": waited for
	scenarios []scenario
	loop      []string // addresses over which data goes inside this host: "10.100.0.1 rxe0@a0.100"
}

func TestHosts(t *testing.T) {
	needTopo(t, "hosts")
	for _, m := range machines {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			m.make(t)
			for _, sc := range m.scenarios {
				t.Run(strings.ReplaceAll(sc.name, " ", "_"), sc.run)
			}
			for _, l := range m.loop {
				t.Run("data over "+l, func(t *testing.T) {
					addr, place, _ := strings.Cut(l, " ")
					loopData(t, addr, place)
				})
			}
		})
	}
}

// make makes the host, and at the end the plain one of it again.
func (m machine) make(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for ns, commands := range m.peersDown {
			ips(t, ns, commands...)
		}
		ips(t, "", m.down...)
		for _, gid := range []string{"rxe0 fd01::1", "rxe1 fd02::1"} {
			awaitRow(t, gid)
		}
	})
	ips(t, "", m.up...)
	for ns, commands := range m.peers {
		ips(t, ns, commands...)
	}
	for _, gid := range m.gids {
		awaitRow(t, gid)
	}
}

func awaitRow(t *testing.T, row string) {
	t.Helper()
	device, addr, _ := strings.Cut(row, " ")
	awaitGID(t, device, netip.MustParseAddr(addr))
}

// loopData sends a message from an address to itself.
func loopData(t *testing.T, addr, place string) {
	t.Helper()
	local := netip.AddrPortFrom(netip.MustParseAddr(addr), 0)
	client, server := pairUp(t, local.String(), Dialer{LocalAddr: local}, AcceptConfig{})
	for _, c := range []*Conn{client, server} {
		require.Equal(t, place, c.Binding().Device+"@"+c.Binding().Netdev)
	}
	ctx := within(t, time.Minute)
	require.NoError(t, client.Send(ctx, []byte("over "+place)))
	buf := make([]byte, 64)
	n, err := server.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, "over "+place, string(buf[:n]))
}

// ips runs ip commands in the network namespace ns ("": this one), in as few
// processes as possible: each costs a tenth of a second under emulation.
func ips(t *testing.T, ns string, commands ...string) {
	t.Helper()
	for i := 0; i < len(commands); {
		var args []string
		if ns != "" {
			args = append(args, "-n", ns)
		}
		six := strings.HasPrefix(commands[i], "-6 ")
		if six {
			args = append(args, "-6")
		}
		var lines strings.Builder
		for ; i < len(commands) && strings.HasPrefix(commands[i], "-6 ") == six; i++ {
			lines.WriteString(strings.TrimPrefix(commands[i], "-6 ") + "\n")
		}
		cmd := exec.Command("ip", append(args, "-batch", "-")...)
		cmd.Stdin = strings.NewReader(lines.String())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s%s", lines.String(), out)
	}
}

var (
	vrfUp = []string{
		"link add vrf-b type vrf table 10", "link set vrf-b up", "link set b0 master vrf-b",
		// Entering and leaving a VRF drops the IPv6 addresses.
		"addr add fd02::1/64 dev b0 nodad", "addr add fe80::2/64 dev b0 nodad",
	}
	vrfDown   = []string{"link del vrf-b", "addr add fd02::1/64 dev b0 nodad", "addr add fe80::2/64 dev b0 nodad"}
	vrfPeers  = bothFamilies("own peer", "10.2.0.1:0", "10.2.0.2:7471", "[fd02::1]:0", "[fd02::2]:7471", pinned(accepted("rxe1@b0").override(), unreachable), onB4, onB6)
	ambiguous = refused(ErrAmbiguousDevice, syscall.ENOTUNIQ)
	noRoute   = refused(ErrNoRoute, syscall.ENETUNREACH)
	noRDMA19  = refused(ErrNotRDMA, syscall.ENODEV)
)

// bothFamilies is one call in IPv4 and in IPv6, with one outcome.
func bothFamilies(name, bind4, dst4, bind6, dst6 string, want map[Policy]outcome, kernel4, kernel6 string) []scenario {
	return []scenario{
		{name: name + "/v4", bind: bind4, dst: dst4, want: want, kernel: kernel4},
		{name: name + "/v6", bind: bind6, dst: dst6, want: want, kernel: kernel6},
	}
}

// forced is a call that no route through the bound rail stands behind: the
// kernel forces the rail for IPv4 only.
func forced(name, bind4, dst4, bind6, dst6, kernel4, kernel6 string) []scenario {
	return []scenario{
		{name: name + "/v4", bind: bind4, dst: dst4, want: pinned(silent, unreachable), kernel: kernel4},
		{name: name + "/v6", bind: bind6, dst: dst6, want: bothPin(unreachable), kernel: kernel6},
	}
}

func join(lists ...[]scenario) (out []scenario) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

var machines = []machine{
	{
		name: "15 VRF",
		up:   append(vrfUp[:len(vrfUp):len(vrfUp)], "addr add 10.44.0.1/32 dev vrf-b"), down: vrfDown,
		gids: []string{"rxe1 fd02::1", "rxe1 10.44.0.1"},
		scenarios: join(
			vrfPeers,
			[]scenario{
				{name: "peer outside/v4", bind: "10.2.0.1:0", dst: "10.1.0.2:7471", want: bothPin(unreachable), kernel: noNetwork},
				// IPv6 leaks to the main table.
				{name: "peer outside/v6", bind: "[fd02::1]:0", dst: "[fd01::2]:7471", want: bothPin(unreachable), kernel: "rxe1 from fd02::1, path MTU 4096"},
				{name: "from outside/v4", bind: "10.1.0.1:0", dst: "10.2.0.2:7471", want: pinned(silent, unreachable), kernel: noAnswer},
				{name: "from outside/v6", bind: "[fd01::1]:0", dst: "[fd02::2]:7471", want: bothPin(unreachable), kernel: noNetwork},
			},
			bothFamilies("idle", "", "10.2.0.2:7471", "", "[fd02::2]:7471", idle(noRoute), noNetwork, noNetwork),
			bothFamilies("idle, own address", "", "10.2.0.1:7471", "", "[fd02::1]:7471", idle(noRoute), noNetwork, noNetwork),
			[]scenario{
				{name: "the VRF's own address", bind: "10.44.0.1:0", dst: "10.44.0.1:7471",
					want: pinned(accepted("rxe1@vrf-b").override(), unreachable), kernel: "rxe1 from 10.44.0.1, path MTU 4096"},
				{name: "the VRF's own address, a rail's peer", bind: "10.44.0.1:0", dst: "10.2.0.2:7471",
					want: bothPin(unreachable), kernel: "rxe1 from 10.44.0.1, path MTU 2048"},
			},
		),
		loop: []string{"10.44.0.1 rxe1@vrf-b"},
	},
	{
		name: "15 VRF with an unreachable default",
		up: append(vrfUp[:len(vrfUp):len(vrfUp)],
			"route add unreachable default table 10 metric 4278198272", "-6 route add unreachable default table 10 metric 4278198272"),
		down: append([]string{"route del unreachable default table 10 metric 4278198272", "-6 route del unreachable default table 10 metric 4278198272"}, vrfDown...),
		gids: []string{"rxe1 fd02::1"},
		scenarios: join(
			vrfPeers,
			bothFamilies("peer outside", "10.2.0.1:0", "10.1.0.2:7471", "[fd02::1]:0", "[fd01::2]:7471", bothPin(unreachable), "address: EHOSTUNREACH", "address: EHOSTUNREACH"),
			// It does not keep IPv6 from the addresses of the host itself.
			bothFamilies("address outside", "10.2.0.1:0", "10.1.0.1:7471", "[fd02::1]:0", "[fd01::1]:7471", bothPin(unreachable), "address: EHOSTUNREACH", "rxe1 from fd02::1, path MTU 2048"),
		),
	},
	{
		name: "VLAN",
		up: []string{
			"link add link a0 name a0.100 mtu 3000 type vlan id 100", "link set a0.100 up",
			"addr add 10.100.0.1/24 dev a0.100", "addr add fd64::1/64 dev a0.100 nodad",
		},
		down: []string{"link del a0.100"},
		peers: map[string][]string{"peer-a": {
			"link add link a1 name a1.100 mtu 3000 type vlan id 100", "link set a1.100 up",
			"addr add 10.100.0.2/24 dev a1.100", "addr add fd64::2/64 dev a1.100 nodad",
		}},
		peersDown: map[string][]string{"peer-a": {"link del a1.100"}},
		gids:      []string{"rxe0 10.100.0.1", "rxe0 fd64::1"},
		scenarios: join(
			// The device below has the VLAN's addresses.
			bothFamilies("own peer", "10.100.0.1:0", "10.100.0.2:7471", "[fd64::1]:0", "[fd64::2]:7471", bothPin(accepted("rxe0@a0.100")),
				"rxe0 from 10.100.0.1, path MTU 2048", "rxe0 from fd64::1, path MTU 2048"),
			bothFamilies("idle", "", "10.100.0.2:7471", "", "[fd64::2]:7471", idle(accepted("rxe0@a0.100")),
				"rxe0 from 10.100.0.1, path MTU 2048", "rxe0 from fd64::1, path MTU 2048"),
			// One device, and yet a split: untagged address, tagged path.
			forced("from the link below", "10.1.0.1:0", "10.100.0.2:7471", "[fd01::1]:0", "[fd64::2]:7471", noAnswer, splitAB),
			forced("to the link below", "10.100.0.1:0", "10.1.0.2:7471", "[fd64::1]:0", "[fd01::2]:7471", noAnswer, "rxe0 from fd64::1, path MTU 4096"),
			bothFamilies("address of the link below", "10.100.0.1:0", "10.1.0.1:7471", "[fd64::1]:0", "[fd01::1]:7471", bothPin(unreachable), noAnswer, "rxe0 from fd64::1, path MTU 2048"),
		),
		loop: []string{"10.100.0.1 rxe0@a0.100", "fd64::1 rxe0@a0.100"},
	},
	{
		name: "macvlan on a rail",
		up: []string{
			"link add link b0 name mv9 mtu 1500 type macvlan mode bridge", "link set mv9 up",
			"addr add 10.8.0.1/24 dev mv9", "addr add fd08::1/64 dev mv9 nodad",
		},
		down:      []string{"link del mv9"},
		peers:     map[string][]string{"peer-b": {"addr add 10.8.0.2/24 dev b1", "addr add fd08::2/64 dev b1 nodad"}},
		peersDown: map[string][]string{"peer-b": {"addr del 10.8.0.2/24 dev b1", "addr del fd08::2/64 dev b1"}},
		gids:      []string{"rxe1 10.8.0.1", "rxe1 fd08::1"},
		scenarios: join(
			bothFamilies("own peer", "10.8.0.1:0", "10.8.0.2:7471", "[fd08::1]:0", "[fd08::2]:7471", bothPin(accepted("rxe1@mv9")),
				"rxe1 from 10.8.0.1, path MTU 1024", "rxe1 from fd08::1, path MTU 1024"),
			bothFamilies("idle", "", "10.8.0.2:7471", "", "[fd08::2]:7471", idle(accepted("rxe1@mv9")),
				"rxe1 from 10.8.0.1, path MTU 1024", "rxe1 from fd08::1, path MTU 1024"),
			// The same wire, so even the kernel's guess finds the peer.
			[]scenario{
				{name: "peer of the link below/v4", bind: "10.8.0.1:0", dst: "10.2.0.2:7471",
					want:   pinned(outcome{on: []string{"rxe1@mv9"}, overridden: true, assumed: true}, unreachable),
					kernel: "rxe1 from 10.8.0.1, path MTU 1024"},
				{name: "peer of the link below/v6", bind: "[fd08::1]:0", dst: "[fd02::2]:7471", want: bothPin(unreachable), kernel: "rxe1 from fd08::1, path MTU 2048"},
			},
		),
		loop: []string{"10.8.0.1 rxe1@mv9", "fd08::1 rxe1@mv9"},
	},
	{
		name: "macvlan with a device of its own",
		scenarios: join(
			bothFamilies("own peer", "10.6.0.1:0", "10.6.0.2:7471", "[fd06::1]:0", "[fd06::2]:7471", bothPin(accepted("rxe2@mv0")),
				"rxe2 from 10.6.0.1, path MTU 1024", "rxe2 from fd06::1, path MTU 1024"),
			bothFamilies("idle", "", "10.6.0.2:7471", "", "[fd06::2]:7471", idle(accepted("rxe2@mv0")),
				"rxe2 from 10.6.0.1, path MTU 1024", "rxe2 from fd06::1, path MTU 1024"),
		),
		loop: []string{"10.6.0.1 rxe2@mv0", "fd06::1 rxe2@mv0"},
	},
	{
		// The device below has its addresses too.
		name: "macvlan and the rail below with a device each",
		scenarios: []scenario{
			{name: "bind/v4", bind: "10.7.0.1:0", bindErr: ErrAmbiguousDevice},
			{name: "bind/v6", bind: "[fd07::1]:0", bindErr: ErrAmbiguousDevice},
			{name: "source/v4", src: "10.7.0.1:0", dst: "10.7.0.2:7471", want: sourced(ambiguous)},
			{name: "idle/v4", dst: "10.7.0.2:7471", want: idle(ambiguous)},
			{name: "idle/v6", dst: "[fd07::2]:7471", want: idle(ambiguous)},
		},
	},
	{
		name: "bridge with one rail",
		up: []string{
			"link add br0 mtu 2200 type bridge", "link set br0 up", "link set b0 master br0", "link set c0 master br0",
			"addr add 10.4.0.1/24 dev br0", "addr add fd04::1/64 dev br0 nodad",
		},
		down:      []string{"link del br0"},
		peers:     map[string][]string{"peer-b": {"addr add 10.4.0.2/24 dev b1", "addr add fd04::2/64 dev b1 nodad"}},
		peersDown: map[string][]string{"peer-b": {"addr del 10.4.0.2/24 dev b1", "addr del fd04::2/64 dev b1"}},
		gids:      []string{"rxe1 10.4.0.1", "rxe1 fd04::1"},
		scenarios: join(
			bothFamilies("own peer", "10.4.0.1:0", "10.4.0.2:7471", "[fd04::1]:0", "[fd04::2]:7471", bothPin(accepted("rxe1@br0")),
				"rxe1 from 10.4.0.1, path MTU 1024", "rxe1 from fd04::1, path MTU 1024"),
			bothFamilies("idle", "", "10.4.0.2:7471", "", "[fd04::2]:7471", idle(accepted("rxe1@br0")),
				"rxe1 from 10.4.0.1, path MTU 1024", "rxe1 from fd04::1, path MTU 1024"),
		),
		loop: []string{"10.4.0.1 rxe1@br0", "fd04::1 rxe1@br0"},
	},
	{
		name: "17 bridge with two rails",
		up: []string{
			"link add br0 mtu 2200 type bridge", "link set br0 up", "link set b0 master br0", "link set a0 master br0",
			"addr add 10.4.0.1/24 dev br0", "addr add fd04::1/64 dev br0 nodad",
		},
		down:      []string{"link del br0"},
		peers:     map[string][]string{"peer-b": {"addr add 10.4.0.2/24 dev b1", "addr add fd04::2/64 dev b1 nodad"}},
		peersDown: map[string][]string{"peer-b": {"addr del 10.4.0.2/24 dev b1", "addr del fd04::2/64 dev b1"}},
		gids:      []string{"rxe1 10.4.0.1", "rxe1 fd04::1", "rxe0 10.4.0.1", "rxe0 fd04::1"},
		scenarios: []scenario{
			// The peer is on rxe1's rail, the kernel takes the device registered first.
			{name: "bind/v4", bind: "10.4.0.1:0", bindErr: ErrAmbiguousDevice, dst: "10.4.0.2:7471", kernel: "rxe0 from 10.4.0.1, path MTU 2048"},
			{name: "bind/v6", bind: "[fd04::1]:0", bindErr: ErrAmbiguousDevice, dst: "[fd04::2]:7471", kernel: "rxe0 from fd04::1, path MTU 2048"},
			{name: "source/v4", src: "10.4.0.1:0", dst: "10.4.0.2:7471", want: sourced(ambiguous)},
			{name: "source/v6", src: "[fd04::1]:0", dst: "[fd04::2]:7471", want: sourced(ambiguous)},
			{name: "idle/v4", dst: "10.4.0.2:7471", want: idle(ambiguous), kernel: "rxe0 from 10.4.0.1, path MTU 2048"},
			{name: "idle/v6", dst: "[fd04::2]:7471", want: idle(ambiguous), kernel: "rxe0 from fd04::1, path MTU 2048"},
		},
	},
	{
		name: "one subnet on two rails",
		up: []string{
			"addr add 10.9.0.1/24 dev a0", "addr add fd09::1/64 dev a0 nodad",
			"addr add 10.9.0.2/24 dev b0", "addr add fd09::2/64 dev b0 nodad",
		},
		down: []string{
			"addr del 10.9.0.1/24 dev a0", "addr del fd09::1/64 dev a0",
			"addr del 10.9.0.2/24 dev b0", "addr del fd09::2/64 dev b0",
		},
		peers: map[string][]string{
			"peer-a": {"addr add 10.9.0.11/24 dev a1", "addr add fd09::11/64 dev a1 nodad"},
			"peer-b": {"addr add 10.9.0.12/24 dev b1", "addr add fd09::12/64 dev b1 nodad"},
		},
		peersDown: map[string][]string{
			"peer-a": {"addr del 10.9.0.11/24 dev a1", "addr del fd09::11/64 dev a1"},
			"peer-b": {"addr del 10.9.0.12/24 dev b1", "addr del fd09::12/64 dev b1"},
		},
		gids: []string{"rxe0 10.9.0.1", "rxe0 fd09::1", "rxe1 10.9.0.2", "rxe1 fd09::2"},
		scenarios: join(
			bothFamilies("the rail that the route prefers", "10.9.0.1:0", "10.9.0.11:7471", "[fd09::1]:0", "[fd09::11]:7471", bothPin(accepted("rxe0@a0")),
				"rxe0 from 10.9.0.1, path MTU 4096", "rxe0 from fd09::1, path MTU 4096"),
			bothFamilies("the other rail", "10.9.0.2:0", "10.9.0.12:7471", "[fd09::2]:0", "[fd09::12]:7471", pinned(accepted("rxe1@b0").override(), unreachable),
				"rxe1 from 10.9.0.2, path MTU 2048", "rxe1 from fd09::2, path MTU 2048"),
			bothFamilies("idle", "", "10.9.0.11:7471", "", "[fd09::11]:7471", idle(accepted("rxe0@a0")),
				"rxe0 from 10.9.0.1, path MTU 4096", "rxe0 from fd09::1, path MTU 4096"),
			// The route cannot know on which rail the peer is.
			bothFamilies("idle, peer on the other rail", "", "10.9.0.12:7471", "", "[fd09::12]:7471", idle(outcome{}.unanswered()), noAnswer, noAnswer),
			bothFamilies("address of the other rail", "10.9.0.1:0", "10.9.0.2:7471", "[fd09::1]:0", "[fd09::2]:7471", bothPin(unreachable), noAnswer, "rxe0 from fd09::1, path MTU 4096"),
		),
		loop: []string{"10.9.0.1 rxe0@a0", "10.9.0.2 rxe1@b0", "fd09::1 rxe0@a0", "fd09::2 rxe1@b0"},
	},
	{
		name: "rules by source that agree",
		up: []string{
			"rule add from 10.1.0.1 lookup 100", "route add 10.2.0.2/32 via 10.1.0.2 dev a0 table 100",
			"-6 rule add from fd01::1 lookup 100", "-6 route add fd02::2/128 via fd01::2 dev a0 table 100",
		},
		down: []string{
			"rule del from 10.1.0.1 lookup 100", "route flush table 100",
			"-6 rule del from fd01::1 lookup 100", "-6 route flush table 100",
		},
		scenarios: join(
			bothFamilies("another rail's peer by gateway", "10.1.0.1:0", "10.2.0.2:7471", "[fd01::1]:0", "[fd02::2]:7471", bothPin(accepted("rxe0@a0")), onA4, onA6),
			bothFamilies("idle: no source, no rule", "", "10.2.0.2:7471", "", "[fd02::2]:7471", idle(accepted("rxe1@b0")), onB4, onB6),
		),
	},
	{
		name: "rules by source that contradict",
		up: []string{
			"rule add from 10.2.0.1 lookup 101", "route add 10.2.0.2/32 via 10.1.0.2 dev a0 table 101",
			"-6 rule add from fd02::1 lookup 101", "-6 route add fd02::2/128 via fd01::2 dev a0 table 101",
		},
		down: []string{
			"rule del from 10.2.0.1 lookup 101", "route flush table 101",
			"-6 rule del from fd02::1 lookup 101", "-6 route flush table 101",
		},
		scenarios: []scenario{
			// The bound rail filters IPv4's tables; IPv6 stops at the first.
			{name: "own peer/v4", bind: "10.2.0.1:0", dst: "10.2.0.2:7471", want: pinned(accepted("rxe1@b0").override(), unreachable), kernel: onB4},
			{name: "own peer/v6", bind: "[fd02::1]:0", dst: "[fd02::2]:7471", want: bothPin(unreachable), kernel: "rxe1 from fd02::1, path MTU 4096"},
		},
	},
	{
		name: "an address on a rail, then on a netdev without RDMA",
		up:   []string{"addr add 10.70.0.1/32 dev a0", "addr add 10.70.0.1/32 dev c0", "addr add fd70::1/128 dev a0 nodad", "addr add fd70::1/128 dev c0 nodad"},
		down: []string{"addr del 10.70.0.1/32 dev a0", "addr del 10.70.0.1/32 dev c0", "addr del fd70::1/128 dev a0", "addr del fd70::1/128 dev c0"},
		gids: []string{"rxe0 10.70.0.1", "rxe0 fd70::1"},
		scenarios: []scenario{
			// IPv4 finds the netdev that got the address last, IPv6 the oldest netdev.
			{name: "bind/v4", bind: "10.70.0.1:0", bindErr: ErrAmbiguousDevice, kernel: "bind: ENODEV"},
			{name: "bind/v6", bind: "[fd70::1]:0", dst: "[fd01::2]:7471", want: bothPin(accepted("rxe0@a0")), kernel: "rxe0 from fd70::1, path MTU 4096"},
			{name: "source/v4", src: "10.70.0.1:0", dst: "10.1.0.2:7471", want: sourced(ambiguous)},
			{name: "source/v6", src: "[fd70::1]:0", dst: "[fd01::2]:7471", want: sourced(ambiguous)},
			{name: "idle/v4", dst: "10.70.0.1:7471", want: idle(ambiguous), kernel: "address: ENODEV"},
			{name: "idle/v6", dst: "[fd70::1]:7471", want: idle(ambiguous), kernel: "rxe0 from fd70::1, path MTU 4096"},
			{name: "as destination/v4", bind: "10.1.0.1:0", dst: "10.70.0.1:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA4},
			{name: "as destination/v6", bind: "[fd01::1]:0", dst: "[fd70::1]:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA6},
		},
	},
	{
		name: "an address on a netdev without RDMA, then on a rail",
		up:   []string{"addr add 10.70.0.1/32 dev c0", "addr add 10.70.0.1/32 dev a0"},
		down: []string{"addr del 10.70.0.1/32 dev c0", "addr del 10.70.0.1/32 dev a0"},
		gids: []string{"rxe0 10.70.0.1"},
		scenarios: []scenario{
			{name: "bind/v4", bind: "10.70.0.1:0", dst: "10.1.0.2:7471", want: bothPin(accepted("rxe0@a0")), kernel: "rxe0 from 10.70.0.1, path MTU 4096"},
		},
	},
	{
		name: "an address on two rails",
		up:   []string{"addr add 10.70.0.1/32 dev a0", "addr add 10.70.0.1/32 dev b0", "addr add fd70::1/128 dev a0 nodad", "addr add fd70::1/128 dev b0 nodad"},
		down: []string{"addr del 10.70.0.1/32 dev a0", "addr del 10.70.0.1/32 dev b0", "addr del fd70::1/128 dev a0", "addr del fd70::1/128 dev b0"},
		gids: []string{"rxe0 10.70.0.1", "rxe1 10.70.0.1", "rxe0 fd70::1", "rxe1 fd70::1"},
		scenarios: []scenario{
			{name: "bind/v4", bind: "10.70.0.1:0", bindErr: ErrAmbiguousDevice, dst: "10.1.0.2:7471", kernel: noAnswer},
			{name: "bind/v6", bind: "[fd70::1]:0", bindErr: ErrAmbiguousDevice, dst: "[fd01::2]:7471", kernel: "rxe0 from fd70::1, path MTU 4096"},
			{name: "idle/v4", dst: "10.70.0.1:7471", want: idle(ambiguous), kernel: "rxe1 from 10.70.0.1, path MTU 2048"},
			{name: "idle/v6", dst: "[fd70::1]:7471", want: idle(ambiguous), kernel: "rxe0 from fd70::1, path MTU 4096"},
			{name: "as destination/v4", bind: "10.1.0.1:0", dst: "10.70.0.1:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA4},
			{name: "as destination/v6", bind: "[fd01::1]:0", dst: "[fd70::1]:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA6},
		},
	},
	multipath("two next hops",
		[]string{
			"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0",
			"-6 route add fd60::/64 nexthop via fd01::2 dev a0 nexthop via fd02::2 dev b0",
		}, []string{"route del 10.60.0.0/24", "-6 route del fd60::/64"}),
	multipath("nexthop objects",
		[]string{
			"nexthop add id 1 via 10.1.0.2 dev a0", "nexthop add id 2 via 10.2.0.2 dev b0", "nexthop add id 3 group 1/2", "route add 10.60.0.0/24 nhid 3",
			"nexthop add id 11 via fd01::2 dev a0", "nexthop add id 12 via fd02::2 dev b0", "nexthop add id 13 group 11/12", "-6 route add fd60::/64 nhid 13",
		}, []string{"nexthop flush"}),
	{
		name: "single nexthop objects",
		up: []string{
			"nexthop add id 1 via 10.1.0.2 dev a0", "route add 10.60.0.0/24 nhid 1",
			"nexthop add id 2 blackhole", "route add 10.61.0.0/24 nhid 2",
			"nexthop add id 3 via fd01::2 dev a0", "route add 10.62.0.0/24 nhid 3", "-6 route add fd60::/64 nhid 3",
			"-6 nexthop add id 4 blackhole", "-6 route add fd61::/64 nhid 4",
		},
		down: []string{"nexthop flush"},
		scenarios: join(
			bothFamilies("through the bound rail", "10.1.0.1:0", "10.60.0.2:7471", "[fd01::1]:0", "[fd60::2]:7471", bothPin(accepted("rxe0@a0")), onA4, onA6),
			forced("through another rail", "10.2.0.1:0", "10.60.0.2:7471", "[fd02::1]:0", "[fd60::2]:7471", noAnswer, "rxe1 from fd02::1, path MTU 4096"),
			bothFamilies("idle", "", "10.60.0.2:7471", "", "[fd60::2]:7471", idle(accepted("rxe0@a0")), onA4, onA6),
			forced("blackhole", "10.1.0.1:0", "10.61.0.2:7471", "[fd01::1]:0", "[fd61::2]:7471", noAnswer, "address: EINVAL"),
			[]scenario{{name: "IPv4 through an IPv6 gateway", bind: "10.1.0.1:0", dst: "10.62.0.2:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA4}},
		),
	},
	{
		name: "bond",
		scenarios: join(
			bothFamilies("own peer", "10.5.0.1:0", "10.5.0.2:7471", "[fd05::1]:0", "[fd05::2]:7471", bothPin(accepted("rxe4@bond0")),
				"rxe4 from 10.5.0.1, path MTU 1024", "rxe4 from fd05::1, path MTU 1024"),
			bothFamilies("idle", "", "10.5.0.2:7471", "", "[fd05::2]:7471", idle(accepted("rxe4@bond0")),
				"rxe4 from 10.5.0.1, path MTU 1024", "rxe4 from fd05::1, path MTU 1024"),
		),
		loop: []string{"10.5.0.1 rxe4@bond0", "fd05::1 rxe4@bond0"},
	},
}

// multipath is a host with routes to 10.60.0.0/24 and fd60::/64 through a0 and b0.
func multipath(name string, up, down []string) machine {
	return machine{
		name: name, up: up, down: down,
		scenarios: []scenario{
			{name: "bound a/v4", bind: "10.1.0.1:0", dst: "10.60.0.2:7471", want: pinned(accepted("rxe0@a0").override(), unreachable), kernel: onA4},
			{name: "bound b/v4", bind: "10.2.0.1:0", dst: "10.60.0.2:7471", want: pinned(accepted("rxe1@b0").override(), unreachable), kernel: onB4},
			{name: "idle/v4", dst: "10.60.0.2:7471", want: idle(accepted("rxe0@a0", "rxe1@b0"))},
		},
	}
}

// Which next hop an unbound connection takes is the hash's choice: one of the
// predicted, and nothing is refused that would have worked.
func TestHostsMultipathChoice(t *testing.T) {
	needTopo(t, "hosts")
	for _, m := range []machine{
		multipath("next hops with and without RDMA", []string{
			"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.3.0.2 dev c0",
			"-6 route add fd60::/64 nexthop via fd01::2 dev a0 nexthop via fd03::2 dev c0",
		}, []string{"route del 10.60.0.0/24", "-6 route del fd60::/64"}),
		// For IPv6 the kernel takes the source from the first of a group's next
		// hops, whichever the hash has chosen.
		multipath("nexthop objects", []string{
			"nexthop add id 1 via 10.1.0.2 dev a0", "nexthop add id 2 via 10.2.0.2 dev b0", "nexthop add id 3 group 1/2", "route add 10.60.0.0/24 nhid 3",
			"nexthop add id 11 via fd01::2 dev a0", "nexthop add id 12 via fd02::2 dev b0", "nexthop add id 13 group 11/12", "-6 route add fd60::/64 nhid 13",
		}, []string{"nexthop flush"}),
	} {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			m.make(t)
			for _, dst := range []string{
				"10.60.0.2:1", "10.60.0.3:1", "10.60.0.4:1", "10.60.0.5:1", "10.60.0.6:1",
				"[fd60::2]:1", "[fd60::3]:1", "[fd60::4]:1", "[fd60::5]:1", "[fd60::6]:1",
			} {
				id := newTestID(t, IDConfig{Timeouts: Timeouts{ResolveAddr: 20 * time.Second}})
				calls := resolveCalls.Load()
				err := id.ResolveAddr(within(t, time.Minute), ap(""), ap(dst))
				kernel := alone(t, "", "", dst, 3*time.Second)
				t.Logf("%s: kernel %s; %v", dst, kernel, err)
				if err != nil {
					noRDMA19.check(t, id, err, resolveCalls.Load()-calls)
					require.Equal(t, "address: ENODEV", kernel)
					continue
				}
				var places []string
				for _, p := range id.Decision().Predicted {
					places = append(places, p.Device+"@"+p.Netdev)
				}
				accepted(places...).check(t, id, err, 1)
				require.Equal(t, id.Binding().Device, strings.Fields(kernel)[0])
			}
		})
	}
}

// Whether IPv6 keeps a bound id among several next hops differs by kernel, and
// is asked of it; the answer must be true of every destination.
func TestHostsMultipathBound(t *testing.T) {
	needTopo(t, "hosts")
	m := multipath("two next hops", []string{
		"-6 route add fd60::/64 nexthop via fd01::2 dev a0 nexthop via fd02::2 dev b0",
	}, []string{"-6 route del fd60::/64"})
	m.make(t)
	for _, c := range []struct{ bind, on, kernel string }{{"[fd01::1]:0", "rxe0@a0", onA6}, {"[fd02::1]:0", "rxe1@b0", onB6}} {
		kept, refusals := 0, 0
		for _, dst := range []string{"[fd60::2]:1", "[fd60::3]:1", "[fd60::4]:1", "[fd60::5]:1", "[fd60::6]:1", "[fd60::7]:1"} {
			id := newTestID(t, IDConfig{Timeouts: Timeouts{ResolveAddr: 20 * time.Second}})
			require.NoError(t, id.Bind(ap(c.bind)))
			calls := resolveCalls.Load()
			err := id.ResolveAddr(within(t, time.Minute), ap(""), ap(dst))
			if err != nil {
				refusals++
				unreachable.check(t, id, err, resolveCalls.Load()-calls)
			} else {
				accepted(c.on).override().check(t, id, err, 1)
			}
			kernel := alone(t, c.bind, "", dst, 3*time.Second)
			if kernel == c.kernel {
				kept++
			}
			require.True(t, err != nil || kernel == c.kernel, "accepted, and the kernel alone: %s", kernel)
		}
		require.True(t, refusals == 0 || kept < 6, "refused without need")
	}
}

// In a VRF, kernels before 6.18 lead the way to an own address through the VRF's
// device, and no connection comes about.
func TestHostsVRFLoop(t *testing.T) {
	needTopo(t, "hosts")
	m := machine{up: vrfUp, down: vrfDown, gids: []string{"rxe1 fd02::1"}}
	m.make(t)
	h, err := OpenHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	major, minor := h.KernelVersion()
	connects := major > 6 || major == 6 && minor >= 18
	for _, addr := range []string{"10.2.0.1", "fd02::1"} {
		local := netip.AddrPortFrom(netip.MustParseAddr(addr), 0)
		dst := netip.AddrPortFrom(local.Addr(), 7471).String()
		if connects {
			scenario{bind: local.String(), dst: dst, want: pinned(accepted("rxe1@b0").override(), unreachable),
				kernel: "rxe1 from " + addr + ", path MTU 2048"}.run(t)
			loopData(t, addr, "rxe1@b0")
			continue
		}
		scenario{bind: local.String(), dst: dst, want: bothPin(unreachable), kernel: "rxe1 from " + addr + ", path MTU 4096"}.run(t)
	}
}

// A bond is one netdev, whichever of its legs carries it: an id that was bound
// before resolves after. (What was connected before need not go on: when the leg
// changes, the kernel takes the bond's GIDs out of the table and puts them back,
// at other indexes.) Without a leg only the silence of the peer tells.
func TestHostsBondFailover(t *testing.T) {
	needTopo(t, "hosts")
	t.Cleanup(func() { ips(t, "", "link set d0 up", "link set e0 up") })
	bound := newTestID(t, IDConfig{Timeouts: Timeouts{ResolveAddr: 20 * time.Second}})
	require.NoError(t, bound.Bind(ap("10.5.0.1:0")))

	ips(t, "", "link set d0 down")
	awaitRow(t, "rxe4 10.5.0.1")
	err := bound.ResolveAddr(within(t, time.Minute), ap(""), ap("10.5.0.2:7471"))
	accepted("rxe4@bond0").check(t, bound, err, 1)
	loopData(t, "10.5.0.1", "rxe4@bond0")

	// The bond looks at its legs now and then: until it has seen, it knows its
	// neighbours and keeps answering for them.
	ips(t, "", "link set e0 down")
	require.Eventually(t, func() bool {
		carrier, err := os.ReadFile("/sys/class/net/bond0/carrier")
		return err == nil && string(carrier) == "0\n"
	}, 20*time.Second, time.Millisecond, "bond0 keeps its carrier")
	ips(t, "", "neigh flush dev bond0")
	id := newTestID(t, IDConfig{Timeouts: Timeouts{ResolveAddr: 300 * time.Millisecond}})
	require.NoError(t, id.Bind(ap("10.5.0.1:0")))
	calls := resolveCalls.Load()
	err = id.ResolveAddr(within(t, time.Minute), ap(""), ap("10.5.0.2:7471"))
	outcome{}.unanswered().check(t, id, err, resolveCalls.Load()-calls)
}

// rxe allows one device on a netdev, and none on a VLAN: the device of the
// netdev below has the VLAN's addresses.
func TestHostsDeviceRefusedByRXE(t *testing.T) {
	needTopo(t, "hosts")
	m := machine{up: []string{"link add link a0 name a0.101 type vlan id 101"}, down: []string{"link del a0.101"}}
	m.make(t)
	for netdev, why := range map[string]string{"a0": "File exists", "a0.101": "Operation not permitted"} {
		out, err := exec.Command("rdma", "link", "add", "rxe9", "type", "rxe", "netdev", netdev).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), why)
	}
}
