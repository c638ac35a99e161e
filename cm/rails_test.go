//go:build linux

package cm

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// Scenario 16, between two kernels: a host route sends rail 1's peer through rail
// 0. In the topology `rails` this is host 1; host 2 echoes on port 7471. (Where an
// unbound id's connect ends is in examples/rping, for IPv4: IPv6 packets on the
// wrong rail are the end of the peer's kernel 6.1.)
func TestRailsScenario16(t *testing.T) {
	needTopo(t, "rails")
	for _, f := range []struct{ name, local, peer, route string }{
		{"v4", "10.10.1.1", "10.10.1.2", "route add 10.10.1.2/32 via 10.10.0.2 dev rail0"},
		{"v6", "fd10:1::1", "fd10:1::2", "-6 route add fd10:1::2/128 via fd10:0::2 dev rail0"},
	} {
		local, dst := netip.AddrPortFrom(netip.MustParseAddr(f.local), 0), netip.AddrPortFrom(netip.MustParseAddr(f.peer), 7471)
		t.Run(f.name, func(t *testing.T) {
			ip(t, f.route, strings.Replace(f.route, "add", "del", 1))
			on1 := accepted("rxe1@rail1").override()
			if f.name == "v6" {
				on1 = unreachable // a preference only: the path would be rail 0's
			}
			for _, space := range spaces {
				for p, want := range pinned(on1, unreachable) {
					t.Run(fmt.Sprintf("bound, %s, %s", p, space), func(t *testing.T) { want.resolves(t, IDConfig{Policy: p, PortSpace: space}, local, dst) })
				}
				for p, want := range idle(accepted("rxe0@rail0")) {
					t.Run(fmt.Sprintf("idle, %s, %s", p, space), func(t *testing.T) {
						want.resolves(t, IDConfig{Policy: p, PortSpace: space}, netip.AddrPort{}, dst)
					})
				}
			}
			d := Dialer{LocalAddr: local}
			if f.name == "v6" {
				_, err := d.DialAddr(within(t, time.Minute), dst)
				var refusal *PolicyError
				require.ErrorAs(t, err, &refusal)
				require.NotEmpty(t, refusal.Commands)
				for _, c := range refusal.Commands { // the remedy, as a shell runs it
					out, err := exec.Command("sh", "-c", c).CombinedOutput()
					require.NoError(t, err, "%s: %s", c, out)
					t.Cleanup(func() { run(t, strings.NewReplacer("rule add", "rule del", "route replace", "route del").Replace(c)) })
				}
			}
			for range 2 {
				conn, err := d.DialAddr(within(t, time.Minute), dst)
				require.NoError(t, err)
				require.Equal(t, "rxe1", conn.Binding().Device)
				require.Equal(t, "rail1", conn.Binding().Netdev)
				require.Equal(t, f.name == "v4", conn.ID().Decision().Overridden)
				before, buf := sent(t), make([]byte, 1000)
				for range 50 {
					require.NoError(t, conn.Send(within(t, time.Minute), buf))
					_, err = conn.Recv(within(t, time.Minute), buf)
					require.NoError(t, err)
				}
				after := sent(t)
				require.NoError(t, conn.Close())
				require.Greater(t, after["rail1"]-before["rail1"], uint64(50), "where the data went")
				require.Less(t, after["rail0"]-before["rail0"], uint64(25), "where it did not go")
			}
		})
	}
}

// resolves holds what becomes of an id to the outcome.
func (o outcome) resolves(t *testing.T, cfg IDConfig, bind, dst netip.AddrPort) {
	t.Helper()
	id := newTestID(t, cfg)
	if bind.IsValid() {
		require.NoError(t, id.Bind(bind))
	}
	before := resolveCalls.Load()
	err := id.ResolveAddr(within(t, time.Minute), netip.AddrPort{}, dst)
	if o.err != nil {
		require.ErrorIs(t, err, o.err)
		require.ErrorIs(t, err, o.errno)
		require.Equal(t, before, resolveCalls.Load(), "the kernel was asked")
		return
	}
	require.NoError(t, err)
	require.NoError(t, id.ResolveRoute(within(t, time.Minute)))
	b := id.Binding()
	require.Equal(t, policy.BoundDevice, b.State)
	require.Contains(t, o.on, b.Device+"@"+b.Netdev)
	require.Equal(t, o.overridden, id.Decision().Overridden)
}
