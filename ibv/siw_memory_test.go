//go:build linux && cgo

package ibv

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSiwSelect: an iWARP device's GIDs are no addresses; it is found by them all
// the same.
func TestSiwSelect(t *testing.T) {
	needRDMA(t)
	for _, c := range []struct {
		s    Selector
		want string
	}{
		{Selector{Netdev: "a0"}, "siw0"},
		{Selector{Netdev: "b0"}, "siw1"},
		{Selector{Addr: netip.MustParseAddr("10.2.0.1")}, "siw1"},
		{Selector{Addr: netip.MustParseAddr("fd01::1")}, "siw0"},
		{Selector{Addr: netip.MustParseAddr("fe80::2%b0")}, "siw1"},
	} {
		d, err := c.s.Find()
		require.NoError(t, err, "%v", c.s)
		require.Equal(t, c.want, d.Name, "%v", c.s)
		require.Equal(t, TransportIWARP, d.Transport)
		require.Equal(t, NodeRNIC, d.NodeType)
	}
	_, err := Selector{Addr: netip.MustParseAddr("10.3.0.1")}.Find()
	require.ErrorIs(t, err, ErrNoDevice)
}

// TestSiwMemory: iWARP here has regions under addresses of one's own, and no
// windows; what it lacks is unsupported.
func TestSiwMemory(t *testing.T) {
	needRDMA(t)
	opened, err := Open("siw0")
	c := autoClose(t, opened, err)
	newPD, err := c.AllocPD()
	pd := autoClose(t, newPD, err)
	newBuf, err := NewBuffer(8192, BufferConfig{})
	buf := autoClose(t, newBuf, err)
	x, err := c.QueryDeviceEx()
	require.NoError(t, err)
	require.NotZero(t, x.MaxQP)
	mr, err := pd.RegisterBuffer(buf, RemoteWrite)
	autoClose(t, mr, err)
	at, err := pd.RegisterBufferAt(buf, uint64(os.Getpagesize()), RemoteWrite)
	autoClose(t, at, err)
	for name, call := range map[string]func() error{
		"window type 1": func() error { return second(pd.AllocMW(MWType1)) },
		"window type 2": func() error { return second(pd.AllocMW(MWType2)) },
		"null MR":       func() error { return second(pd.AllocNullMR()) },
		"device memory": func() error { return second(c.AllocDM(64, 0)) },
		"on demand":     func() error { return second(pd.RegisterBuffer(buf, OnDemand)) },
		"clock":         func() error { return second(c.Clock()) },
	} {
		require.ErrorIs(t, call(), errors.ErrUnsupported, name)
	}
}
