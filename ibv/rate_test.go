package ibv

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

// TestRates: rates are those of libibverbs, both ways.
func TestRates(t *testing.T) {
	require.Equal(t, 10000, Rate10.Mbps())
	require.Equal(t, 4, Rate10.Mult())
	require.Equal(t, "2.5 Gbit/s", Rate2_5.String())
	require.Equal(t, "max", RateMax.String())
	require.Equal(t, "Rate(99)", Rate(99).String())
	if !cgo.Available {
		t.Skip("nothing to compare with in this build")
	}
	for r := range Rate(40) {
		require.Equal(t, cgo.RateToMbps(uint32(r)), r.Mbps(), "%v", r)
		require.Equal(t, cgo.RateToMult(uint32(r)), r.Mult(), "%v", r)
	}
	for v := range 1300000 {
		if got := RateOfMbps(v); uint32(got) != cgo.MbpsToRate(v) {
			t.Errorf("%d Mbit/s is %v", v, got)
		}
	}
	for v := range 1000 {
		require.Equal(t, cgo.MultToRate(v), uint32(RateOfMult(v)), v)
	}
}

// TestLinkSpeed: width and speed of a link, in InfiniBand's coding.
func TestLinkSpeed(t *testing.T) {
	a := PortAttr{ActiveWidth: 2, ActiveSpeed: 32}
	require.Equal(t, 4, a.Width())
	require.Equal(t, 25781, a.LaneMbps())
	require.Zero(t, PortAttr{ActiveWidth: 3, ActiveSpeed: 3}.Width())
	require.Zero(t, PortAttr{ActiveWidth: 3, ActiveSpeed: 3}.LaneMbps())
}

// TestNumbers: small functions give what libibverbs' do.
func TestNumbers(t *testing.T) {
	require.Equal(t, uint32(0x12345600), NextRKey(0x123456ff))
	require.True(t, QPTypes(1<<RC).Has(RC))
	require.False(t, QPTypes(1<<RC).Has(UD))
	require.False(t, QPTypes(1<<RC).Has(255))
	if !cgo.Available {
		t.Skip("nothing to compare with in this build")
	}
	for i := range uint32(1 << 20) {
		if UDPSourcePort(i) != cgo.FlowLabelToUDPSport(i) {
			t.Fatalf("flow label %#x has port %d, not %d", i, cgo.FlowLabelToUDPSport(i), UDPSourcePort(i))
		}
	}
	for i := range uint32(600) {
		require.Equal(t, cgo.IncRKey(i*0x1234567), NextRKey(i*0x1234567))
	}
	for _, q := range []QPType{RC, UC, UD, RawPacket, XRCSend, XRCRecv} {
		for bit := range 32 {
			require.Equal(t, cgo.IsQPTSupported(1<<bit, uint32(q)), QPTypes(1<<bit).Has(q))
		}
	}
}

// TestNames: each value that libibverbs has a name for has one here.
func TestNames(t *testing.T) {
	if !cgo.Available {
		t.Skip("nothing to compare with in this build")
	}
	const paren = `\(\d+\)$`
	for v := NodeCA; v <= NodeUnspecified; v++ {
		require.NotRegexp(t, paren, v.String(), cgo.NodeTypeString(int(v)))
	}
	for v := PortNop; v <= PortActiveDefer; v++ {
		require.NotRegexp(t, paren, v.String(), cgo.PortStateString(uint32(v)))
	}
	for v := AsyncEventType(0); cgo.EventTypeString(uint32(v)) != "unknown"; v++ {
		require.NotRegexp(t, paren, v.String(), cgo.EventTypeString(uint32(v)))
	}
	for v := WCStatus(0); cgo.WCStatusString(uint32(v)) != "unknown"; v++ {
		require.NotRegexp(t, paren, v.String(), cgo.WCStatusString(uint32(v)))
	}
}
