package policy_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// TestDatagrams: iWARP has none, whichever way an id would come to its device.
func TestDatagrams(t *testing.T) {
	for _, p := range []policy.PortSpace{policy.PortSpaceTCP, policy.PortSpaceUDP, policy.PortSpaceIPoIB, policy.PortSpaceIB} {
		for _, siw := range []bool{false, true} {
			m := newPair(t)
			if siw {
				m.siw()
			}
			b := bind(t, m, "10.1.0.1:0")
			for name, err := range map[string]error{
				"bound":   policy.Decide(m, policy.Request{PortSpace: p, Binding: b, Dst: ap("10.1.0.2:1")}).Err,
				"source":  policy.Decide(m, policy.Request{PortSpace: p, Src: ap("10.1.0.1:0"), Dst: ap("10.1.0.2:1")}).Err,
				"unbound": policy.Decide(m, policy.Request{PortSpace: p, Dst: ap("10.1.0.2:1")}).Err,
				"bind":    policy.CheckPortSpace(b, p),
			} {
				if !siw || p == policy.PortSpaceTCP || p == policy.PortSpaceIB {
					require.NoError(t, err, name)
					continue
				}
				require.ErrorIs(t, err, policy.ErrTransport, name)
				require.ErrorIs(t, err, errors.ErrUnsupported, name)
				require.ErrorContains(t, err, "is iWARP, which has no datagrams")
				require.ErrorContains(t, err, "use the port space TCP")
			}
		}
	}
	require.ErrorIs(t, policy.ErrTransport, errors.ErrUnsupported)
	require.ErrorIs(t, policy.ErrTransport, syscall.EOPNOTSUPP)
	require.NotErrorIs(t, policy.ErrScope, errors.ErrUnsupported)
}
