package policy_test

import (
	"net/netip"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// kernelOf is an honest kernel's id for a binding.
func kernelOf(b policy.Binding, peer netip.AddrPort) policy.Kernel {
	return policy.Kernel{
		Device: b.Device, DeviceIndex: b.DeviceIndex, Port: b.Port, Transport: b.Transport,
		Local: netip.AddrPortFrom(b.Addr.Addr(), 40000), Peer: peer,
		SGID: b.GID, DGID: policy.GIDOf(peer.Addr()), PKey: b.PKey, PathMTU: policy.PathMTU(b.MTU),
	}
}

func bind(t testing.TB, h policy.Host, local string) policy.Binding {
	t.Helper()
	b, err := policy.ResolveBinding(h, ap(local))
	require.NoError(t, err)
	return b
}

func TestPathMTU(t *testing.T) {
	for netdev, want := range map[int]int{
		0: 0, 351: 0, 352: 256, 607: 256, 608: 512, 1500: 1024, 2200: 2048, 4191: 2048, 4192: 4096, 4200: 4096, 9000: 4096, -1: 0,
	} {
		require.Equal(t, want, policy.PathMTU(netdev), netdev)
	}
}

func TestCheckBound(t *testing.T) {
	for _, test := range []struct {
		name   string
		want   string
		mangle func(*policy.Kernel)
		err    error
	}{
		{"as asked", "10.1.0.1:7000", func(*policy.Kernel) {}, nil},
		{"any port", "10.1.0.1:0", func(*policy.Kernel) {}, nil},
		{"IPv4-mapped", "[::ffff:10.1.0.1]:0", func(*policy.Kernel) {}, nil},
		{"IPv6", "[fd01::1]:0", func(*policy.Kernel) {}, nil},
		{"IPv4-mapped answer", "10.1.0.1:0", func(k *policy.Kernel) {
			k.Local = netip.AddrPortFrom(netip.AddrFrom16(k.Local.Addr().As16()), k.Local.Port())
		}, nil},
		{"no GID known yet", "10.1.0.1:0", func(k *policy.Kernel) { k.SGID = policy.GID{} }, nil},
		{"no device", "10.1.0.1:0", func(k *policy.Kernel) { k.Device = "" }, policy.ErrDeviceSplit},
		{"another device", "10.1.0.1:0", func(k *policy.Kernel) { k.Device = "rxe1" }, policy.ErrDeviceSplit},
		{"a new device of that name", "10.1.0.1:0", func(k *policy.Kernel) { k.DeviceIndex++ }, policy.ErrDeviceSplit},
		{"another port of the device", "10.1.0.1:0", func(k *policy.Kernel) { k.Port = 2 }, policy.ErrDeviceSplit},
		{"another address", "10.1.0.1:0", func(k *policy.Kernel) { k.Local = ap("10.2.0.1:7000") }, policy.ErrDeviceSplit},
		{"another port number", "10.1.0.1:7000", func(k *policy.Kernel) { k.Local = ap("10.1.0.1:7001") }, policy.ErrDeviceSplit},
		{"no port number", "10.1.0.1:0", func(k *policy.Kernel) { k.Local = ap("10.1.0.1:0") }, policy.ErrDeviceSplit},
		{"another GID", "10.1.0.1:0", func(k *policy.Kernel) { k.SGID[15]++ }, policy.ErrDeviceSplit},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newPair(t)
			k := kernelOf(bind(t, m, test.want), netip.AddrPort{})
			if p := ap(test.want).Port(); p != 0 {
				k.Local = netip.AddrPortFrom(k.Local.Addr(), p)
			}
			test.mangle(&k)
			b, err := policy.CheckBound(m, ap(test.want), k)
			require.ErrorIs(t, err, test.err)
			if test.err == nil {
				require.Equal(t, policy.BoundDevice, b.State)
				require.Equal(t, "rxe0", b.Device)
				require.Equal(t, "a0", b.Netdev)
				require.Equal(t, k.Local.Port(), b.Addr.Port())
				require.True(t, b.Addr.Addr().Is4() || b.Addr.Addr().Is6() && !b.Addr.Addr().Is4In6())
				return
			}
			require.ErrorIs(t, err, syscall.EHOSTUNREACH)
			require.Equal(t, policy.Binding{}, b)
		})
	}
}

func TestCheckBoundElsewhere(t *testing.T) {
	m := newPair(t)
	b, err := policy.CheckBound(m, ap("0.0.0.0:7000"), policy.Kernel{Local: ap("0.0.0.0:7000")})
	require.NoError(t, err)
	require.Equal(t, policy.Binding{State: policy.BoundWildcard, Addr: ap("0.0.0.0:7000")}, b)
	_, err = policy.CheckBound(m, ap("0.0.0.0:7000"), policy.Kernel{Local: ap("0.0.0.0:7000"), Device: "rxe0"})
	require.ErrorIs(t, err, policy.ErrDeviceSplit)

	k := kernelOf(bind(t, m, "10.1.0.1:0"), netip.AddrPort{})
	for local, want := range map[string]error{
		"10.3.0.1:0": policy.ErrNotRDMA, "10.99.0.1:0": policy.ErrNotLocal, "127.0.0.1:0": policy.ErrNotRDMA, "[fe80::1]:0": policy.ErrScope,
	} {
		_, err = policy.CheckBound(m, ap(local), k)
		require.ErrorIs(t, err, want, local)
	}
	m.AddRDMA("siw0", "a0")
	_, err = policy.CheckBound(m, ap("10.1.0.1:0"), k)
	require.ErrorIs(t, err, policy.ErrAmbiguousDevice)
	require.ErrorContains(t, err, "rxe0/1 on a0 and siw0/1 on a0")
}

// resolved decides and passes an honest ADDR_RESOLVED.
func resolved(t testing.TB, m *model, r policy.Request) policy.Decision {
	t.Helper()
	d := policy.Decide(m, r)
	require.NoError(t, d.Err)
	b := d.Binding
	if d.Policy == policy.FollowRoute {
		i, err := m.Interface(d.Predicted[0].Ifindex)
		require.NoError(t, err)
		b = bind(t, m, netip.AddrPortFrom(i2addr(m, i.Index, r.Dst.Addr()), 0).String())
	}
	d, err := policy.CheckResolved(m, d, kernelOf(b, d.Request.Dst))
	require.NoError(t, err)
	return d
}

func i2addr(m *model, index int, dst netip.Addr) netip.Addr {
	if owners := m.owners(dst); len(owners) > 0 {
		return dst
	}
	return m.source(m.links[index], dst)
}

func TestCheckResolved(t *testing.T) {
	dst := ap("10.1.0.2:7471")
	for _, test := range []struct {
		name   string
		policy policy.Policy
		mangle func(*model, *policy.Kernel)
		err    error
	}{
		{"as promised", policy.PinBound, func(*model, *policy.Kernel) {}, nil},
		{"no peer", policy.PinBound, func(_ *model, k *policy.Kernel) { k.Peer = netip.AddrPort{} }, policy.ErrKernelBindRegression},
		{"zero peer", policy.PinBound, func(_ *model, k *policy.Kernel) { k.Peer = ap("0.0.0.0:0") }, policy.ErrKernelBindRegression},
		{"another peer", policy.PinBound, func(_ *model, k *policy.Kernel) { k.Peer = ap("10.1.0.3:7471") }, policy.ErrDeviceSplit},
		{"another peer port", policy.PinBound, func(_ *model, k *policy.Kernel) { k.Peer = ap("10.1.0.2:7472") }, policy.ErrDeviceSplit},
		{"another device", policy.PinBound, func(_ *model, k *policy.Kernel) { k.Device, k.DeviceIndex = "rxe1", 1 }, policy.ErrDeviceSplit},
		{"another local address", policy.PinBound, func(_ *model, k *policy.Kernel) { k.Local = ap("10.2.0.1:40000") }, policy.ErrDeviceSplit},
		{"another GID", policy.PinBound, func(_ *model, k *policy.Kernel) { k.SGID[15]++ }, policy.ErrDeviceSplit},
		{"the address went away", policy.PinBound, func(m *model, _ *policy.Kernel) { _ = m.IP("addr del 10.1.0.1/24 dev a0") }, policy.ErrBindingLost},
		{"the RDMA device went away", policy.PinBound, func(m *model, _ *policy.Kernel) { m.devices = m.devices[1:] }, policy.ErrBindingLost},
		{"the link went down", policy.PinBound, func(m *model, _ *policy.Kernel) { _ = m.IP("link set a0 down") }, policy.ErrRouteMismatch},
		{"the route moved, pinned", policy.PinBound, func(m *model, _ *policy.Kernel) { _ = m.IP("route add 10.1.0.2/32 dev b0") }, nil},
		{"the route moved, required", policy.RequireRoute, func(m *model, _ *policy.Kernel) { _ = m.IP("route add 10.1.0.2/32 dev b0") }, policy.ErrRouteMismatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newPair(t)
			d := policy.Decide(m, policy.Request{Policy: test.policy, Binding: bind(t, m, "10.1.0.1:0"), Dst: dst})
			require.NoError(t, d.Err)
			k := kernelOf(d.Binding, dst)
			test.mangle(m, &k)
			after, err := policy.CheckResolved(m, d, k)
			require.Equal(t, err, after.Err)
			require.Equal(t, &k, after.Resolved)
			require.Greater(t, after.Lookups, d.Lookups-1)
			if test.err == nil {
				require.NoError(t, err)
				require.Equal(t, policy.Accepted, after.Verdict)
				return
			}
			require.ErrorIs(t, err, test.err)
			require.ErrorContains(t, err, "check the resolved id 10.1.0.1")
			require.Equal(t, policy.Refused, after.Verdict)
			require.NotEmpty(t, after.Remedy)

			// A refused decision stays refused, with its own error.
			_, again := policy.CheckResolved(m, after, k)
			require.Equal(t, err, again)
			require.Equal(t, err, policy.CheckRouted(m, after, k))
		})
	}
}

func TestKernelBindRegression(t *testing.T) {
	m := newPair(t)
	d := policy.Decide(m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.2:7471")})
	k := kernelOf(d.Binding, netip.AddrPort{})
	_, err := policy.CheckResolved(m, d, k)
	require.ErrorIs(t, err, policy.ErrKernelBindRegression)
	require.ErrorContains(t, err, "0e15863015d9")
}

func TestCheckResolvedFollow(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"))
	dst := ap("10.60.0.1:7471")
	decide := func() policy.Decision {
		d := policy.Decide(m, policy.Request{Dst: dst})
		require.NoError(t, d.Err)
		require.Len(t, d.Predicted, 2)
		return d
	}
	// Either next hop is as promised, and becomes the binding.
	for _, local := range []string{"10.1.0.1:0", "10.2.0.1:0"} {
		b := bind(t, m, local)
		d, err := policy.CheckResolved(m, decide(), kernelOf(b, dst))
		require.NoError(t, err)
		require.Equal(t, b.Device, d.Binding.Device)
		require.Equal(t, b.Ifindex, d.Binding.Ifindex)
		require.Equal(t, policy.BoundDevice, d.Binding.State)
		require.NoError(t, policy.CheckRouted(m, d, kernelOf(b, dst)))
	}
	a, b := bind(t, m, "10.1.0.1:0"), bind(t, m, "10.2.0.1:0")
	k := kernelOf(a, dst)
	k.Device, k.DeviceIndex = b.Device, b.DeviceIndex
	_, err := policy.CheckResolved(m, decide(), k)
	require.ErrorIs(t, err, policy.ErrDeviceSplit, "rxe1 with the address of rxe0")
	k = kernelOf(a, dst)
	k.Local = ap("10.3.0.1:40000")
	_, err = policy.CheckResolved(m, decide(), k)
	require.ErrorIs(t, err, policy.ErrDeviceSplit)
	k = kernelOf(a, dst)
	k.SGID = b.GID
	_, err = policy.CheckResolved(m, decide(), k)
	require.ErrorIs(t, err, policy.ErrDeviceSplit)
	k = kernelOf(a, netip.AddrPort{})
	_, err = policy.CheckResolved(m, decide(), k)
	require.ErrorIs(t, err, policy.ErrDeviceSplit, "no regression of bound ids")
	d := decide()
	m.ports = []policy.RDMAPort{}
	_, err = policy.CheckResolved(m, d, kernelOf(a, dst))
	require.ErrorIs(t, err, policy.ErrDeviceSplit)
}

func TestCheckWithoutDecision(t *testing.T) {
	m := newPair(t)
	_, err := policy.CheckResolved(m, policy.Decision{}, policy.Kernel{})
	require.ErrorIs(t, err, policy.ErrNotBound)
	require.ErrorIs(t, policy.CheckRouted(m, policy.Decision{}, policy.Kernel{}), policy.ErrNotBound)
	d := policy.Decide(m, policy.Request{Dst: ap("10.1.0.2:1")})
	require.NoError(t, d.Err)
	require.ErrorIs(t, policy.CheckRouted(m, d, policy.Kernel{}), policy.ErrNotBound, "CheckResolved was left out")
}

func TestCheckRouted(t *testing.T) {
	for _, test := range []struct {
		name   string
		local  string
		dst    string
		mangle func(*model, *policy.Kernel)
		err    error
	}{
		{"as promised", "10.1.0.1:0", "10.1.0.2:7471", func(*model, *policy.Kernel) {}, nil},
		{"IPv6", "[fd01::1]:0", "[fd01::2]:7471", func(*model, *policy.Kernel) {}, nil},
		{"loopback", "10.1.0.1:0", "10.1.0.1:7471", func(*model, *policy.Kernel) {}, nil},
		{"the split of scenario 7", "[fd01::1]:0", "[fd01::2]:7471", func(_ *model, k *policy.Kernel) { k.PathMTU = 2048 }, policy.ErrDeviceSplit},
		{"the split of scenario 8", "[fd01::1]:0", "[fd01::2]:7471", func(_ *model, k *policy.Kernel) { k.PathMTU = 1024 }, policy.ErrDeviceSplit},
		{"no path MTU", "10.1.0.1:0", "10.1.0.2:7471", func(_ *model, k *policy.Kernel) { k.PathMTU = 0 }, policy.ErrDeviceSplit},
		{"another source GID", "10.1.0.1:0", "10.1.0.2:7471", func(_ *model, k *policy.Kernel) { k.SGID[15] = 9 }, policy.ErrDeviceSplit},
		{"no source GID", "10.1.0.1:0", "10.1.0.2:7471", func(_ *model, k *policy.Kernel) { k.SGID = policy.GID{} }, policy.ErrDeviceSplit},
		{"another destination GID", "10.1.0.1:0", "10.1.0.2:7471", func(_ *model, k *policy.Kernel) { k.DGID[15] = 9 }, policy.ErrDeviceSplit},
		{"another device", "10.1.0.1:0", "10.1.0.2:7471", func(_ *model, k *policy.Kernel) { k.Device = "rxe1" }, policy.ErrDeviceSplit},
		{"the MTU was changed before", "10.1.0.1:0", "10.1.0.2:7471", func(m *model, k *policy.Kernel) {
			_ = m.IP("link set a0 mtu 1500")
			k.PathMTU = 1024
		}, nil},
		{"the MTU was changed after", "10.1.0.1:0", "10.1.0.2:7471", func(m *model, _ *policy.Kernel) { _ = m.IP("link set a0 mtu 1500") }, nil},
		{"the link is gone", "10.1.0.1:0", "10.1.0.2:7471", func(m *model, _ *policy.Kernel) { _ = m.IP("link del a0") }, policy.ErrBindingLost},
		{"the host is deaf", "10.1.0.1:0", "10.1.0.2:7471", func(m *model, _ *policy.Kernel) { m.fail = map[string]error{"interface": syscall.EPERM} }, policy.ErrLookup},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newPair(t)
			d := resolved(t, m, policy.Request{Binding: bind(t, m, test.local), Dst: ap(test.dst)})
			k := kernelOf(d.Binding, d.Request.Dst)
			test.mangle(m, &k)
			err := policy.CheckRouted(m, d, k)
			require.ErrorIs(t, err, test.err)
			if test.err != nil {
				require.ErrorContains(t, err, "check the resolved route")
			}
		})
	}
}

func TestCheckEstablished(t *testing.T) {
	m := newPair(t)
	d := resolved(t, m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.2:7471")})
	k := kernelOf(d.Binding, d.Request.Dst)
	row := policy.GIDRow{GID: d.Binding.GID, Index: 1, Port: 1, Type: policy.GIDTypeRoCEv1, Netdev: d.Binding.Ifindex}
	require.NoError(t, policy.CheckEstablished(m, d, k, row), "index and type may differ: v1 and v2 rows of one address")
	for _, mangle := range []func(*policy.Kernel, *policy.GIDRow){
		func(_ *policy.Kernel, r *policy.GIDRow) { r.GID = policy.GIDOf(netip.MustParseAddr("10.2.0.1")) },
		func(_ *policy.Kernel, r *policy.GIDRow) { r.Netdev++ },
		func(_ *policy.Kernel, r *policy.GIDRow) { r.Netdev = 0 },
		func(_ *policy.Kernel, r *policy.GIDRow) { r.Port = 2 },
		func(k *policy.Kernel, _ *policy.GIDRow) { k.Port = 2 },
		func(k *policy.Kernel, _ *policy.GIDRow) { k.Device = "" },
	} {
		k, row := k, row
		mangle(&k, &row)
		err := policy.CheckEstablished(m, d, k, row)
		require.ErrorIs(t, err, policy.ErrDeviceSplit)
		require.ErrorContains(t, err, "check the connected QP")
	}
}

func TestCheckRequest(t *testing.T) {
	m := newPair(t)
	a, b := bind(t, m, "10.1.0.1:7000"), bind(t, m, "10.2.0.1:7000")
	wild := policy.Binding{State: policy.BoundWildcard, Addr: ap("0.0.0.0:7000")}
	request := func(b policy.Binding) policy.Kernel {
		k := kernelOf(b, ap("10.9.0.9:555"))
		k.Local = b.Addr
		return k
	}
	for _, test := range []struct {
		name     string
		listener policy.Binding
		request  policy.Binding
		mangle   func(*policy.Kernel)
		err      error
	}{
		{"bound", a, a, func(*policy.Kernel) {}, nil},
		{"wildcard on a", wild, a, func(*policy.Kernel) {}, nil},
		{"wildcard on b", wild, b, func(*policy.Kernel) {}, nil},
		{"any listener", policy.Binding{}, b, func(*policy.Kernel) {}, nil},
		{"bound to a, on b", a, b, func(*policy.Kernel) {}, policy.ErrDeviceSplit},
		{"device of b, address of a", wild, a, func(k *policy.Kernel) { k.Device, k.DeviceIndex = b.Device, b.DeviceIndex }, policy.ErrDeviceSplit},
		{"no device", wild, a, func(k *policy.Kernel) { k.Device = "" }, policy.ErrDeviceSplit},
		{"GID of b, address of a", wild, a, func(k *policy.Kernel) { k.SGID = b.GID }, policy.ErrDeviceSplit},
		{"an address of nobody", wild, a, func(k *policy.Kernel) { k.Local = ap("10.9.0.1:7000") }, policy.ErrDeviceSplit},
		{"another port number", a, a, func(k *policy.Kernel) { k.Local = ap("10.1.0.1:7001") }, policy.ErrDeviceSplit},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := request(test.request)
			test.mangle(&k)
			got, err := policy.CheckRequest(m, test.listener, k)
			require.ErrorIs(t, err, test.err)
			if test.err == nil {
				require.Equal(t, test.request, got)
			} else {
				require.ErrorContains(t, err, "check the request 10.")
			}
		})
	}

	// A link-local address may be on both links: the zone tells which.
	require.NoError(t, m.IP("addr add fe80::1/64 dev a0"))
	require.NoError(t, m.IP("addr add fe80::1/64 dev b0"))
	// The kernel leaves the zone of a request out, and then the device tells.
	linkLocal := bind(t, m, "[fe80::1%a0]:7000")
	bare := request(linkLocal)
	bare.Local = netip.AddrPortFrom(bare.Local.Addr().WithZone(""), 7000)
	landed, err := policy.CheckRequest(m, linkLocal, bare)
	require.NoError(t, err)
	require.Equal(t, linkLocal.Ifindex, landed.Ifindex)
	require.Equal(t, strconv.Itoa(linkLocal.Ifindex), landed.Addr.Addr().Zone())

	zoned := bind(t, m, "[fe80::1%b0]:7000")
	require.Equal(t, "rxe1", zoned.Device)
	got, err := policy.CheckRequest(m, policy.Binding{}, request(zoned))
	require.NoError(t, err)
	require.Equal(t, "rxe1", got.Device)
	k := request(zoned)
	k.Local = ap("[fe80::1%a0]:7000")
	_, err = policy.CheckRequest(m, policy.Binding{}, k)
	require.ErrorIs(t, err, policy.ErrDeviceSplit)
	for _, what := range []string{"owners", "ports"} {
		m.fail = map[string]error{what: syscall.EPERM}
		_, err = policy.CheckRequest(m, policy.Binding{}, request(zoned))
		require.ErrorIs(t, err, policy.ErrLookup)
		require.ErrorIs(t, err, syscall.EPERM)
	}
}
