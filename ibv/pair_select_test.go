//go:build linux && cgo

package ibv

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPairSelect: a device is found by whatever is known of it.
func TestPairSelect(t *testing.T) {
	needRDMA(t)
	list, err := Devices()
	require.NoError(t, err)
	known := map[string]Device{}
	for _, d := range list {
		known[d.Name] = d
	}
	addr := netip.MustParseAddr
	for _, c := range []struct {
		s    Selector
		want string
	}{
		{Selector{Name: "rxe1"}, "rxe1"},
		{Selector{Netdev: "a0"}, "rxe0"},
		{Selector{Netdev: "b0"}, "rxe1"},
		{Selector{Addr: addr("10.2.0.1")}, "rxe1"},
		{Selector{Addr: addr("fd01::1")}, "rxe0"},
		{Selector{Addr: addr("fe80::2%b0")}, "rxe1"},
		{Selector{GID: GIDOf(addr("10.1.0.1"))}, "rxe0"},
		{Selector{GUID: known["rxe1"].GUID}, "rxe1"},
		{Selector{Index: known["rxe0"].Index + 1}, "rxe0"},
		{Selector{Name: "rxe0", Netdev: "a0", Addr: addr("10.1.0.1"), GUID: known["rxe0"].GUID}, "rxe0"},
	} {
		d, err := c.s.Find()
		require.NoError(t, err, "%v", c.s)
		require.Equal(t, known[c.want], d, "%v", c.s)
		opened, err := c.s.Open()
		ctx := autoClose(t, opened, err)
		require.Equal(t, c.want, ctx.Name())
	}
	for _, s := range []Selector{
		{Name: "rxe0", Netdev: "b0"}, {Netdev: "c0"}, {Netdev: "nosuch0"}, {Addr: addr("10.3.0.1")},
		{Addr: addr("fe80::2%a0")}, {GID: GID{1}}, {GUID: 1}, {Index: 77}, {PCI: "0000:3b:00.0"},
	} {
		_, err := s.Find()
		require.ErrorIs(t, err, ErrNoDevice, "%v", s)
		require.ErrorContains(t, err, "rxe0, rxe1")
		require.ErrorContains(t, err, s.String())
	}
	_, err = Selector{}.Find()
	require.ErrorIs(t, err, ErrAmbiguousDevice)
	require.ErrorIs(t, err, syscall.ENOTUNIQ)
	require.ErrorContains(t, err, "rxe0, rxe1 have any device")
	require.Empty(t, known["rxe0"].PCI())
	require.Equal(t, -1, known["rxe0"].NUMANode())
}

// TestPairLookupGID: a row of the GID table by address, type, port and network
// device.
func TestPairLookupGID(t *testing.T) {
	needRDMA(t)
	opened, err := Open("rxe0")
	c := autoClose(t, opened, err)
	a0, err := net.InterfaceByName("a0")
	require.NoError(t, err)
	b0, err := net.InterfaceByName("b0")
	require.NoError(t, err)
	addr := netip.MustParseAddr("10.1.0.1")
	for _, q := range []GIDQuery{
		{Addr: addr}, {GID: GIDOf(addr)}, {Addr: addr, Type: GIDTypeRoCEv2}, {Addr: addr, Port: 1, Netdev: a0.Index},
	} {
		e, err := c.LookupGID(q)
		require.NoError(t, err, "%v", q)
		require.Equal(t, GIDEntry{GID: GIDOf(addr), Index: e.Index, Port: 1, Type: GIDTypeRoCEv2, Netdev: a0.Index}, e)
		g, err := c.QueryGIDOnly(1, e.Index)
		require.NoError(t, err)
		require.Equal(t, e.GID, g)
	}
	for _, q := range []GIDQuery{
		{Addr: addr, Type: GIDTypeRoCEv1}, {Addr: addr, Port: 2}, {Addr: addr, Netdev: b0.Index},
		{Addr: netip.MustParseAddr("10.2.0.1")}, {GID: GID{9}},
	} {
		_, err := c.LookupGID(q)
		require.ErrorIs(t, err, ErrNoDevice, "%v", q)
		require.ErrorContains(t, err, q.String())
	}
	g, err := c.QueryGIDOnly(1, 200)
	require.NoError(t, err)
	require.True(t, g.IsZero(), "a row that is not in use")
}

// TestPairDeviceEx: what a device tells beyond its limits, its P_Keys, its port.
func TestPairDeviceEx(t *testing.T) {
	needRDMA(t)
	opened, err := Open("rxe0")
	c := autoClose(t, opened, err)
	a, err := c.QueryDevice()
	require.NoError(t, err)
	x, err := c.QueryDeviceEx()
	require.NoError(t, err)
	require.Equal(t, a, x.DeviceAttr)
	require.Equal(t, uint64(a.CapFlags), x.CapFlagsEx&0xffffffff)
	require.Zero(t, x.TimestampMask)
	require.Zero(t, x.MaxDMSize)
	require.False(t, x.TSO.QPTypes.Has(UD))

	i, err := c.PKeyIndex(1, 0xffff)
	require.NoError(t, err)
	require.Zero(t, i)
	_, err = c.PKeyIndex(1, 0x1234)
	require.Error(t, err)
	keys, err := c.PKeys(1)
	require.NoError(t, err)
	require.Equal(t, []uint16{0xffff}, keys)

	p, err := c.QueryPort(1)
	require.NoError(t, err)
	require.Positive(t, p.Width())
	require.Positive(t, p.LaneMbps())
	_, err = c.QueryPort(2)
	require.ErrorIs(t, err, syscall.EINVAL)

	// What no software device has, and what this library may not have yet.
	_, err = c.Clock()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	speed, err := c.PortSpeed(1)
	if err != nil {
		require.ErrorIs(t, err, errors.ErrUnsupported)
	} else {
		require.Positive(t, speed)
	}
}

// TestPairImport: no software provider can share its objects.
func TestPairImport(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	f, err := e.ctx.File()
	require.NoError(t, err)
	defer f.Close()
	_, err = ImportDevice(f)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = f.Stat() // still ours
	require.NoError(t, err)
	_, err = ImportDevice(nil)
	require.ErrorIs(t, err, ErrClosed)
	null, err := os.Open("/dev/null")
	require.NoError(t, err)
	_, err = ImportDevice(null)
	require.Error(t, err)
	require.NoError(t, null.Close())
	_, err = ImportDevice(null)
	require.ErrorIs(t, err, os.ErrClosed)

	pd, err := e.pd.Handle()
	require.NoError(t, err)
	require.ErrorIs(t, second(e.ctx.ImportPD(pd)), errors.ErrUnsupported)
	require.ErrorIs(t, second(e.pd.ImportMR(1)), errors.ErrUnsupported)
	require.ErrorIs(t, second(e.ctx.ImportDM(1, 8)), errors.ErrUnsupported)
}

// TestPairForkInit: fork support is for the whole process, so a child of the
// test's has it.
func TestPairForkInit(t *testing.T) {
	if !child(t, 0, nil) {
		return
	}
	if before := ForkSupport(); before != ForkUnneeded {
		require.Equal(t, ForkDisabled, before)
		require.NoError(t, ForkInit())
		require.Equal(t, ForkEnabled, ForkSupport())
	}
	require.NoError(t, ForkInit())
	a, b := newPair(t, endConfig{})
	fill(a.mr.Bytes()[:64], 1)
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, SGEs: []SGE{a.mr.SGE(0, 64)}, Remote: b.mr.Remote(0)}))
	waitOK(t, a.scq, 1)
	requirePattern(t, b.mr.Bytes()[:64], 1)
}
