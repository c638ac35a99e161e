//go:build linux && cgo

package ibv

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPairDrain: behind the markers nothing is left, and the memory is free.
func TestPairDrain(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxSend: 16, MaxRecv: 16}})
	for i := range 5 {
		require.NoError(t, a.qp.PostRecv(RecvWR{ID: uint64(i), SGEs: []SGE{a.mr.SGE(0, 8)}}))
	}
	require.NoError(t, a.qp.PostSend(SendWR{ID: 1, Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}}))
	require.NoError(t, a.qp.Drain(99))
	wcs := wait(t, a.rcq, 6)
	for i := range wcs {
		require.ErrorIs(t, wcs[i].Err(), WCFlushErr)
	}
	require.Equal(t, uint64(99), wcs[5].ID())
	wcs = wait(t, a.scq, 2)
	require.Equal(t, uint64(99), wcs[1].ID())
	require.NoError(t, a.mr.Close())
	require.Equal(t, QPErr, a.qp.State())
	var none *QP
	require.ErrorIs(t, none.Drain(0), ErrClosed)
}

// TestPairTune: what software devices do not have is said, not ignored.
func TestPairTune(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	require.ErrorIs(t, e.qp.SetRateLimit(RateLimit{Rate: 1000}), errors.ErrUnsupported)
	require.ErrorIs(t, e.qp.SetECE(ECE{Vendor: 1}), errors.ErrUnsupported)
	_, err := e.qp.QueryECE()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	for op := OpSend; op <= OpBindMW; op++ {
		_, err := e.qp.DataInOrder(op)
		require.NoError(t, err)
	}
	_, err = e.qp.DataInOrder(200)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = e.ctx.CreateCounters()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = e.qp.CreateFlow(FlowConfig{})
	require.ErrorIs(t, err, ErrInvalid, "of RC")
	ud, _ := newUD(t, "rxe0", "rxe0")
	_, err = ud.qp.CreateFlow(FlowConfig{Specs: []FlowSpec{FlowEth(EthFilter{}, EthFilter{}), FlowUDP(0, 4791)}})
	require.Error(t, err, "Soft-RoCE steers nothing")
	_, err = ud.qp.CreateFlow(FlowConfig{Specs: []FlowSpec{FlowCount(nil)}})
	require.ErrorIs(t, err, ErrClosed)
	_, err = e.pd.CreateQP(QPConfig{Type: RawPacket, SendCQ: e.scq, RecvCQ: e.rcq})
	require.Error(t, err, "Soft-RoCE has no raw packets")

	_, err = e.pd.CreateWQ(e.rcq, 8, 1)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = e.pd.CreateWQ(nil, 8, 1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = e.ctx.CreateRSSTable()
	require.ErrorIs(t, err, ErrInvalid)
	var wq *WQ
	_, err = e.ctx.CreateRSSTable(wq)
	require.ErrorIs(t, err, ErrClosed)
	var table *RSSTable
	_, err = table.CreateQP(e.pd, RSSConfig{})
	require.ErrorIs(t, err, ErrClosed)

	own, err := e.ctx.FindGID(addrOf("rxe0"))
	require.NoError(t, err)
	mac, _, vlan, err := e.ctx.ResolveL2(AHAttr{Global: true, DGID: own.GID, SGIDIndex: own.Index, Port: 1})
	require.NoError(t, err)
	require.Len(t, mac, 6)
	require.False(t, vlan)
	_, err = e.ctx.CreateCQ(CQConfig{Size: 1 << 30})
	require.ErrorIs(t, err, syscall.EINVAL)
}

// TestFlowSpecs: the specs are laid out as in C.
func TestFlowSpecs(t *testing.T) {
	s := FlowEth(EthFilter{Dst: [6]byte{1, 2}, EtherType: 0x0800}, EthFilter{VLAN: 0x0fff})
	require.Len(t, s.raw, 40)
	require.Equal(t, []byte{0x20, 0, 0, 0, 40, 0, 1, 2}, s.raw[:8])
	require.Equal(t, []byte{8, 0}, s.raw[18:20])
	require.Equal(t, []byte{0x0f, 0xff}, s.raw[36:38])
	s = FlowIPv4(netip.Prefix{}, netip.MustParsePrefix("10.1.2.3/24"))
	require.Equal(t, []byte{0, 0, 0, 0, 10, 1, 2, 0, 0, 0, 0, 0, 255, 255, 255, 0}, s.raw[8:24])
	s = FlowUDP(0, 4791)
	require.Equal(t, []byte{0x41, 0, 0, 0, 16, 0, 0x12, 0xb7, 0, 0, 0xff, 0xff, 0, 0, 0, 0}, s.raw)
	require.Equal(t, byte(7), FlowTag(7).raw[8])
	require.Len(t, FlowDrop().raw, 8)
}
