package policy_test

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

func TestResolveBinding(t *testing.T) {
	m := newPair(t)
	b := bind(t, m, "10.1.0.1:7000")
	require.Equal(t, policy.Binding{
		State: policy.BoundDevice, Addr: ap("10.1.0.1:7000"), Device: "rxe0", Port: 1, Transport: policy.RoCE,
		Netdev: "a0", Ifindex: m.named("a0").Index, MTU: 4200,
		GID: policy.GIDOf(netip.MustParseAddr("10.1.0.1")), GIDType: policy.GIDTypeRoCEv2,
	}, b)
	require.Equal(t, b, bind(t, m, "[::ffff:10.1.0.1]:7000"), "IPv4-mapped is IPv4")
	require.Equal(t, policy.Binding{State: policy.BoundWildcard, Addr: ap("[::]:1")}, bind(t, m, "[::]:1"))
	require.NoError(t, m.IP("addr add fe80::a/64 dev a0"))
	for _, zone := range []string{"a0", "2"} {
		require.Equal(t, "a0", bind(t, m, "[fe80::a%"+zone+"]:0").Netdev)
	}

	for local, want := range map[string]error{
		"[fe80::a%9999]:0": policy.ErrScope, "[fe80::a%nix]:0": policy.ErrScope, "[fe80::a]:0": policy.ErrScope,
		"[fd01::1%a0]:0": policy.ErrScope, "[fe80::99%a0]:0": policy.ErrNotLocal, "[fe80::a%b0]:0": policy.ErrNotRDMA,
		"[::1]:0": policy.ErrNotRDMA, "239.1.1.1:0": policy.ErrNotLocal,
	} {
		_, err := policy.ResolveBinding(m, ap(local))
		require.ErrorIs(t, err, want, local)
		require.ErrorContains(t, err, "bind "+ap(local).Addr().String())
	}
	_, err := policy.ResolveBinding(m, netip.AddrPort{})
	require.ErrorIs(t, err, policy.ErrNotLocal)
	_, err = policy.ResolveBinding(nil, ap("10.1.0.1:0"))
	require.ErrorIs(t, err, policy.ErrLookup)
	require.ErrorIs(t, err, syscall.EIO)
}

// TestNotRDMASaysWhichStep is what an operator reads in a container.
func TestNotRDMASaysWhichStep(t *testing.T) {
	m := newPair(t)
	_, err := policy.ResolveBinding(m, ap("10.3.0.1:0"))
	require.ErrorContains(t, err, "10.3.0.1 is on c0, and no RDMA port has it there")
	require.ErrorContains(t, err, "RDMA ports here: rxe0/1 on a0; rxe1/1 on b0")
	m.ports = []policy.RDMAPort{}
	_, err = policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorContains(t, err, "there are no RDMA devices here")
	m.exclusive = true
	_, err = policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorContains(t, err, "RDMA's namespaces are exclusive")
	m.ports = []policy.RDMAPort{{Device: "odd", Port: 1, GUID: 1, Netdev: 99}}
	_, err = policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorContains(t, err, "RDMA ports here: odd/1")
}

func TestRowsOfOneAddressAreNoAmbiguity(t *testing.T) {
	m := newPair(t)
	gid, index := policy.GIDOf(netip.MustParseAddr("10.1.0.1")), m.named("a0").Index
	m.ports = []policy.RDMAPort{{Device: "mlx5_0", GUID: 1, Port: 1, Transport: policy.RoCE, GIDs: []policy.GIDRow{
		{GID: gid, Index: 2, Port: 1, Type: policy.GIDTypeRoCEv1, Netdev: index},
		{GID: gid, Index: 3, Port: 1, Type: policy.GIDTypeRoCEv2, Netdev: index},
		{GID: gid, Index: 4, Port: 1, Type: policy.GIDTypeRoCEv1, Netdev: index},
		// A row of another network namespace may have any index.
		{GID: gid, Index: 5, Port: 1, Type: policy.GIDTypeRoCEv2, Netdev: index + 100},
	}}}
	b := bind(t, m, "10.1.0.1:0")
	require.Equal(t, 3, b.GIDIndex)
	require.Equal(t, policy.GIDTypeRoCEv2, b.GIDType)

	// Two ports of one device are.
	m.ports = append(m.ports, m.ports[0])
	m.ports[1].Port = 2
	_, err := policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorIs(t, err, policy.ErrAmbiguousDevice)
}

func TestDuplicateAddress(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("addr add 10.1.0.1/32 dev c0"))
	_, err := policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorIs(t, err, policy.ErrAmbiguousDevice, "the kernel may look at c0, which has no RDMA device")
	require.ErrorContains(t, err, "a0, c0")
	got := policy.Kernel{Device: "rxe0", Port: 1, Transport: policy.RoCE, Local: ap("10.1.0.1:5000")}
	b, err := policy.CheckBound(m, ap("10.1.0.1:0"), got)
	require.NoError(t, err, "where the kernel has bound, only a0 can be meant")
	require.Equal(t, "a0", b.Netdev)
	require.NoError(t, m.IP("addr add 10.1.0.1/32 dev b0"))
	_, err = policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorIs(t, err, policy.ErrAmbiguousDevice)
	_, err = policy.CheckBound(m, ap("10.1.0.1:0"), got)
	require.ErrorIs(t, err, policy.ErrAmbiguousDevice, "nobody chose between a0 and b0")
}

func TestGUIDZero(t *testing.T) {
	m := newPair(t)
	ports, _ := m.RDMAPorts()
	ports[0].GUID = 0
	b := bind(t, m, "10.1.0.1:0")
	m.ports = ports
	_, err := policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorIs(t, err, policy.ErrNotRDMA)
	require.ErrorContains(t, err, "node_guid")
	for _, r := range []policy.Request{
		{Binding: b, Dst: ap("10.1.0.2:1")}, {Src: b.Addr, Dst: ap("10.1.0.2:1")}, {Dst: ap("10.1.0.2:1")},
	} {
		d := policy.Decide(m, r)
		require.ErrorIs(t, d.Err, policy.ErrNotRDMA)
		require.ErrorContains(t, d.Err, "node_guid")
	}
	require.NoError(t, policy.Decide(m, policy.Request{Dst: ap("10.2.0.2:1")}).Err, "the other device is sound")
}

// siw makes iWARP devices of the model's: their GID is the MAC, never the address.
func (m *model) siw() {
	m.ports = nil
	m.ports, _ = m.RDMAPorts()
	for i := range m.ports {
		p := &m.ports[i]
		p.Transport, p.Netdev = policy.IWARP, p.GIDs[0].Netdev
		p.GIDs = []policy.GIDRow{{GID: policy.GID{2, 0, 0, 0, 0, byte(i)}, Port: 1, Type: policy.GIDTypeIB}}
	}
}

func TestIWARP(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("route add 10.1.0.7/32 dev b0"))
	m.siw()
	b := bind(t, m, "10.1.0.1:0")
	require.Equal(t, "rxe0", b.Device)
	require.Equal(t, policy.IWARP, b.Transport)

	d := policy.Decide(m, policy.Request{Binding: b, Dst: ap("10.1.0.2:1")})
	require.NoError(t, d.Err)
	k := kernelOf(d.Binding, ap("10.1.0.2:1"))
	k.SGID, k.PathMTU = policy.GID{}, 0 // the checks by GID and MTU are RoCE's
	d, err := policy.CheckResolved(m, d, k)
	require.NoError(t, err)
	require.NoError(t, policy.CheckRouted(m, d, k))
	require.NoError(t, policy.CheckEstablished(m, d, k, policy.GIDRow{}))
	k.Device = "rxe1"
	require.ErrorIs(t, policy.CheckRouted(m, d, k), policy.ErrDeviceSplit)

	for _, dst := range []string{"10.1.0.7:1", "10.2.0.2:1", "10.99.0.1:1"} {
		d := policy.Decide(m, policy.Request{Binding: b, Dst: ap(dst)})
		require.ErrorIs(t, d.Err, policy.ErrRouteMismatch, "the TCP socket would follow the route")
		require.ErrorContains(t, d.Err, "iWARP")
		_, err := m.remedy(d.Remedy)
		require.NoError(t, err)
		d = policy.Decide(m, policy.Request{Binding: b, Dst: ap(dst)})
		require.NoError(t, d.Err, d.Text())
	}
	d = policy.Decide(m, policy.Request{Dst: ap("10.2.0.2:1")})
	require.NoError(t, d.Err)
	require.Equal(t, "rxe1", d.Predicted[0].Device)

	m.ports[0].GIDs = nil // 6.1 keeps none for it
	require.Equal(t, "rxe0", bind(t, m, "10.1.0.1:0").Device)
	m.ports[0].Netdev = 0
	_, err = policy.ResolveBinding(m, ap("10.1.0.1:0"))
	require.ErrorIs(t, err, policy.ErrNotRDMA)
}

func TestInfiniBand(t *testing.T) {
	m := newPair(t)
	for i, name := range []string{"a0", "b0"} {
		l := m.named(name)
		l.HWAddr, l.Broadcast = make([]byte, 20), make([]byte, 20)
		l.HWAddr[4], l.HWAddr[19] = 0xfe, byte(i)
		l.Broadcast[8], l.Broadcast[9] = 0x80, byte(i+1)
	}
	m.ports, _ = m.RDMAPorts()
	for i := range m.ports {
		gid := policy.GID{0: 0xfe, 15: byte(i)}
		m.ports[i].Transport, m.ports[i].GIDs = policy.InfiniBand, []policy.GIDRow{{GID: gid, Port: 1, Type: policy.GIDTypeIB}}
	}
	b := bind(t, m, "10.1.0.1:0")
	require.Equal(t, "rxe0", b.Device)
	require.Equal(t, uint16(0x8001), b.PKey)
	_, err := policy.ResolveBinding(m, ap("10.3.0.1:0"))
	require.ErrorIs(t, err, policy.ErrNotRDMA, "c0 is no IPoIB device")

	d := policy.Decide(m, policy.Request{Binding: b, Dst: ap("10.2.0.2:1")})
	require.NoError(t, d.Err)
	require.True(t, d.Overridden)
	k := kernelOf(d.Binding, ap("10.2.0.2:1"))
	k.PathMTU = 2048
	d, err = policy.CheckResolved(m, d, k)
	require.NoError(t, err)
	require.NoError(t, policy.CheckRouted(m, d, k), "the path MTU is the subnet manager's")
	require.NoError(t, policy.CheckEstablished(m, d, k, policy.GIDRow{}))
	k.PKey = 0x0001
	require.NoError(t, policy.CheckRouted(m, d, k), "membership does not matter")
	k.PKey = 0x8002
	require.ErrorIs(t, policy.CheckRouted(m, d, k), policy.ErrDeviceSplit)
	k.PKey, k.SGID = 0, policy.GID{0: 0xfe, 15: 1}
	require.ErrorIs(t, policy.CheckRouted(m, d, k), policy.ErrDeviceSplit)

	d = policy.Decide(m, policy.Request{Dst: ap("10.2.0.2:1")})
	require.NoError(t, d.Err)
	require.Equal(t, "rxe1", d.Predicted[0].Device)
	a, err := policy.PickLocal(m, "rxe1", netip.MustParseAddr("10.2.0.2"))
	require.NoError(t, err)
	require.Equal(t, "10.2.0.1", a.String())
}

func TestPickLocal(t *testing.T) {
	m := newPair(t)
	for _, c := range []string{
		"addr add 10.1.9.1/24 dev a0", "addr add 10.1.0.0/16 dev a0", "addr add fe80::a/64 dev a0", "addr add fe80::a/64 dev c0",
		"addr add 10.5.0.1/24 dev b0", "addr add 10.5.0.2/24 dev b0", "route add 10.77.0.0/24 via 10.5.0.9 dev b0",
		"route add 10.78.0.0/24 via 10.1.9.9 dev a0", "link add a0.10 type vlan", "link set a0.10 up", "addr add 10.6.0.1/24 dev a0.10",
	} {
		require.NoError(t, m.IP(c))
	}
	m.ports, _ = m.RDMAPorts()
	vlan := m.named("a0.10").Index
	m.ports[0].GIDs = append(m.ports[0].GIDs, policy.GIDRow{GID: policy.GIDOf(netip.MustParseAddr("10.6.0.1")), Port: 1, Type: policy.GIDTypeRoCEv2, Netdev: vlan})

	for _, test := range []struct {
		device, dst, want string
		err               error
	}{
		{"rxe0", "10.1.0.2", "10.1.0.1", nil},
		{"a0", "10.1.0.2", "10.1.0.1", nil},
		{"rxe0", "::ffff:10.1.0.2", "10.1.0.1", nil},
		{"rxe0", "10.1.9.2", "10.1.9.1", nil},
		{"rxe0", "10.1.44.2", "10.1.0.0", nil}, // only the /16 holds it
		{"rxe0", "10.6.0.2", "10.6.0.1", nil},  // on the VLAN
		{"rxe0", "10.78.0.1", "10.1.9.1", nil}, // the gateway's subnet
		{"rxe0", "10.1.9.1", "10.1.9.1", nil},  // itself
		{"rxe0", "fd01::2", "fd01::1", nil},
		{"rxe0", "fd99::2", "fd01::1", nil}, // the only one of the family
		{"rxe0", "fe80::99%a0", "fe80::a%a0", nil},
		{"rxe0", "::", "fd01::1", nil},
		{"rxe1", "fd02::2", "fd02::1", nil},
		{"rxe1", "10.2.0.2", "10.2.0.1", nil},
		{"rxe1", "10.5.0.9", "", policy.ErrAmbiguousDevice},
		{"rxe1", "10.77.0.1", "", policy.ErrAmbiguousDevice}, // the gateway's subnet, twice
		{"rxe1", "10.99.0.1", "", policy.ErrAmbiguousDevice},
		{"rxe1", "0.0.0.0", "", policy.ErrAmbiguousDevice},
		{"rxe1", "fe80::99%b0", "", policy.ErrNotLocal},
		{"rxe0", "fe80::99%b0", "", policy.ErrNotLocal},
		{"rxe0", "fe80::99%nix", "", policy.ErrScope},
		{"rxe0", "fe80::99", "", policy.ErrScope},
		{"rxe0", "fd01::2%a0", "", policy.ErrScope},
		{"c0", "10.3.0.2", "", policy.ErrNotRDMA},
		{"nix", "10.3.0.2", "", policy.ErrNotRDMA},
	} {
		t.Run(test.device+" "+test.dst, func(t *testing.T) {
			got, err := policy.PickLocal(m, test.device, netip.MustParseAddr(test.dst))
			require.ErrorIs(t, err, test.err)
			if test.err != nil {
				require.ErrorContains(t, err, "pick an address of "+test.device)
				return
			}
			require.Equal(t, test.want, got.String())
			bind(t, m, netip.AddrPortFrom(got, 0).String())
		})
	}
	_, err := policy.PickLocal(m, "rxe1", netip.MustParseAddr("10.5.0.9"))
	require.ErrorContains(t, err, "10.5.0.1/24 on b0, 10.5.0.2/24 on b0")
	_, err = policy.PickLocal(m, "rxe1", netip.Addr{})
	require.ErrorIs(t, err, policy.ErrFamilyMismatch)
	m.ports[1].GIDs = nil
	_, err = policy.PickLocal(m, "rxe1", netip.MustParseAddr("10.2.0.2"))
	require.ErrorIs(t, err, policy.ErrNotRDMA)
}

// TestPickLocalFailures: whatever look-up fails, the error says so.
func TestPickLocalFailures(t *testing.T) {
	for device, whats := range map[string][]string{
		"rxe0": {"ports", "interfaces", "addrs", "route"}, "a0": {"name"},
	} {
		for _, what := range whats {
			m := newPair(t)
			require.NoError(t, m.IP("addr add 10.7.0.1/24 dev a0"))
			m.fail = map[string]error{what: syscall.ENOBUFS}
			_, err := policy.PickLocal(m, device, netip.MustParseAddr("10.99.0.1"))
			require.ErrorIs(t, err, policy.ErrLookup, what)
			require.ErrorIs(t, err, syscall.ENOBUFS, what)
		}
	}
	m := newPair(t)
	m.fail = map[string]error{"name": syscall.ENOBUFS}
	_, err := policy.PickLocal(m, "rxe0", netip.MustParseAddr("fe80::1%a0"))
	require.ErrorIs(t, err, policy.ErrLookup)
	_, err = policy.PickLocal(nil, "rxe0", netip.MustParseAddr("10.1.0.2"))
	require.ErrorIs(t, err, policy.ErrLookup)
}
