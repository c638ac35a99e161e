package ibv

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSelectorTable: what fits by GID table and network devices, RoCE and iWARP.
func TestSelectorTable(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	host := []net.Interface{{Index: 3, Name: "a0", HardwareAddr: mac}, {Index: 4, Name: "b0"}}
	addr := netip.MustParseAddr
	roce := []GIDEntry{
		{GID: GIDOf(addr("fe80::1")), Port: 1, Type: GIDTypeRoCEv1, Netdev: 3},
		{GID: GIDOf(addr("10.0.0.1")), Index: 1, Port: 1, Type: GIDTypeRoCEv2, Netdev: 3},
		{GID: GIDOf(addr("10.0.0.2")), Index: 2, Port: 2, Type: GIDTypeRoCEv2, Netdev: 4},
	}
	iwarp := []GIDEntry{{GID: GID{2, 0, 0, 0, 0, 1}, Port: 1}}
	for _, c := range []struct {
		s     Selector
		t     Transport
		table []GIDEntry
		want  bool
	}{
		{Selector{Netdev: "a0"}, TransportIB, roce, true},
		{Selector{Netdev: "b0"}, TransportIB, roce, true},
		{Selector{Netdev: "c0"}, TransportIB, roce, false},
		{Selector{Addr: addr("10.0.0.1")}, TransportIB, roce, true},
		{Selector{Addr: addr("10.0.0.1"), Netdev: "c0"}, TransportIB, roce, false},
		{Selector{Addr: addr("10.0.0.3")}, TransportIB, roce, false},
		{Selector{Addr: addr("fe80::1%a0")}, TransportIB, roce, true},
		{Selector{Addr: addr("fe80::1%3")}, TransportIB, roce, true},
		{Selector{Addr: addr("fe80::1%b0")}, TransportIB, roce, false},
		{Selector{Addr: addr("fe80::1")}, TransportIB, roce, true},
		{Selector{GID: GIDOf(addr("10.0.0.2"))}, TransportIB, roce, true},
		{Selector{GID: GID{7}}, TransportIB, roce, false},
		{Selector{Netdev: "a0"}, TransportIWARP, iwarp, true},
		{Selector{Netdev: "b0"}, TransportIWARP, iwarp, false},
		{Selector{Netdev: "a0"}, TransportIB, iwarp, false},
	} {
		require.Equal(t, c.want, c.s.fitsTable(c.t, c.table, host), "%v on %v", c.s, c.t)
	}
}

// TestDeviceBus: slot and node of a device, in a copy of what the kernel shows.
func TestDeviceBus(t *testing.T) {
	dir := t.TempDir()
	slot := filepath.Join(dir, "devices/pci0000:3a/0000:3b:00.1")
	require.NoError(t, os.MkdirAll(slot, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(slot, "numa_node"), []byte("1\n"), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "mlx5_0"), 0o755))
	require.NoError(t, os.Symlink(slot, filepath.Join(dir, "mlx5_0/device")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "rxe0"), 0o755))
	old := sysfs
	sysfs = dir
	defer func() { sysfs = old }()

	d := Device{Name: "mlx5_0"}
	require.Equal(t, "0000:3b:00.1", d.PCI())
	require.Equal(t, 1, d.NUMANode())
	for slot, want := range map[string]bool{"0000:3b:00.1": true, "3B:00.1": true, "3b:00.0": false, "0001:3b:00.1": false} {
		require.Equal(t, want, Selector{PCI: slot}.fitsDevice(d), slot)
	}
	require.Empty(t, Device{Name: "rxe0"}.PCI())
	require.Equal(t, -1, Device{Name: "rxe0"}.NUMANode())
	require.False(t, Selector{PCI: "3b:00.0"}.fitsDevice(Device{Name: "rxe0"}))
}
