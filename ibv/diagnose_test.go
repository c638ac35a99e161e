package ibv

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

// readyHost is a host that has nothing wrong: an adapter on eth0, in a folder.
func readyHost(t *testing.T) *host {
	h := &host{
		root:   t.TempDir(),
		listed: func() ([]string, error) { return []string{"mlx5_0"}, nil },
		open: func(string) (opened, error) {
			return opened{guid: 1, transport: TransportIB,
				ports: []PortAttr{{State: PortActive, LinkLayer: LinkEthernet, ActiveMTU: MTU4096, MaxMTU: MTU4096}},
				table: []GIDEntry{{GID: GIDOf(netip.MustParseAddr("10.0.0.1")), Port: 1, Type: GIDTypeRoCEv2, Netdev: 2}}}, nil
		},
		netdevs: func() []netdev { return []netdev{rail(2, "eth0", "10.0.0.1/24")} },
		vrfs:    func() []vrf { return nil },
		sources: func() []netip.Prefix { return nil },
	}
	h.write(t, map[string]string{
		"sys/class/infiniband/mlx5_0/node_desc":        "host HCA-1",
		"sys/class/infiniband_verbs/uverbs0/ibdev":     "mlx5_0\n",
		"sys/class/infiniband_verbs/uverbs0/dev":       "231:192\n",
		"sys/class/misc/rdma_cm/dev":                   "10:58\n",
		"sys/module/ib_core/parameters/netns_mode":     "Y\n",
		"dev/infiniband/uverbs0":                       "",
		"dev/infiniband/rdma_cm":                       "",
		"proc/self/status":                             "Name:\tx\nCapEff:\t0000000000000000\n",
		"proc/self/uid_map":                            "         0          0 4294967295\n",
		"proc/self/limits":                             "Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         unlimited            unlimited            bytes     \n",
		"proc/self/cgroup":                             "0::/a.slice/b\n",
		"proc/self/maps":                               "7f00-7f01 r-xp 0 08:01 1 /usr/lib/x/libibverbs.so.1.15.65.0\n7f02-7f03 r-xp 0 08:01 1 /usr/lib/x/librdmacm.so.1.4.65.0\n",
		"proc/sys/kernel/osrelease":                    "7.2.13+deb14-amd64\n",
		"proc/sys/net/core/netdev_budget":              "300\n",
		"sys/fs/cgroup/a.slice/rdma.max":               "mlx5_0 hca_handle=max hca_object=max\n",
		"sys/bus/pci/drivers/mlx5_core/0000:3b:00.0/x": "",
		"sys/module/mlx5_core/x":                       "",
		"sys/module/mlx5_ib/x":                         "",
	})
	return h
}

func rail(index int, name string, prefixes ...string) netdev {
	n := netdev{Interface: net.Interface{Index: index, Name: name, MTU: 4200, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, byte(index)}}}
	for _, p := range prefixes {
		n.prefixes = append(n.prefixes, netip.MustParsePrefix(p))
	}
	return n
}

func (h *host) write(t *testing.T, files map[string]string) {
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(h.path(name)), 0o755))
		require.NoError(t, os.WriteFile(h.path(name), []byte(text), 0o600))
	}
}

func (h *host) remove(t *testing.T, name string) {
	require.NoError(t, os.RemoveAll(h.path(name)))
}

// namespace says which namespace of processes this is.
func (h *host) namespace(t *testing.T, name string) {
	h.write(t, map[string]string{"proc/self/ns/mnt": ""})
	require.NoError(t, os.Symlink(name, h.path("proc/self/ns/pid")))
}

// change makes an open device another one.
func (h *host) change(by func(*opened)) {
	open := h.open
	h.open = func(name string) (opened, error) {
		in, err := open(name)
		by(&in)
		return in, err
	}
}

// twoRails gives the host a second device on eth1.
func (h *host) twoRails(t *testing.T, first, second string) {
	h.write(t, map[string]string{
		"sys/class/infiniband/mlx5_1/node_desc":    "host HCA-2",
		"sys/class/infiniband_verbs/uverbs1/ibdev": "mlx5_1\n",
		"dev/infiniband/uverbs1":                   "",
	})
	h.listed = func() ([]string, error) { return []string{"mlx5_0", "mlx5_1"}, nil }
	h.netdevs = func() []netdev { return []netdev{rail(2, "eth0", first), rail(3, "eth1", second)} }
	open := h.open
	h.open = func(name string) (opened, error) {
		in, err := open(name)
		prefix, netdev := first, 2
		if name == "mlx5_1" {
			prefix, netdev = second, 3
		}
		in.table = []GIDEntry{{GID: GIDOf(netip.MustParsePrefix(prefix).Addr()), Port: 1, Type: GIDTypeRoCEv2, Netdev: netdev}}
		return in, err
	}
}

func TestDiagnoseReady(t *testing.T) {
	if !cgo.Available {
		t.Skip("says that it was built without cgo")
	}
	var checks []string
	for _, f := range readyHost(t).diagnose() {
		require.Equal(t, SeverityOK, f.Severity, "%v", f)
		require.NoError(t, f.Err)
		require.Empty(t, f.Do)
		checks = append(checks, f.Check)
	}
	require.Equal(t, []string{"libraries", "libraries", "modules", "manager", "device", "devices", "link", "gid", "mtu", "memlock", "namespace"}, checks)
}

// A build that cannot open devices says so, and blames neither device nor provider.
func TestDiagnoseNotBuilt(t *testing.T) {
	h := readyHost(t)
	h.listed = func() ([]string, error) {
		return nil, &Error{Op: "list devices", Err: &cgo.Error{Op: "ibv_get_device_list", Errno: syscall.ENOSYS}}
	}
	h.open = func(string) (opened, error) { t.Error("a device was opened"); return opened{}, syscall.ENOSYS }
	for _, f := range h.diagnose() {
		if f.Check == "system" { // what this very build cannot do
			require.False(t, cgo.Available)
			continue
		}
		require.Equal(t, SeverityOK, f.Severity, "%v", f)
	}
	h.remove(t, "dev/infiniband/uverbs0")
	require.Condition(t, func() bool {
		for _, f := range h.diagnose() {
			if f.Check == "device" && errors.Is(f.Err, ErrDeviceNotAccessible) {
				return true
			}
		}
		return false
	}, "the device's node is missing all the same")
}

// TestDiagnose: each fault, and what is said of it.
func TestDiagnose(t *testing.T) {
	if !cgo.Available {
		t.Skip("says that it was built without cgo")
	}
	const rxe = "sys/class/infiniband/mlx5_0/node_desc"
	for _, c := range []struct {
		name   string
		change func(*testing.T, *host)
		want   Finding // What is a part of the text, Do the first of the commands
		err    error
	}{
		{"no libraries", func(_ *testing.T, h *host) {
			h.listed = func() ([]string, error) {
				return nil, noRDMA("list devices", &cgo.Error{Op: "ibv_get_device_list", Errno: cgo.NoLibrary})
			}
		}, Finding{SeverityError, "libraries", "rdma-core", "libibverbs1", []string{"apt-get install -y libibverbs1 librdmacm1 ibverbs-providers"}, ErrNoRDMA}, cgo.NoLibrary},
		{"no RDMA", func(t *testing.T, h *host) { h.remove(t, "sys/class/infiniband") },
			Finding{SeverityError, "modules", "ib_core", "RDMA is not loaded", []string{"modprobe ib_core"}, ErrNoRDMA}, nil},
		{"no verbs", func(t *testing.T, h *host) { h.remove(t, "sys/class/infiniband_verbs") },
			Finding{SeverityError, "modules", "ib_uverbs", "verbs for programs", []string{"modprobe ib_uverbs"}, ErrNoRDMA}, nil},
		{"no verbs, of a device", func(t *testing.T, h *host) { h.remove(t, "sys/class/infiniband_verbs") },
			Finding{SeverityError, "device", "mlx5_0", "no character device", []string{"modprobe ib_uverbs"}, ErrDeviceNotAccessible}, nil},
		{"no connection manager", func(t *testing.T, h *host) { h.remove(t, "sys/class/misc/rdma_cm") },
			Finding{SeverityError, "modules", "rdma_ucm", "connection manager", []string{"modprobe rdma_ucm"}, ErrNoRDMA}, nil},
		{"an adapter's driver", func(t *testing.T, h *host) { h.remove(t, "sys/module/mlx5_ib") },
			Finding{SeverityWarning, "modules", "mlx5_ib", "mlx5_core", []string{"modprobe mlx5_ib"}, nil}, nil},
		{"no manager's node", func(t *testing.T, h *host) { h.remove(t, "dev/infiniband/rdma_cm") },
			Finding{SeverityError, "manager", managerDev, "--device=/dev/infiniband/rdma_cm", []string{"mkdir -p /dev/infiniband", "mknod -m 666 /dev/infiniband/rdma_cm c 10 58"}, ErrDeviceNotAccessible}, os.ErrNotExist},
		{"no manager's node in a container", func(t *testing.T, h *host) {
			h.remove(t, "dev/infiniband/rdma_cm")
			h.write(t, map[string]string{"run/.containerenv": ""})
		}, Finding{SeverityError, "manager", managerDev, "start the container with --device=/dev/infiniband/rdma_cm", nil, ErrDeviceNotAccessible}, os.ErrNotExist},
		{"no device", func(t *testing.T, h *host) { h.remove(t, "sys/class/infiniband/mlx5_0") },
			Finding{SeverityError, "devices", "kernel", "no RDMA device", []string{"modprobe -a rdma_rxe ib_uverbs rdma_ucm", "rdma link add rxe0 type rxe netdev eth0"}, ErrNoRDMA}, nil},
		{"none in this namespace", func(t *testing.T, h *host) {
			h.remove(t, "sys/class/infiniband/mlx5_0")
			h.remove(t, "proc/sys/net/core/netdev_budget")
			h.write(t, map[string]string{"sys/module/ib_core/parameters/netns_mode": "N\n"})
		}, Finding{SeverityError, "devices", "kernel", "exclusive", nil, ErrNoRDMA}, nil},
		{"no device node", func(t *testing.T, h *host) { h.remove(t, "dev/infiniband/uverbs0") },
			Finding{SeverityError, "device", "mlx5_0", "character device missing; in a container: --device=/dev/infiniband/uverbs0", []string{"mkdir -p /dev/infiniband", "mknod -m 666 /dev/infiniband/uverbs0 c 231 192"}, ErrDeviceNotAccessible}, os.ErrNotExist},
		{"no device node in a container", func(t *testing.T, h *host) {
			h.remove(t, "dev/infiniband/uverbs0")
			h.namespace(t, "pid:[4026532300]")
		}, Finding{SeverityError, "device", "mlx5_0", "start the container with --device=/dev/infiniband/uverbs0 --device=/dev/infiniband/rdma_cm", nil, ErrDeviceNotAccessible}, os.ErrNotExist},
		{"no device node on the machine itself", func(t *testing.T, h *host) {
			h.remove(t, "dev/infiniband/uverbs0")
			h.namespace(t, "pid:[4026531836]")
		}, Finding{SeverityError, "device", "mlx5_0", "character device missing", []string{"mkdir -p /dev/infiniband", "mknod -m 666 /dev/infiniband/uverbs0 c 231 192"}, ErrDeviceNotAccessible}, os.ErrNotExist},
		{"one device of two", func(t *testing.T, h *host) {
			h.twoRails(t, "10.0.0.1/24", "10.0.1.1/24")
			h.remove(t, "dev/infiniband/uverbs1")
		}, Finding{SeverityWarning, "device", "mlx5_1", "character device missing", nil, ErrDeviceNotAccessible}, os.ErrNotExist},
		{"no provider", func(_ *testing.T, h *host) { h.listed = func() ([]string, error) { return nil, nil } },
			Finding{SeverityError, "device", "mlx5_0", "no provider", []string{"apt-get install -y ibverbs-providers"}, ErrNoProvider}, nil},
		{"does not open", func(_ *testing.T, h *host) {
			h.open = func(string) (opened, error) { return opened{}, syscall.EIO }
		}, Finding{SeverityError, "device", "mlx5_0", "input/output error", nil, ErrDeviceNotAccessible}, syscall.EIO},
		{"no GUID", func(_ *testing.T, h *host) { h.change(func(in *opened) { in.guid = 0 }) },
			Finding{SeverityWarning, "device", "mlx5_0", "no node GUID", nil, nil}, nil},
		{"no GUID, which ends librdmacm", func(t *testing.T, h *host) {
			h.change(func(in *opened) { in.guid = 0 })
			h.write(t, map[string]string{"proc/self/maps": "7f02-7f03 r-xp 0 08:01 1 /usr/lib/x/librdmacm.so.1.3.44.0\n"})
		}, Finding{SeverityError, "device", "mlx5_0", "before 56", nil, nil}, nil},
		{"port down", func(t *testing.T, h *host) {
			h.change(func(in *opened) { in.ports[0].State = PortDown })
			h.write(t, map[string]string{"sys/class/infiniband/mlx5_0/device/net/eth0/x": ""})
		}, Finding{SeverityWarning, "link", "mlx5_0/1", "DOWN", []string{"ip link set eth0 up"}, nil}, nil},
		{"all ports down", func(_ *testing.T, h *host) { h.change(func(in *opened) { in.ports[0].State = PortDown }) },
			Finding{SeverityError, "link", "all devices", "no port is active", nil, nil}, nil},
		{"no subnet manager", func(_ *testing.T, h *host) {
			h.change(func(in *opened) { in.ports[0].State, in.ports[0].LinkLayer = PortInit, LinkInfiniBand })
		}, Finding{SeverityWarning, "link", "mlx5_0/1", "subnet manager", []string{"systemctl start opensm"}, nil}, nil},
		{"RoCE v1", func(_ *testing.T, h *host) { h.change(func(in *opened) { in.table[0].Type = GIDTypeRoCEv1 }) },
			Finding{SeverityWarning, "gid", "mlx5_0/1", "RoCE v1 only", nil, nil}, nil},
		{"no address", func(t *testing.T, h *host) {
			h.netdevs = func() []netdev { return []netdev{rail(2, "eth0")} }
			h.write(t, map[string]string{"sys/class/infiniband/mlx5_0/parent": "eth0"})
		}, Finding{SeverityWarning, "gid", "mlx5_0/1", "no address", []string{"ip link set eth0 up", "ip address add ADDRESS/LENGTH dev eth0"}, nil}, nil},
		{"address of another namespace", func(t *testing.T, h *host) {
			h.netdevs = func() []netdev { return []netdev{rail(2, "eth0", "172.17.0.2/16")} }
			h.remove(t, "proc/sys/net/core/netdev_budget")
		}, Finding{SeverityWarning, "gid", "mlx5_0/1", "--network host", nil, nil}, nil},
		{"no address at all", func(_ *testing.T, h *host) { h.netdevs = func() []netdev { return nil } },
			Finding{SeverityError, "gid", "all devices", "none has an address", nil, nil}, nil},
		{"small MTU", func(_ *testing.T, h *host) { h.change(func(in *opened) { in.ports[0].ActiveMTU = MTU1024 }) },
			Finding{SeverityNote, "mtu", "mlx5_0/1", "1024 bytes a packet", []string{"ip link set eth0 mtu 4200"}, nil}, nil},
		{"MTU too large", func(_ *testing.T, h *host) {
			h.netdevs = func() []netdev {
				n := rail(2, "eth0", "10.0.0.1/24")
				n.MTU = 1500
				return []netdev{n}
			}
		}, Finding{SeverityWarning, "mtu", "mlx5_0/1", "leaves 1024 bytes", nil, nil}, nil},
		{"memlock", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"proc/self/limits": "Max locked memory         8388608              8388608              bytes     \n"})
		}, Finding{SeverityWarning, "memlock", "this process", "8192 KiB", []string{"prlimit --pid $$ --memlock=unlimited"}, nil}, nil},
		{"memlock of a container", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"proc/self/limits": "Max locked memory         65536                65536                bytes     \n",
				"proc/self/uid_map": "0 1000 1\n", "proc/self/status": "CapEff:\t000001ffffffffff\n"})
		}, Finding{SeverityError, "memlock", "this process", "64 KiB", []string{"prlimit --pid $$ --memlock=unlimited"}, nil}, nil},
		{"memlock with the capability", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"proc/self/limits": "Max locked memory         65536                65536                bytes     \n",
				"proc/self/status": "CapEff:\t0000000000004000\n"})
		}, Finding{SeverityOK, "memlock", "this process", "CAP_IPC_LOCK", nil, nil}, nil},
		{"cgroup", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"sys/fs/cgroup/a.slice/rdma.max": "mlx5_0 hca_handle=2 hca_object=max\n"})
		}, Finding{SeverityNote, "cgroup", "mlx5_0", "hca_handle=2", []string{"echo 'mlx5_0 hca_handle=max hca_object=max' >/sys/fs/cgroup/a.slice/rdma.max"}, nil}, nil},
		{"cgroup, version 1", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:rdma:/pod\n",
				"sys/fs/cgroup/rdma/pod/rdma.max": "mlx5_0 hca_handle=0 hca_object=0\n"})
		}, Finding{SeverityError, "cgroup", "mlx5_0", "hca_handle=0", []string{"echo 'mlx5_0 hca_handle=max hca_object=max' >/sys/fs/cgroup/rdma/pod/rdma.max"}, nil}, nil},
		{"exclusive", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"sys/module/ib_core/parameters/netns_mode": "N\n"})
		}, Finding{SeverityNote, "namespace", "kernel", "exclusive", nil, nil}, nil},
		{"rxe in a namespace", func(t *testing.T, h *host) {
			h.remove(t, "proc/sys/net/core/netdev_budget")
			h.write(t, map[string]string{rxe: "rxe", "proc/sys/kernel/osrelease": "6.12.118+deb13-amd64\n"})
		}, Finding{SeverityWarning, "namespace", "mlx5_0", "carries no data", nil, nil}, nil},
		{"rxe and ibv_wr_*", func(t *testing.T, h *host) {
			h.write(t, map[string]string{rxe: "rxe", "proc/self/maps": "7f00-7f01 r-xp 0 08:01 1 /usr/lib/x/libibverbs.so.1.14.44.0\n"})
		}, Finding{SeverityNote, "libraries", "mlx5_0", "ibv_wr_*", nil, nil}, nil},
		{"rxe on an old kernel", func(t *testing.T, h *host) {
			h.write(t, map[string]string{rxe: "rxe", "proc/sys/kernel/osrelease": "6.1.0-57-amd64\n"})
		}, Finding{SeverityNote, "kernel", "mlx5_0", "6.12", nil, nil}, nil},
		{"siw", func(t *testing.T, h *host) {
			h.write(t, map[string]string{rxe: "Software iWARP stack"})
		}, Finding{SeverityNote, "kernel", "mlx5_0", "at most 32 bytes", nil, nil}, nil},
		{"one subnet", func(t *testing.T, h *host) { h.twoRails(t, "10.0.0.1/24", "10.0.0.2/24") },
			Finding{SeverityWarning, "shared-subnet", "eth1", "shares 10.0.0.0/24 with eth0; arp_ignore is 0", []string{
				"sysctl -w net/ipv4/conf/eth1/arp_ignore=1", "sysctl -w net/ipv4/conf/eth1/arp_announce=2", "sysctl -w net/ipv4/conf/eth1/accept_local=1"}, nil}, nil},
		{"one subnet, strict filter", func(t *testing.T, h *host) {
			h.twoRails(t, "10.0.0.1/24", "10.0.0.2/24")
			h.write(t, map[string]string{"proc/sys/net/ipv4/conf/all/arp_ignore": "1", "proc/sys/net/ipv4/conf/eth0/arp_announce": "2",
				"proc/sys/net/ipv4/conf/eth0/rp_filter": "1", "proc/sys/net/ipv4/conf/eth0/accept_local": "1"})
		}, Finding{SeverityWarning, "shared-subnet", "eth0", "rp_filter is 1", []string{"sysctl -w net/ipv4/conf/eth0/rp_filter=2"}, nil}, nil},
		{"one subnet, set up", func(t *testing.T, h *host) {
			h.twoRails(t, "10.0.0.1/24", "10.0.0.2/24")
			h.write(t, map[string]string{"proc/sys/net/ipv4/conf/all/arp_ignore": "1", "proc/sys/net/ipv4/conf/all/arp_announce": "2",
				"proc/sys/net/ipv4/conf/all/accept_local": "1"})
		}, Finding{SeverityOK, "shared-subnet", "eth0", "shares", nil, nil}, nil},
		{"a leaking VRF", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"sys/class/net/eth0/master/uevent": "DEVTYPE=vrf\nINTERFACE=red\nIFINDEX=9\n"})
			h.vrfs = func() []vrf { return []vrf{{"red", 10, true, false}} }
		}, Finding{SeverityWarning, "vrf", "red", "IPv6", []string{"ip -6 route add unreachable default metric 4278198272 table 10"}, nil}, nil},
		{"a VRF on an old kernel", func(t *testing.T, h *host) {
			h.write(t, map[string]string{"sys/class/net/eth0/master/uevent": "INTERFACE=red\n", "proc/sys/kernel/osrelease": "6.17.1\n"})
			h.vrfs = func() []vrf { return []vrf{{"red", 10, true, true}} }
		}, Finding{SeverityNote, "kernel", "red", "6.18", nil, nil}, nil},
		{"IPv6 without rules", func(t *testing.T, h *host) {
			h.twoRails(t, "fd01::1/64", "fd02::1/64")
			h.sources = func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("fd01::/64")} }
		}, Finding{SeverityNote, "ipv6", "eth1", "ErrRouteMismatch", []string{
			"ip -6 rule add from fd02::1 lookup 1003", "ip -6 route replace fd02::/64 dev eth1 table 1003"}, nil}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := readyHost(t)
			c.change(t, h)
			all := h.diagnose()
			for _, f := range all {
				if f.Severity != c.want.Severity || f.Check != c.want.Check || f.Object != c.want.Object {
					continue
				}
				require.Contains(t, f.What, c.want.What)
				require.Equal(t, c.want.Do, f.Do)
				require.Equal(t, c.want.Err == nil, f.Err == nil)
				if c.want.Err != nil {
					require.ErrorIs(t, f.Err, c.want.Err)
				}
				if c.err != nil {
					require.ErrorIs(t, f.Err, c.err)
				}
				return
			}
			require.Fail(t, "no such finding", "%v of\n%v", c.want, all)
		})
	}
}

func TestSeverity(t *testing.T) {
	b, err := json.Marshal(Finding{Severity: SeverityNote, Check: "mtu", Object: "rxe0/1", What: "x"})
	require.NoError(t, err)
	require.JSONEq(t, `{"severity":"note","check":"mtu","object":"rxe0/1","what":"x"}`, string(b))
	var f Finding
	require.NoError(t, json.Unmarshal(b, &f))
	require.Equal(t, SeverityNote, f.Severity)
	require.Error(t, json.Unmarshal([]byte(`{"severity":""}`), &f))
	require.Equal(t, "Severity(0)", Severity(0).String())
	require.Equal(t, "note: mtu of rxe0/1: x", Finding{Severity: SeverityNote, Check: "mtu", Object: "rxe0/1", What: "x"}.String())
}
