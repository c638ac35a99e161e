package policy_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// liar is a host that answers out of a string of bytes: nothing that it says
// need fit together.
type liar struct{ b []byte }

func (l *liar) byte() byte {
	if len(l.b) == 0 {
		return 0
	}
	c := l.b[0]
	l.b = l.b[1:]
	return c
}

func (l *liar) small(n int) int { return int(l.byte()) % n }

func (l *liar) err() error {
	switch l.byte() {
	case 250:
		return errors.New("no errno")
	case 251:
		return syscall.ENODEV
	case 252:
		return syscall.EPERM
	}
	return nil
}

var fuzzAddrs = []netip.Addr{
	{}, addrOf("10.1.0.1"), addrOf("10.1.0.2"), addrOf("10.2.0.1"), addrOf("fd01::1"), addrOf("fd01::2"), addrOf("fd02::1"),
	addrOf("fe80::1"), addrOf("fe80::1%a0"), addrOf("fe80::2%2"), addrOf("fd01::1%a0"), addrOf("127.0.0.1"), addrOf("::1"), addrOf("0.0.0.0"), addrOf("::"),
	addrOf("239.0.0.1"), addrOf("ff02::1%a0"), addrOf("ff0e::1"), addrOf("::ffff:10.1.0.1"), addrOf("::ffff:127.0.0.1"), addrOf("255.255.255.255"),
}

func addrOf(s string) netip.Addr { return netip.MustParseAddr(s) }

func (l *liar) addr() netip.Addr { return fuzzAddrs[l.small(len(fuzzAddrs))] }
func (l *liar) addrPort() netip.AddrPort {
	return netip.AddrPortFrom(l.addr(), uint16(l.small(3))*7000)
}
func (l *liar) name() string { return []string{"", "a0", "b0", "rxe0", "vrf"}[l.small(5)] }

func (l *liar) iface() policy.Interface {
	i := policy.Interface{Index: l.small(5) - 1, Name: l.name(), MTU: l.small(256) * 20, Up: l.byte()&3 != 0, Master: l.small(3)}
	if l.byte()&1 != 0 {
		i.Kind, i.Table = "vrf", 10
	}
	if n := l.small(4); n == 1 {
		i.HWAddr, i.Broadcast = make([]byte, 20), make([]byte, 20)
	} else {
		i.HWAddr, i.Broadcast = make([]byte, l.small(21)), make([]byte, l.small(21))
	}
	return i
}

func (l *liar) Route(policy.Query) (policy.Route, error) {
	r := policy.Route{Kind: policy.RouteKind(l.small(13)), Ifindex: l.small(4), Netdev: l.name(), Gateway: l.addr(), PrefSrc: l.addr(), Errno: syscall.Errno(l.small(130))}
	for range l.small(3) {
		r.Hops = append(r.Hops, policy.Hop{Ifindex: l.small(4), Netdev: l.name()})
	}
	return r, l.err()
}

func (l *liar) Owners(netip.Addr) (out []policy.Interface, _ error) {
	for range l.small(3) {
		out = append(out, l.iface())
	}
	return out, l.err()
}

func (l *liar) Interface(int) (policy.Interface, error)          { return l.iface(), l.err() }
func (l *liar) InterfaceByName(string) (policy.Interface, error) { return l.iface(), l.err() }

func (l *liar) Interfaces() ([]policy.Interface, error) {
	return []policy.Interface{l.iface(), l.iface()}, l.err()
}

func (l *liar) Addrs(int) (out []netip.Prefix, _ error) {
	for range l.small(3) {
		out = append(out, netip.PrefixFrom(l.addr().WithZone(""), l.small(129)))
	}
	return out, l.err()
}

func (l *liar) RDMAPorts() (out []policy.RDMAPort, _ error) {
	for range l.small(3) {
		p := policy.RDMAPort{Device: l.name(), DeviceIndex: l.small(2), GUID: uint64(l.small(4)), Port: uint8(l.small(3)), Transport: policy.Transport(l.small(5)), Netdev: l.small(4)}
		for range l.small(4) {
			p.GIDs = append(p.GIDs, policy.GIDRow{GID: policy.GIDOf(l.addr().WithZone("")), Port: p.Port, Netdev: l.small(4), Type: policy.GIDType(l.small(5))})
		}
		out = append(out, p)
	}
	return out, l.err()
}

func (l *liar) binding() policy.Binding {
	return policy.Binding{
		State: policy.BindState(l.small(5)), Addr: l.addrPort(), Device: l.name(), DeviceIndex: l.small(2), Port: uint8(l.small(3)),
		Transport: policy.Transport(l.small(5)), Netdev: l.name(), Ifindex: l.small(4) - 1, MTU: l.small(256) * 20, GID: policy.GIDOf(l.addr().WithZone("")),
	}
}

func (l *liar) kernel() policy.Kernel {
	return policy.Kernel{
		Device: l.name(), DeviceIndex: l.small(2), Port: uint8(l.small(3)), Transport: policy.Transport(l.small(5)), Local: l.addrPort(), Peer: l.addrPort(),
		SGID: policy.GIDOf(l.addr().WithZone("")), DGID: policy.GIDOf(l.addr().WithZone("")), PathMTU: l.small(8) * 512,
	}
}

// The bytes of a sound host, so that the fuzzer starts at acceptance.
var (
	fuzzLink  = []byte{3, 1, 100, 1, 0, 0, 0, 0, 0}
	fuzzPorts = []byte{1, 3, 0, 1, 1, 1, 2, 1, 1, 2, 3, 0}
	fuzzRoute = []byte{1, 2, 1, 0, 0, 0, 0, 0}
	// 10.1.0.1 on rxe0 and a0 asks for 10.1.0.2.
	fuzzBound = slices.Concat([]byte{2, 1, 0, 0, 2, 1, 0, 3, 0, 1, 1, 1, 3, 100, 1, 0, 0, 0},
		fuzzLink, []byte{0, 1}, fuzzLink, []byte{0}, fuzzPorts, fuzzRoute, fuzzRoute, fuzzRoute, fuzzRoute)
	fuzzIdle = slices.Concat([]byte{2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		fuzzRoute, fuzzRoute, fuzzLink, []byte{0}, fuzzPorts, []byte{1, 1, 24, 0})
)

// request reads the request that a string of bytes begins with.
func (l *liar) request() policy.Request {
	return policy.Request{
		Policy: policy.Policy(l.small(5)), Dst: l.addrPort(), Src: l.addrPort(), Binding: l.binding(), PortSpace: policy.PortSpace(l.small(5)),
		AllowLocalCrossing: l.byte()&1 != 0, RequireOnLinkRoute: l.byte()&1 != 0,
	}
}

// TestFuzzSeeds: the seeds are what they are meant to be.
func TestFuzzSeeds(t *testing.T) {
	for p, rest := range map[policy.Policy][]byte{
		policy.PinBound: fuzzBound, policy.RequireRoute: fuzzBound, policy.FollowRoute: fuzzIdle,
	} {
		l := &liar{append([]byte{byte(p)}, rest...)}
		d := policy.Decide(l, l.request())
		require.NoError(t, d.Err, d.Text())
		require.Equal(t, p, d.Policy)
		require.Equal(t, []int{2}, d.Netdevs())
	}
}

// FuzzDecide: whatever is asked and whatever the host answers, nothing panics,
// every refusal says what, why and what to do, and nothing is accepted that is
// not on the bound network device.
func FuzzDecide(f *testing.F) {
	for p := range byte(5) {
		f.Add(append([]byte{p}, fuzzBound...))
		f.Add(append([]byte{p}, fuzzIdle...))
		for a := range byte(len(fuzzAddrs)) {
			f.Add(append([]byte{p, a}, fuzzBound[1:]...))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &liar{b}
		d := policy.Decide(l, l.request())
		checkDecision(t, d)

		d, err := policy.CheckResolved(l, d, l.kernel())
		checkError(t, err)
		checkDecision(t, d)
		checkError(t, policy.CheckRouted(l, d, l.kernel()))
		checkError(t, policy.CheckEstablished(l, d, l.kernel(), policy.GIDRow{Netdev: l.small(4), GID: policy.GIDOf(l.addr().WithZone(""))}))
		_, err = policy.CheckBound(l, l.addrPort(), l.kernel())
		checkError(t, err)
		_, err = policy.CheckRequest(l, l.binding(), l.kernel())
		checkError(t, err)
		_, err = policy.PickLocal(l, l.name(), l.addr())
		checkError(t, err)
		_, err = policy.ResolveBinding(l, l.addrPort())
		checkError(t, err)
	})
}

func checkDecision(t *testing.T, d policy.Decision) {
	if _, err := json.Marshal(d); err != nil {
		t.Fatalf("%v: %s", err, d.Text())
	}
	if d.String() == "" || d.Text() == "" {
		t.Fatal("no text")
	}
	checkError(t, d.Err)
	bound := d.Policy == policy.PinBound || d.Policy == policy.RequireRoute
	switch {
	case (d.Err == nil) != (d.Verdict == policy.Accepted):
		t.Fatalf("verdict %s with error %v", d.Verdict, d.Err)
	case d.Err != nil && (len(d.Predicted) > 0 || d.Overridden || d.AssumedOnLink):
		t.Fatalf("a refusal promises something: %s", d.Text())
	case d.Err != nil:
	case len(d.Predicted) == 0:
		t.Fatalf("accepted without a prediction: %s", d.Text())
	case bound && (len(d.Predicted) != 1 || d.Predicted[0].Ifindex != d.Binding.Ifindex || d.Predicted[0].Device != d.Binding.Device):
		t.Fatalf("predicted elsewhere: %s", d.Text())
	case bound && d.Effective.Kind != policy.RouteLocal && d.Effective.Ifindex != d.Binding.Ifindex:
		t.Fatalf("the effective route leaves the binding: %s", d.Text())
	case d.Policy == policy.RequireRoute && d.Overridden:
		t.Fatalf("the route policy overrides: %s", d.Text())
	case !bound && d.Binding.State == policy.BoundDevice && d.Resolved == nil:
		t.Fatalf("a bound id follows: %s", d.Text())
	}
}

func checkError(t *testing.T, err error) {
	if err == nil {
		return
	}
	var e *policy.Error
	if !errors.As(err, &e) {
		t.Fatalf("no policy.Error: %v", err)
	}
	if e.Op == "" || e.Errno == 0 || e.Reason == "" || e.Remedy == "" || policy.SentinelName(err) == "" || !errors.Is(err, e.Errno) || !errors.Is(err, e.Sentinel) {
		t.Fatalf("incomplete: %#v", e)
	}
}
