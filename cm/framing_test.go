package cm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// Case 9: what was framed comes back exactly, from a field padded with zeros.
func TestFrame(t *testing.T) {
	for _, n := range []int{0, 1, MaxConnectData - FrameOverhead} {
		data := bytes.Repeat([]byte{0}, n) // zeros, which the padding hides
		f, err := Frame(data, MaxConnectData)
		require.NoError(t, err)
		got, err := Unframe(append(f, make([]byte, MaxConnectData-len(f))...))
		require.NoError(t, err)
		require.Len(t, got, n)
	}
	for _, n := range []int{MaxConnectData - FrameOverhead + 1, 256, 300} {
		_, err := Frame(make([]byte, n), MaxConnectData)
		require.ErrorIs(t, err, ErrPrivateDataTooLong)
	}
	_, err := Frame(nil, 2)
	require.ErrorIs(t, err, ErrPrivateDataTooLong)
	for _, s := range []string{"", "RB", "RB\x00\x05abc", "RA\x00\x00", "RB\x00\x00x", "hello, world"} {
		_, err := Unframe([]byte(s))
		require.ErrorIs(t, err, ErrNotFramed, "%q", s)
	}
}

func FuzzUnframe(f *testing.F) {
	for n := range 64 { // every length of a field, and lengths that are true and false
		f.Add(append([]byte{'R', 'B', 0, byte(n / 2)}, make([]byte, n)...))
		f.Add(make([]byte, n))
	}
	f.Add([]byte("RB\x00\x01a\x00"))
	f.Add([]byte("RB\xff\xffa\x00"))
	f.Fuzz(func(t *testing.T, field []byte) {
		data, err := Unframe(field)
		if err != nil {
			return
		}
		again, err := Frame(data, len(field))
		require.NoError(t, err)
		require.Equal(t, field, append(again, make([]byte, len(field)-len(again))...))
	})
}

// Case 33: a rejection says why.
func TestRejectReasons(t *testing.T) {
	for _, c := range []struct {
		err  RejectError
		is   error
		text string
	}{
		{RejectError{Status: 8}, ErrConnRefused, "status 8, invalid service id: nobody listens"},
		{RejectError{Status: 28}, ErrRejected, "by the peer's program"},
		{RejectError{Status: 35}, ErrECE, "ECE"},
		{RejectError{Status: 10}, ErrStale, "stale"},
		{RejectError{Status: 99}, ErrRejected, "status 99)"},
		{RejectError{Status: 1, Datagram: true}, ErrConnRefused, "nobody listens"},
		{RejectError{Status: 2, Datagram: true}, ErrRejected, "by the peer's program"},
		{RejectError{Status: 10, Datagram: true}, ErrRejected, "status 10)"},
		{RejectError{Status: -111}, ErrConnRefused, "status -111)"},
	} {
		require.ErrorIs(t, &c.err, c.is)
		require.ErrorContains(t, &c.err, c.text)
	}
	require.Equal(t, "reason 99", RejectReason(99).String())
	require.Equal(t, "stale connection", RejectStale.String())
}

func TestAddrInfoHints(t *testing.T) {
	require.Equal(t, cgo.AddrInfo{PortSpace: int(PortSpaceTCP), QPType: int(ibv.RC)}, AddrInfoHints{}.toC())
	require.Equal(t, cgo.AddrInfo{PortSpace: int(PortSpaceUDP), QPType: int(ibv.UD), Family: familyIPv6,
		Flags: cgo.AIPassive | cgo.AINumericHost | cgo.AINoRoute | cgo.AIFamily},
		AddrInfoHints{Passive: true, NumericHost: true, NoRoute: true, IPv6: true, PortSpace: PortSpaceUDP}.toC())
	require.Zero(t, AddrInfoHints{IPv4: true, IPv6: true}.toC().Family)
}

// Names are looked up as librdmacm does it.
func TestPairAddrInfo(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, 60e9)
	got, err := GetAddrInfo(ctx, "10.1.0.1", "7471", AddrInfoHints{NumericHost: true, NoRoute: true})
	require.NoError(t, err)
	require.NotEmpty(t, got)
	require.Equal(t, ap("10.1.0.1:7471"), got[len(got)-1].Dst)
	require.Equal(t, PortSpaceTCP, got[len(got)-1].PortSpace)
	require.Equal(t, ibv.RC, got[len(got)-1].QPType)
	got, err = GetAddrInfo(ctx, "fd01::1", "7471", AddrInfoHints{Passive: true, NumericHost: true, PortSpace: PortSpaceUDP})
	require.NoError(t, err)
	require.Equal(t, ap("[fd01::1]:7471"), got[0].Src)
	require.True(t, got[0].Passive)
	require.Equal(t, ibv.UD, got[0].QPType)
	for _, c := range []struct {
		node  string
		hints AddrInfoHints
	}{{"fd01::1", AddrInfoHints{NumericHost: true, IPv4: true}}, {"no-such-name", AddrInfoHints{NumericHost: true}},
		{"10.1.0.1\x00.other", AddrInfoHints{NumericHost: true}}} {
		_, err = GetAddrInfo(ctx, c.node, "7471", c.hints)
		require.Error(t, err)
		require.True(t, strings.Contains(err.Error(), c.node), err)
	}
}
