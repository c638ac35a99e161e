//go:build linux

package cm

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// A group is joined on the bound device, or on that of the resolved address, and
// what one member sends, another receives.
func TestPairGroup(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct{ local, group string }{
		{"10.1.0.1:0", "239.1.2.3"}, {"10.2.0.1:0", "239.1.2.3"},
	} {
		t.Run(c.local+" "+c.group, func(t *testing.T) {
			group := netip.MustParseAddr(c.group)
			join := func(cfg JoinConfig) (*ID, queues, *ibv.QP, *Group) {
				id := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
				require.NoError(t, id.Bind(ap(c.local)))
				q := newQueues(t, id.Context())
				qp, err := id.CreateQP(q.pd, q.config(0))
				require.NoError(t, err)
				require.NoError(t, qp.PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{q.mr.SGE(0, 2048)}}))
				g, err := id.JoinMulticast(within(t, time.Minute), group, cfg)
				require.NoError(t, err)
				require.Equal(t, group, g.Addr())
				require.Equal(t, uint32(ibv.MulticastQPNum), g.Peer().QPNum)
				t.Cleanup(func() { require.NoError(t, qp.Close()) })
				return id, q, qp, g
			}
			_, sends, sender, to := join(JoinConfig{SendOnly: true})
			id, receives, _, g := join(JoinConfig{})
			_, err := id.JoinMulticast(within(t, time.Minute), group, JoinConfig{})
			require.ErrorIs(t, err, ErrState, "joined already")
			dest, err := to.Peer().Dest(sender.PD())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, dest.AH.Close()) })
			require.NoError(t, sender.PostSend(ibv.SendWR{Inline: []byte("to all"), Dest: dest}))
			sends.one(t)
			wc := receives.one(t)
			require.Equal(t, "to all", string(receives.mr.Bytes()[ibv.GRHSize:wc.Len()]))
			require.Equal(t, sender.Num(), wc.SrcQP())

			require.NoError(t, g.Err())
			require.NoError(t, g.Leave())
			require.NoError(t, g.Leave())
			require.NoError(t, (*Group)(nil).Leave())
			again, err := id.JoinMulticast(within(t, time.Minute), group, JoinConfig{})
			require.NoError(t, err, "after leaving")
			require.Equal(t, g.Peer(), again.Peer())
		})
	}
}

// An unbound id goes where the route to the group leads.
func TestPairGroupByRoute(t *testing.T) {
	needTopo(t, "pair")
	ip(t, "route add 239.9.0.0/16 dev b0", "route del 239.9.0.0/16 dev b0")
	id := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	require.NoError(t, id.ResolveAddr(within(t, time.Minute), netip.AddrPort{}, ap("239.9.1.1:0")))
	require.Equal(t, "rxe1", id.Binding().Device)
	g, err := id.JoinMulticast(within(t, time.Minute), netip.MustParseAddr("239.9.1.1"), JoinConfig{})
	require.NoError(t, err)
	require.NotZero(t, g.Peer().AH.Port)

	// A bound one does not: its group is on its own device.
	bound := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	require.NoError(t, bound.Bind(ap("10.1.0.1:0")))
	g, err = bound.JoinMulticast(within(t, time.Minute), netip.MustParseAddr("239.9.1.1"), JoinConfig{})
	require.NoError(t, err)
	row, err := bound.Context().QueryGID(g.Peer().AH.Port, g.Peer().AH.SGIDIndex)
	require.NoError(t, err)
	require.Equal(t, bound.Binding().Ifindex, row.Netdev)
	require.Contains(t, run(t, "ip maddress show dev a0"), "239.9.1.1")
}

func TestPairGroupRefusals(t *testing.T) {
	needTopo(t, "pair")
	ctx, group := within(t, time.Minute), netip.MustParseAddr("239.1.2.3")
	tcp := newTestID(t, IDConfig{})
	require.NoError(t, tcp.Bind(ap("10.1.0.1:0")))
	_, err := tcp.JoinMulticast(ctx, group, JoinConfig{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	id := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	_, err = id.JoinMulticast(ctx, group, JoinConfig{})
	require.ErrorIs(t, err, ErrState, "not bound")
	require.NoError(t, id.Bind(ap("10.1.0.1:0")))
	_, err = id.JoinMulticast(ctx, netip.MustParseAddr("10.1.0.2"), JoinConfig{})
	require.ErrorIs(t, err, ibv.ErrInvalid)
	_, err = id.JoinMulticast(ctx, netip.MustParseAddr("ff0e::1"), JoinConfig{})
	require.ErrorIs(t, err, ErrFamilyMismatch)
	six := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	require.NoError(t, six.Bind(ap("[fd01::1]:0")))
	_, err = six.JoinMulticast(ctx, netip.MustParseAddr("ff0e::1"), JoinConfig{})
	require.ErrorIs(t, err, errors.ErrUnsupported, "RoCE v2 has IPv4 groups")
	g, err := id.JoinMulticast(ctx, group, JoinConfig{})
	require.NoError(t, err, "the id has remained usable")
	require.NoError(t, id.Close())
	require.NoError(t, g.Leave(), "the id has left already")

	lost := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	ip(t, "addr add 10.1.0.77/24 dev a0")
	require.Eventually(t, func() bool { return newTestID(t, IDConfig{}).Bind(ap("10.1.0.77:0")) == nil }, time.Minute, 50*time.Millisecond)
	require.NoError(t, lost.Bind(ap("10.1.0.77:0")))
	ip(t, "addr del 10.1.0.77/24 dev a0")
	_, err = lost.JoinMulticast(ctx, group, JoinConfig{})
	require.ErrorIs(t, err, ErrBindingLost)
}
