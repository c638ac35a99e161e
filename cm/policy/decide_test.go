package policy_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

func TestParsePolicy(t *testing.T) {
	for p, s := range map[policy.Policy]string{policy.Auto: "auto", policy.PinBound: "pin", policy.RequireRoute: "route", policy.FollowRoute: "follow"} {
		got, err := policy.ParsePolicy(s)
		require.NoError(t, err)
		require.Equal(t, p, got)
		require.Equal(t, s, p.String())
		var back policy.Policy
		text, err := p.MarshalText()
		require.NoError(t, err)
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, p, back)
	}
	p, err := policy.ParsePolicy("")
	require.NoError(t, err)
	require.Equal(t, policy.Auto, p)
	_, err = policy.ParsePolicy("free")
	require.ErrorContains(t, err, "auto, pin, route or follow")
}

// TestZeroPolicyIsAuto and says what it came to.
func TestAuto(t *testing.T) {
	m := newPair(t)
	d := policy.Decide(m, policy.Request{Dst: ap("10.2.0.2:1")})
	require.Equal(t, policy.FollowRoute, d.Policy)
	require.Equal(t, policy.Auto, d.Request.Policy)
	d = policy.Decide(m, policy.Request{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.2:1")})
	require.Equal(t, policy.PinBound, d.Policy)
	require.False(t, d.Bind)
	d = policy.Decide(m, policy.Request{Src: ap("10.1.0.1:0"), Dst: ap("10.1.0.2:1")})
	require.Equal(t, policy.PinBound, d.Policy)
	require.True(t, d.Bind)
	require.Equal(t, "rxe0", d.Binding.Device)
	require.Equal(t, bind(t, m, "10.1.0.1:0"), d.Binding)
	d = policy.Decide(m, policy.Request{Src: ap("0.0.0.0:5000"), Dst: ap("10.2.0.2:1")})
	require.Equal(t, policy.FollowRoute, d.Policy, "a port alone is no source")
	require.NoError(t, d.Err)
}

// TestIdleSource: what binding the source would refuse, the decision refuses.
func TestIdleSource(t *testing.T) {
	m := newPair(t)
	for src, want := range map[string]error{
		"10.3.0.1:0": policy.ErrNotRDMA, "10.99.0.1:0": policy.ErrNotLocal, "127.0.0.1:0": policy.ErrNotRDMA, "239.0.0.1:0": policy.ErrNotLocal,
	} {
		d := policy.Decide(m, policy.Request{Src: ap(src), Dst: ap("10.1.0.2:1")})
		require.ErrorIs(t, d.Err, want, src)
	}
	d := policy.Decide(m, policy.Request{Src: ap("[fe80::1]:0"), Dst: ap("[fd01::2]:1")})
	require.ErrorIs(t, d.Err, policy.ErrScope)
	m.AddRDMA("siw0", "a0")
	d = policy.Decide(m, policy.Request{Src: ap("10.1.0.1:0"), Dst: ap("10.1.0.2:1")})
	require.ErrorIs(t, d.Err, policy.ErrAmbiguousDevice)
	require.ErrorIs(t, d.Err, syscall.Errno(76))
	d = policy.Decide(m, policy.Request{Dst: ap("10.1.0.2:1")})
	require.ErrorIs(t, d.Err, policy.ErrAmbiguousDevice, "no single device can be promised")
}

func TestOddRequests(t *testing.T) {
	m := newPair(t)
	b := bind(t, m, "10.1.0.1:0")
	dst := ap("10.1.0.2:1")
	for name, test := range map[string]struct {
		r   policy.Request
		err error
	}{
		"policy unknown":           {policy.Request{Policy: 77, Binding: b, Dst: dst}, policy.ErrUnknownPolicy},
		"state unknown":            {policy.Request{Binding: policy.Binding{State: 77}, Dst: dst}, policy.ErrUnknownPolicy},
		"state unknown, follow":    {policy.Request{Policy: policy.FollowRoute, Binding: policy.Binding{State: 77}, Dst: dst}, policy.ErrUnknownPolicy},
		"state unknown, a source":  {policy.Request{Binding: policy.Binding{State: 77}, Src: dst, Dst: dst}, policy.ErrUnknownPolicy},
		"binding empty":            {policy.Request{Binding: policy.Binding{State: policy.BoundDevice}, Dst: dst}, policy.ErrNotBound},
		"no destination":           {policy.Request{Binding: b}, policy.ErrLoopbackDst},
		"broadcast":                {policy.Request{Binding: b, Dst: ap("255.255.255.255:1")}, policy.ErrLoopbackDst},
		"IB port space multicast":  {policy.Request{Binding: b, Dst: ap("239.1.1.1:1"), PortSpace: policy.PortSpaceIB}, policy.ErrLoopbackDst},
		"IPoIB multicast":          {policy.Request{Binding: b, Dst: ap("239.1.1.1:1"), PortSpace: policy.PortSpaceIPoIB}, nil},
		"multicast, idle":          {policy.Request{Dst: ap("239.1.1.1:1"), PortSpace: policy.PortSpaceUDP}, policy.ErrNotRDMA},
		"wildcard source on bound": {policy.Request{Binding: b, Src: ap("0.0.0.0:0"), Dst: dst}, policy.ErrSourceConflict},
		"same wildcard source":     {policy.Request{Binding: bind(t, m, "0.0.0.0:7000"), Src: ap("0.0.0.0:7000"), Dst: dst}, nil},
		"other wildcard port":      {policy.Request{Binding: bind(t, m, "0.0.0.0:7000"), Src: ap("0.0.0.0:7001"), Dst: dst}, policy.ErrSourceConflict},
		"no such zone, idle":       {policy.Request{Dst: ap("[fe80::1%nix]:1")}, policy.ErrScope},
	} {
		t.Run(name, func(t *testing.T) {
			d := policy.Decide(m, test.r)
			require.ErrorIs(t, d.Err, test.err)
			if test.err == nil {
				require.Equal(t, policy.Accepted, d.Verdict)
			}
		})
	}
}

// TestZones: a zone is a link, by name or by index, whatever the link's name was
// when the id was bound.
func TestZones(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("addr add fe80::a/64 dev a0"))
	b := bind(t, m, "[fe80::a%a0]:0")
	for zone, want := range map[string]error{"a0": nil, "2": nil, "b0": policy.ErrScope, "3": policy.ErrScope,
		"+2": policy.ErrScope, "-2": policy.ErrScope, "4294967298": policy.ErrScope} {
		d := policy.Decide(m, policy.Request{Binding: b, Dst: ap("[fe80::99%" + zone + "]:1")})
		require.ErrorIs(t, d.Err, want, zone)
		d = policy.Decide(m, policy.Request{Binding: b, Src: ap("[fe80::a%" + zone + "]:0"), Dst: ap("[fe80::99%a0]:1")})
		if want != nil {
			want = policy.ErrSourceConflict
		}
		require.ErrorIs(t, d.Err, want, zone)
	}
	require.NoError(t, m.IP("link set a0 name rail"))
	m.devices[0].Netdev = "rail"
	d := policy.Decide(m, policy.Request{Binding: b, Dst: ap("[fe80::99%rail]:1")})
	require.NoError(t, d.Err)
	require.Equal(t, "rail", d.Binding.Netdev)
	d = policy.Decide(m, policy.Request{Binding: b, Dst: ap("[fe80::99%a0]:1")})
	require.ErrorIs(t, d.Err, policy.ErrScope, "that name is nobody's now")
	// Nothing leads there: the remedy is no rule by source.
	m.links[2].Up = false
	d = policy.Decide(m, policy.Request{Dst: ap("[fe80::99%rail]:1")})
	require.ErrorIs(t, d.Err, policy.ErrNoRoute)
}

// TestECMP: whatever the hash chooses, it is in the predicted set. A bound IPv6
// id is accepted where the kernel prefers its device to the hash, and where it
// does not is refused also if the hash happens to agree.
func TestECMP(t *testing.T) {
	for n := range 4 {
		hash, m := n%2, newPair(t)
		m.hash, m.hashes = hash, n/2 == 1
		require.NoError(t, m.IP("route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"))
		require.NoError(t, m.IP("route add fd60::/64 nexthop via fd01::2 dev a0 nexthop via fd02::2 dev b0"))
		require.NoError(t, m.IP("route add 10.61.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.3.0.2 dev c0"))
		require.NoError(t, m.IP("route add fd61::/64 nexthop via fd01::2 dev a0 nexthop via fd01::3 dev a0"))
		a := bind(t, m, "[fd01::1]:0")
		d := policy.Decide(m, policy.Request{Binding: a, Dst: ap("[fd60::1]:1")})
		if m.hashes {
			require.ErrorIs(t, d.Err, policy.ErrRouteMismatch)
		} else {
			require.NoError(t, d.Err)
			require.Equal(t, []int{2}, d.Netdevs())
			require.True(t, d.Overridden)
		}
		d = policy.Decide(m, policy.Request{Policy: policy.RequireRoute, Binding: a, Dst: ap("[fd61::1]:1")})
		require.NoError(t, d.Err, "two gateways on one rail")
		for _, dst := range []string{"10.60.0.1:1", "[fd60::1]:1"} {
			d = policy.Decide(m, policy.Request{Dst: ap(dst)})
			require.NoError(t, d.Err)
			require.ElementsMatch(t, []int{2, 3}, d.Netdevs())
		}
		d = policy.Decide(m, policy.Request{Dst: ap("10.61.0.1:1")})
		if hash == 0 {
			require.NoError(t, d.Err, "the one chosen carries RDMA")
			require.Equal(t, []int{2}, d.Netdevs())
		} else {
			require.ErrorIs(t, d.Err, policy.ErrNotRDMA)
			require.ErrorContains(t, d.Err, "the kernel chooses c0")
		}
	}
}

// TestForeignIndexes: a device of another network namespace is seen in the shared
// mode of RDMA, with network device indexes that mean something else here.
func TestForeignIndexes(t *testing.T) {
	m := newPair(t)
	require.NoError(t, m.IP("route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"))
	ports, err := m.RDMAPorts()
	require.NoError(t, err)
	foreign := policy.RDMAPort{Device: "rxe9", DeviceIndex: 9, GUID: 9, Port: 1, Transport: policy.RoCE}
	for n, index := range []int{m.named("a0").Index, m.named("b0").Index} {
		foreign.GIDs = append(foreign.GIDs, policy.GIDRow{
			GID: policy.GIDOf(netip.MustParseAddr("10.9.0.9")), Index: n, Port: 1, Type: policy.GIDTypeRoCEv2, Netdev: index,
		})
	}
	m.ports = append(ports, foreign)
	for m.hash = range 2 {
		d := policy.Decide(m, policy.Request{Dst: ap("10.60.0.1:1")})
		require.NoError(t, d.Err)
		require.ElementsMatch(t, []int{2, 3}, d.Netdevs())
		require.Equal(t, "a0", bind(t, m, "10.1.0.1:0").Netdev)
		_, err := policy.ResolveBinding(m, ap("10.9.0.9:0"))
		require.ErrorIs(t, err, policy.ErrNotLocal)
	}
}

// TestRemedies applies what refusals print, on the model; package route does it
// on the real kernel.
func TestRemedies(t *testing.T) {
	for _, test := range []struct {
		bind, dst string
		setup     []string
		policy    policy.Policy
	}{
		{"[fd01::1]:0", "[fd02::2]:1", nil, policy.PinBound},
		{"[fd01::1]:0", "[fd99::2]:1", nil, policy.PinBound},
		{"10.1.0.1:0", "10.2.0.2:1", nil, policy.RequireRoute},
		{"10.1.0.1:0", "10.1.0.2:1", []string{"link set a0 down"}, policy.PinBound},
		{"[fd02::1]:0", "[fd01::2]:1", []string{"link add v type vrf table 10", "link set b0 master v"}, policy.PinBound},
		{"10.2.0.1:0", "10.1.0.2:1", []string{"link add v type vrf table 10", "link set b0 master v"}, policy.PinBound},
		{"10.2.0.1:0", "10.2.0.2:1", []string{"link add v type vrf table 10", "link set b0 master v"}, policy.RequireRoute},
		{"[fd02::1]:0", "[fd02::2]:1", []string{"link add v type vrf table 10", "link set b0 master v"}, policy.RequireRoute},
	} {
		m := newPair(t)
		b := bind(t, m, test.bind)
		for _, c := range test.setup {
			require.NoError(t, m.IP(c))
		}
		r := policy.Request{Policy: test.policy, Binding: b, Dst: ap(test.dst)}
		d := policy.Decide(m, r)
		require.ErrorIs(t, d.Err, policy.ErrRouteMismatch, d.Text())
		commands, err := m.remedy(d.Remedy)
		require.NoError(t, err)
		require.NotEmpty(t, commands)
		d = policy.Decide(m, r)
		require.NoError(t, d.Err, d.Text())
	}
}

// TestWordsOfRemedies: what no command mends, and commands that know the gateway.
func TestWordsOfRemedies(t *testing.T) {
	vrf := []string{"link add v type vrf table 10", "link set a0 master v", "link set b0 master v"}
	for _, test := range []struct {
		name, bind, dst string
		setup           []string
		req             policy.Request
		want            string
	}{
		{"an address of another rail", "10.1.0.1:0", "10.2.0.1:1", nil, policy.Request{}, "bind 10.2.0.1 itself, or use an unbound id with policy follow; AllowLocalCrossing lets"},
		{"an address without RDMA", "10.1.0.1:0", "10.3.0.1:1", nil, policy.Request{Policy: policy.RequireRoute}, "give the peer's address on the rail"},
		{"an address of another rail, opted in", "10.1.0.1:0", "10.2.0.1:1", nil, policy.Request{Policy: policy.RequireRoute, AllowLocalCrossing: true}, "bind 10.2.0.1 itself"},
		{"the gateway is known", "10.1.0.1:0", "10.60.0.2:1", []string{"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"},
			policy.Request{Policy: policy.RequireRoute}, "ip route replace 10.60.0.2/32 via 10.1.0.2 dev a0 table 1002; or use policy pin"},
		{"the gateway is of the other family", "10.1.0.1:0", "10.60.0.2:1", []string{"route add 10.60.0.0/24 nexthop via fe80::9 dev a0 nexthop via 10.2.0.2 dev b0"},
			policy.Request{Policy: policy.RequireRoute}, "ip route replace 10.60.0.2/32 via inet6 fe80::9 dev a0 table 1002"},
		{"on the link, and known", "10.1.0.1:0", "10.1.0.2:1", []string{"route add 10.1.0.2/32 dev b0"},
			policy.Request{Policy: policy.RequireRoute}, "ip route replace 10.1.0.2/32 dev a0 table 1002; or use policy pin"},
		{"pin would refuse as well", "10.1.0.1:0", "10.2.0.2:1", nil, policy.Request{Policy: policy.RequireRoute, RequireOnLinkRoute: true}, "dev a0 table 1002 (with `via GATEWAY` where the peer is not on the link of a0)"},
		{"unbound", "", "10.99.0.1:1", nil, policy.Request{}, "ip route replace 10.99.0.1/32 dev a0 (with `via GATEWAY` where the peer is not on the link of a0, or through another rail: b0); or bind an address of a rail"},
		{"unbound, one rail up", "", "[fd99::1]:1", []string{"link set a0 down"}, policy.Request{}, "ip -6 route replace fd99::1/128 dev b0 (with `via GATEWAY` where the peer is not on the link of b0); or bind"},
		{"unbound, all rails in a VRF", "", "10.99.0.1:1", vrf, policy.Request{}, "add a route to the destination, or bind an address of a rail"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newPair(t)
			if test.bind != "" {
				test.req.Binding = bind(t, m, test.bind)
			}
			for _, c := range test.setup {
				require.NoError(t, m.IP(c))
			}
			test.req.Dst = ap(test.dst)
			d := policy.Decide(m, test.req)
			require.Error(t, d.Err)
			require.Contains(t, d.Remedy, test.want)
			if test.name == "pin would refuse as well" || test.name == "an address of another rail, opted in" {
				require.NotContains(t, d.Remedy, "policy pin")
			}
			require.Equal(t, strings.Contains(d.Remedy, "ip "), len(d.Commands) > 0)
		})
	}
}

// TestLostBinding: each thing that an id is bound to may go.
func TestLostBinding(t *testing.T) {
	for name, lose := range map[string]func(*model){
		"address":            func(m *model) { _ = m.IP("addr del 10.1.0.1/24 dev a0") },
		"address moved":      func(m *model) { _ = m.IP("addr del 10.1.0.1/24 dev a0"); _ = m.IP("addr add 10.1.0.1/24 dev b0") },
		"network device":     func(m *model) { _ = m.IP("link del a0") },
		"RDMA device":        func(m *model) { m.devices = m.devices[1:] },
		"RDMA device is new": func(m *model) { m.ports, _ = m.RDMAPorts(); m.ports[0].DeviceIndex = 9 },
		"GID":                func(m *model) { m.ports, _ = m.RDMAPorts(); m.ports[0].GIDs = nil },
	} {
		m := newPair(t)
		b := bind(t, m, "10.1.0.1:0")
		lose(m)
		for _, p := range []policy.Policy{policy.PinBound, policy.RequireRoute} {
			d := policy.Decide(m, policy.Request{Policy: p, Binding: b, Dst: ap("10.1.0.2:1")})
			require.ErrorIs(t, d.Err, policy.ErrBindingLost, name)
			require.ErrorIs(t, d.Err, syscall.EADDRNOTAVAIL, name)
			require.Empty(t, m.queries, "no route was asked for")
		}
	}
}

// TestHostFailures: whatever look-up fails, and however late, the decision is a
// refusal that says so.
func TestHostFailures(t *testing.T) {
	requests := func(m *model) []policy.Request {
		return []policy.Request{
			{Binding: bind(t, m, "10.1.0.1:0"), Dst: ap("10.1.0.2:1")},
			{Binding: bind(t, m, "[fd01::1]:0"), Dst: ap("[fd01::1]:1")},
			{Binding: bind(t, m, "[fe80::a%a0]:0"), Dst: ap("[fe80::9%2]:1")},
			{Src: ap("10.1.0.1:0"), Dst: ap("10.1.0.2:1")},
			{Src: ap("[fe80::a%a0]:0"), Dst: ap("[fe80::9%a0]:1")},
			{Dst: ap("10.2.0.2:1")},
			{Dst: ap("10.2.0.1:1")},
			{Dst: ap("[fe80::9%a0]:1")},
		}
	}
	for n := range requests(newLocal(t)) {
		for at := 1; ; at++ {
			m := newLocal(t)
			r := requests(m)[n]
			h := &failing{Host: m, at: at}
			d := policy.Decide(h, r)
			if h.asked < at {
				require.NoError(t, d.Err)
				break
			}
			require.ErrorIs(t, d.Err, policy.ErrLookup)
			require.ErrorIs(t, d.Err, syscall.ENOBUFS)
			require.NotEmpty(t, d.Remedy)
		}
	}
	d := policy.Decide(nil, policy.Request{Dst: ap("10.2.0.2:1")})
	require.ErrorIs(t, d.Err, policy.ErrLookup)
	d = policy.Decide(nil, policy.Request{Dst: ap("127.0.0.1:1")})
	require.ErrorIs(t, d.Err, policy.ErrLoopbackDst, "refused before anybody is asked")
	d = policy.Decide(nil, policy.Request{Dst: ap("[fe80::1%a0]:1")})
	require.ErrorIs(t, d.Err, policy.ErrLookup)
	d = policy.Decide(nil, policy.Request{Dst: ap("[fe80::1%1]:1")})
	require.ErrorIs(t, d.Err, policy.ErrLookup)
}

func newLocal(t testing.TB) *model {
	m := newPair(t)
	require.NoError(t, m.IP("link add v type vrf table 10"))
	require.NoError(t, m.IP("addr add fe80::a/64 dev a0"))
	m.named("a0").Master = m.named("v").Index // asked about, and unrouted as before
	m.named("v").Kind = "bridge"
	return m
}

// failing fails one look-up.
type failing struct {
	policy.Host
	at, asked int
}

func (f *failing) next() error {
	if f.asked++; f.asked == f.at {
		return syscall.ENOBUFS
	}
	return nil
}

func (f *failing) Route(q policy.Query) (policy.Route, error) {
	if err := f.next(); err != nil {
		return policy.Route{}, err
	}
	return f.Host.Route(q)
}

func (f *failing) Owners(a netip.Addr) ([]policy.Interface, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.Host.Owners(a)
}

func (f *failing) Interface(index int) (policy.Interface, error) {
	if err := f.next(); err != nil {
		return policy.Interface{}, err
	}
	return f.Host.Interface(index)
}

func (f *failing) InterfaceByName(name string) (policy.Interface, error) {
	if err := f.next(); err != nil {
		return policy.Interface{}, err
	}
	return f.Host.InterfaceByName(name)
}

func (f *failing) RDMAPorts() ([]policy.RDMAPort, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.Host.RDMAPorts()
}

// TestMaster: only a VRF changes what a link's addresses mean.
func TestMaster(t *testing.T) {
	m := newLocal(t)
	require.Empty(t, bind(t, m, "10.1.0.1:0").VRF, "a bridge port")
	m.named("v").Kind = "vrf"
	b := bind(t, m, "10.1.0.1:0")
	require.Equal(t, "v", b.VRF)
	require.Contains(t, b.String(), "VRF v")
	d := policy.Decide(m, policy.Request{Policy: policy.RequireRoute, Binding: b, Dst: ap("10.99.0.1:1")})
	require.Contains(t, d.Remedy, "ip route replace 10.99.0.1/32 dev a0 vrf v")

	// An address of the VRF's own device.
	require.NoError(t, m.IP("addr add 10.44.0.1/32 dev v"))
	require.NoError(t, m.IP("link set v up"))
	m.AddRDMA("rxe4", "v") // as rxe0 would show it
	b = bind(t, m, "10.44.0.1:0")
	require.Empty(t, b.VRF)
	d = policy.Decide(m, policy.Request{Binding: b, Dst: ap("10.44.0.1:1")})
	require.NoError(t, d.Err)
	out := leaves{m, m.named("a0").Index}
	d = policy.Decide(out, policy.Request{Binding: b, Dst: ap("10.1.0.2:1")})
	require.ErrorIs(t, d.Err, policy.ErrRouteMismatch)
	require.Equal(t, "bind an address of a0", d.Remedy)

	m = newPair(t)
	b = bind(t, m, "10.2.0.1:0")
	require.NoError(t, m.IP("link add v type vrf table 10"))
	require.NoError(t, m.IP("link set b0 master v"))
	d = policy.Decide(m, policy.Request{Policy: policy.RequireRoute, Binding: b, Dst: ap("10.2.0.2:1")})
	require.Contains(t, d.Reason, "no route (ENETUNREACH) (outside VRF v)")
}

// leaves answers every query with one link, as a VRF's device does with a rail.
type leaves struct {
	*model
	ifindex int
}

func (l leaves) Route(policy.Query) (policy.Route, error) {
	return policy.Route{Kind: policy.RouteUnicast, Ifindex: l.ifindex, Netdev: l.links[l.ifindex].Name}, nil
}

// TestLookups states what a decision costs.
func TestLookups(t *testing.T) {
	m := newPair(t)
	b := bind(t, m, "10.1.0.1:0")
	for name, test := range map[string]struct {
		r    policy.Request
		want int
	}{
		// link, owners, RDMA ports; Q1, Q1f, Q2, Q2f
		"bound": {policy.Request{Binding: b, Dst: ap("10.1.0.2:1")}, 7},
		// ... without Q2f, with the owners of the destination
		"bound, loopback": {policy.Request{Binding: b, Dst: ap("10.1.0.1:1")}, 7},
		// Q0, Q0f; link, RDMA ports
		"idle": {policy.Request{Dst: ap("10.1.0.2:1")}, 4},
		// owners and RDMA ports of the source, then as bound without the ports
		"idle, source": {policy.Request{Src: ap("10.1.0.1:0"), Dst: ap("10.1.0.2:1")}, 8},
	} {
		require.Equal(t, test.want, policy.Decide(m, test.r).Lookups, name)
	}
}

func TestLinkGoneBetween(t *testing.T) {
	late := newPair(t)
	b := bind(t, late, "10.1.0.1:0")
	late.fail = map[string]error{"route": syscall.ENODEV}
	require.ErrorIs(t, policy.Decide(late, policy.Request{Binding: b, Dst: ap("10.1.0.2:1")}).Err, policy.ErrBindingLost)
	// The route names a link that is gone by the time it is asked about.
	m := newPair(t)
	d := policy.Decide(gone{m}, policy.Request{Dst: ap("10.2.0.2:1")})
	require.ErrorIs(t, d.Err, policy.ErrNotRDMA)
}

type gone struct{ *model }

func (gone) Interface(int) (policy.Interface, error) {
	return policy.Interface{}, errors.Join(errors.New("gone"), syscall.ENODEV)
}
