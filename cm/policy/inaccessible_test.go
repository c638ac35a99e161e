package policy_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// TestInaccessible: what leads to a device that this process cannot open is refused
// with the reason, by whatever the kernel shows of the device; nothing else is.
func TestInaccessible(t *testing.T) {
	why := errors.New("not for you: --device=/dev/infiniband/uverbs7")
	for name, port := range map[string]func(c int) policy.RDMAPort{
		"by its port's netdev": func(c int) policy.RDMAPort { return policy.RDMAPort{Netdev: c} },
		"by a row of its table": func(c int) policy.RDMAPort {
			return policy.RDMAPort{GIDs: []policy.GIDRow{{GID: policy.GIDOf(netip.MustParseAddr("10.3.0.1")), Netdev: c}}}
		},
		"by the GID in an IPoIB address": func(int) policy.RDMAPort {
			return policy.RDMAPort{GIDs: []policy.GIDRow{{GID: policy.GID{0: 0xfe, 1: 0x80, 15: 7}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newPair(t)
			c0 := m.named("c0")
			c0.HWAddr = append(make([]byte, 4), 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7)
			p := port(c0.Index)
			p.Device, p.Port = "mlx5_7", 1
			m.shut = []policy.InaccessiblePort{{RDMAPort: p, Err: why}}
			refused := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, policy.ErrNotRDMA)
				require.ErrorIs(t, err, syscall.ENODEV)
				require.ErrorIs(t, err, why)
				require.ErrorContains(t, err, why.Error())
				require.ErrorContains(t, err, "mlx5_7")
			}
			_, err := policy.ResolveBinding(m, ap("10.3.0.1:0"))
			refused(err)
			refused(policy.Decide(m, policy.Request{Dst: ap("10.3.0.2:7471")}).Err)
			refused(policy.Decide(m, policy.Request{Dst: ap("10.3.0.1:7471")}).Err)
			refused(policy.Decide(m, policy.Request{Src: ap("10.3.0.1:0"), Dst: ap("10.3.0.2:7471")}).Err)
			for _, device := range []string{"mlx5_7", "c0"} {
				_, err = policy.PickLocal(m, device, netip.MustParseAddr("10.3.0.2"))
				refused(err)
			}

			_, err = policy.PickLocal(m, "nix", netip.MustParseAddr("10.3.0.2"))
			require.ErrorIs(t, err, policy.ErrNotRDMA)
			require.NotErrorIs(t, err, why)
			require.NoError(t, policy.Decide(m, policy.Request{Dst: ap("10.2.0.2:7471")}).Err)
		})
	}
}
