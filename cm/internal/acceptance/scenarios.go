// Package acceptance holds the acceptance scenarios of the binding policy as a
// table, as far as the policy decides them before the kernel's connection
// manager is asked. The table runs against a model of a host and against the
// real kernel's routing, and the two must agree.
//
// The host: rails a, b and c on network devices a0 (10.1.0.1, fd01::1, MTU 4200),
// b0 (10.2.0.1, fd02::1, MTU 2200) and c0 (10.3.0.1, fd03::1, MTU 1500), peers
// at .2 and ::2; RDMA device rxe0 on a0, rxe1 on b0, none on c0.
package acceptance

import (
	"syscall"

	"github.com/railbind/railbind/cm/policy"
)

// Scenario is one row of the table.
type Scenario struct {
	N         int // number in the design
	Name      string
	Needs     string            // a kind of link that a kernel may lack: vrf, bridge
	Setup     []string          // ip commands, without "ip", before everything else
	RDMA      map[string]string // RDMA devices besides rxe0 and rxe1: name to network device
	Bind      string            // address, with or without port, "" for an idle id
	BindErr   error             // the bind must fail like this, nothing else is tried
	AfterBind []string          // ip commands between bind and resolve
	Src, Dst  string
	PortSpace policy.PortSpace
	Crossing  bool // AllowLocalCrossing
	OnLink    bool // RequireOnLinkRoute

	Pin, Route, Follow Want
}

// Want is what one policy must say.
type Want struct {
	Err           error // sentinel, nil: accepted
	Errno         syscall.Errno
	Netdevs       []string // predicted, where accepted
	Overridden    bool
	AssumedOnLink bool
	NoLookup      bool // refused without any look-up
}

func on(netdevs ...string) Want { return Want{Netdevs: netdevs} }

func (w Want) overridden() Want { w.Overridden = true; return w }
func (w Want) assumed() Want    { w.Overridden, w.AssumedOnLink = true, true; return w }

var (
	mismatch     = Want{Err: policy.ErrRouteMismatch, Errno: syscall.EHOSTUNREACH}
	notBound     = Want{Err: policy.ErrNotBound, Errno: syscall.EINVAL, NoLookup: true}
	alreadyBound = Want{Err: policy.ErrAlreadyBound, Errno: syscall.EINVAL, NoLookup: true}
	conflict     = Want{Err: policy.ErrSourceConflict, Errno: syscall.EINVAL, NoLookup: true}
	noScope      = Want{Err: policy.ErrScope, Errno: syscall.EINVAL, NoLookup: true}
	otherScope   = Want{Err: policy.ErrScope, Errno: syscall.EINVAL}
	loopback     = Want{Err: policy.ErrLoopbackDst, Errno: syscall.EADDRNOTAVAIL, NoLookup: true}
	family       = Want{Err: policy.ErrFamilyMismatch, Errno: syscall.EAFNOSUPPORT, NoLookup: true}
	lost         = Want{Err: policy.ErrBindingLost, Errno: syscall.EADDRNOTAVAIL}
	ambiguous    = Want{Err: policy.ErrAmbiguousDevice, Errno: syscall.Errno(76)} // Linux's ENOTUNIQ, which other systems lack
	notRDMA      = Want{Err: policy.ErrNotRDMA, Errno: syscall.ENODEV}
)

// noRoute is an unbound id's answer where the kernel has a refusing route.
func noRoute(errno syscall.Errno) Want { return Want{Err: policy.ErrNoRoute, Errno: errno} }

var linkLocals = []string{"addr add fe80::a/64 dev a0", "addr add fe80::b/64 dev b0"}

// vrfOnB puts b0, with its addresses, into a VRF.
var vrfOnB = []string{
	"link add vrf-b type vrf table 10", "link set vrf-b up", "link set b0 master vrf-b",
	"addr replace fd02::1/64 dev b0", // enslaving drops the IPv6 address
}

// Scenarios is the table.
var Scenarios = []Scenario{
	{N: 1, Name: "bound, the route agrees", Bind: "10.1.0.1", Dst: "10.1.0.2:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 1, Name: "bound, the route agrees, IPv6", Bind: "fd01::1", Dst: "[fd01::2]:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 1, Name: "bound, the same source again", Bind: "10.1.0.1:5000", Src: "10.1.0.1", Dst: "10.1.0.2:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 1, Name: "bound, IPv4-mapped", Bind: "::ffff:10.1.0.1", Dst: "[::ffff:10.1.0.2]:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 1, Name: "idle with a source: bind it first", Src: "10.1.0.1", Dst: "10.1.0.2:7471",
		Pin: on("a0"), Route: on("a0"), Follow: conflict},

	{N: 2, Name: "idle", Dst: "10.2.0.2:7471", Pin: notBound, Route: notBound, Follow: on("b0")},
	{N: 2, Name: "idle, IPv6", Dst: "[fd02::2]:7471", Pin: notBound, Route: notBound, Follow: on("b0")},
	{N: 2, Name: "idle, to a rail without RDMA", Dst: "10.3.0.2:7471", Pin: notBound, Route: notBound, Follow: notRDMA},
	{N: 2, Name: "idle, to an own address", Dst: "10.2.0.1:7471", Pin: notBound, Route: notBound, Follow: on("b0")},
	{N: 2, Name: "idle, to an own address, IPv6", Dst: "[fd02::1]:7471", Pin: notBound, Route: notBound, Follow: on("b0")},
	{N: 2, Name: "idle, to an own address without RDMA", Dst: "10.3.0.1:7471", Pin: notBound, Route: notBound, Follow: notRDMA},
	{N: 2, Name: "idle, no route", Dst: "10.99.0.1:7471", Pin: notBound, Route: notBound, Follow: noRoute(syscall.ENETUNREACH)},
	{N: 2, Name: "idle, no route, IPv6", Dst: "[fd99::1]:7471", Pin: notBound, Route: notBound, Follow: noRoute(syscall.ENETUNREACH)},
	{N: 2, Name: "idle, prohibited", Setup: []string{"route add prohibit 10.52.0.0/24"}, Dst: "10.52.0.1:7471",
		Pin: notBound, Route: notBound, Follow: noRoute(syscall.EACCES)},
	{N: 2, Name: "idle, two next hops", Setup: []string{"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"},
		Dst: "10.60.0.1:7471", Pin: notBound, Route: notBound, Follow: on("a0", "b0")},
	{N: 2, Name: "wildcard", Bind: "0.0.0.0:7000", Dst: "10.2.0.2:7471", Pin: notBound, Route: notBound, Follow: on("b0")},

	{N: 3, Name: "bound, another source", Bind: "10.1.0.1", Src: "10.2.0.1", Dst: "10.2.0.2:7471",
		Pin: conflict, Route: conflict, Follow: conflict},
	{N: 3, Name: "bound, another source, IPv6", Bind: "fd01::1", Src: "fd02::1", Dst: "[fd02::2]:7471",
		Pin: conflict, Route: conflict, Follow: conflict},
	{N: 3, Name: "bound, another source port", Bind: "10.1.0.1:5000", Src: "10.1.0.1:5001", Dst: "10.1.0.2:7471",
		Pin: conflict, Route: conflict, Follow: conflict},

	{N: 4, Name: "bound, source without RDMA, own address", Bind: "10.1.0.1", Src: "10.3.0.1", Dst: "10.1.0.1:7471",
		Pin: conflict, Route: conflict, Follow: conflict},
	{N: 4, Name: "bound, own address: loopback", Bind: "10.1.0.1", Dst: "10.1.0.1:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 4, Name: "bound, own address: loopback, IPv6", Bind: "fd01::1", Dst: "[fd01::1]:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},

	{N: 5, Name: "bound, address of the other rail", Bind: "10.1.0.1", Dst: "10.2.0.1:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 5, Name: "bound, address of the other rail, opted in", Bind: "10.1.0.1", Dst: "10.2.0.1:7471", Crossing: true,
		Pin: on("a0").assumed(), Route: mismatch, Follow: alreadyBound},
	{N: 6, Name: "bound, address of the other rail, IPv6", Bind: "fd01::1", Dst: "[fd02::1]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 6, Name: "bound, address of the other rail, IPv6, opted in", Bind: "fd01::1", Dst: "[fd02::1]:7471", Crossing: true,
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},

	{N: 7, Name: "bound, IPv6 route through the other rail", Bind: "fd01::1", Dst: "[fd02::2]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 8, Name: "bound, IPv6 route through a rail without RDMA", Bind: "fd01::1", Dst: "[fd03::2]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 8, Name: "bound, IPv4 route through a rail without RDMA", Bind: "10.1.0.1", Dst: "10.3.0.2:7471",
		Pin: on("a0").assumed(), Route: mismatch, Follow: alreadyBound},

	{N: 9, Name: "bound, IPv4 route through the other rail", Bind: "10.1.0.1", Dst: "10.2.0.2:7471",
		Pin: on("a0").assumed(), Route: mismatch, Follow: alreadyBound},
	{N: 9, Name: "bound, IPv4 route through the other rail, a real route wanted", Bind: "10.1.0.1", Dst: "10.2.0.2:7471", OnLink: true,
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 9, Name: "bound, no route at all", Bind: "10.1.0.1", Dst: "10.99.0.1:7471",
		Pin: on("a0").assumed(), Route: mismatch, Follow: alreadyBound},
	{N: 9, Name: "bound, no route at all, IPv6", Bind: "fd01::1", Dst: "[fd99::1]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 9, Name: "bound, two next hops", Setup: []string{"route add 10.60.0.0/24 nexthop via 10.1.0.2 dev a0 nexthop via 10.2.0.2 dev b0"},
		Bind: "10.1.0.1", Dst: "10.60.0.1:7471",
		Pin: on("a0").overridden(), Route: mismatch, Follow: alreadyBound},
	{N: 9, Name: "bound, a rule by source agrees", Setup: []string{"rule add from 10.1.0.1 lookup 100", "route add 10.2.0.2/32 dev a0 table 100"},
		Bind: "10.1.0.1", Dst: "10.2.0.2:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 9, Name: "bound, a rule by source agrees, IPv6", Setup: []string{"rule add from fd01::1 lookup 100", "route add fd02::2/128 dev a0 table 100"},
		Bind: "fd01::1", Dst: "[fd02::2]:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},

	{N: 10, Name: "bound, unreachable", Setup: []string{"route add unreachable 10.50.0.0/24"}, Bind: "10.1.0.1", Dst: "10.50.0.2:7471",
		Pin: on("a0").assumed(), Route: mismatch, Follow: alreadyBound},
	{N: 10, Name: "bound, blackhole", Setup: []string{"route add blackhole 10.50.0.0/24"}, Bind: "10.1.0.1", Dst: "10.50.0.2:7471",
		Pin: on("a0").assumed(), Route: mismatch, Follow: alreadyBound},
	{N: 10, Name: "bound, prohibit", Setup: []string{"route add prohibit 10.50.0.0/24"}, Bind: "10.1.0.1", Dst: "10.50.0.2:7471",
		Pin: on("a0").assumed(), Route: mismatch, Follow: alreadyBound},
	{N: 10, Name: "bound, unreachable, IPv6", Setup: []string{"route add unreachable fd50::/64"}, Bind: "fd01::1", Dst: "[fd50::2]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 10, Name: "bound, blackhole, IPv6", Setup: []string{"route add blackhole fd50::/64"}, Bind: "fd01::1", Dst: "[fd50::2]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 10, Name: "idle, unreachable", Setup: []string{"route add unreachable 10.50.0.0/24"}, Dst: "10.50.0.2:7471",
		Pin: notBound, Route: notBound, Follow: noRoute(syscall.EHOSTUNREACH)},
	{N: 10, Name: "idle, blackhole, IPv6", Setup: []string{"route add blackhole fd50::/64"}, Dst: "[fd50::2]:7471",
		Pin: notBound, Route: notBound, Follow: noRoute(syscall.EINVAL)},

	{N: 11, Name: "wildcard, a source", Bind: "0.0.0.0:7000", Src: "10.2.0.1", Dst: "10.1.0.2:7471",
		Pin: conflict, Route: conflict, Follow: conflict},
	{N: 11, Name: "wildcard, a source, IPv6", Bind: "[::]:7000", Src: "fd02::1", Dst: "[fd01::2]:7471",
		Pin: conflict, Route: conflict, Follow: conflict},

	{N: 12, Name: "bind an address without RDMA", Bind: "10.3.0.1", BindErr: policy.ErrNotRDMA},
	{N: 12, Name: "bind an address without RDMA, IPv6", Bind: "fd03::1", BindErr: policy.ErrNotRDMA},
	{N: 12, Name: "bind an address of nobody", Bind: "10.99.0.1", BindErr: policy.ErrNotLocal},
	{N: 12, Name: "bind loopback", Bind: "127.0.0.1", BindErr: policy.ErrNotRDMA},

	{N: 13, Name: "the second destination of a retry", Dst: "10.2.0.2:7471", Pin: notBound, Route: notBound, Follow: on("b0")},

	{N: 14, Name: "link-local, zones agree", Setup: linkLocals, Bind: "fe80::a%a0", Dst: "[fe80::99%a0]:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 14, Name: "link-local, zones differ", Setup: linkLocals, Bind: "fe80::a%a0", Dst: "[fe80::99%b0]:7471",
		Pin: otherScope, Route: otherScope, Follow: alreadyBound},
	{N: 14, Name: "link-local, no zone", Setup: linkLocals, Bind: "fe80::a%a0", Dst: "[fe80::99]:7471",
		Pin: noScope, Route: noScope, Follow: noScope},
	{N: 14, Name: "link-local, no such link", Setup: linkLocals, Bind: "fe80::a%a0", Dst: "[fe80::99%nix]:7471",
		Pin: otherScope, Route: otherScope, Follow: alreadyBound},
	{N: 14, Name: "link-local, wrong zone at bind", Setup: linkLocals, Bind: "fe80::a%b0", BindErr: policy.ErrNotRDMA},
	{N: 14, Name: "link-local, no zone at bind", Setup: linkLocals, Bind: "fe80::a", BindErr: policy.ErrScope},
	{N: 14, Name: "link-local, wildcard", Setup: linkLocals, Bind: "[::]:7000", Dst: "[fe80::99%a0]:7471",
		Pin: noScope, Route: noScope, Follow: noScope},
	{N: 14, Name: "link-local, idle", Setup: linkLocals, Dst: "[fe80::99%b0]:7471",
		Pin: notBound, Route: notBound, Follow: on("b0")},
	{N: 14, Name: "link-local, global source", Setup: linkLocals, Bind: "fd01::1", Dst: "[fe80::99%a0]:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 14, Name: "a zone that the kernel drops", Bind: "fd01::1", Dst: "[fd01::2%b0]:7471",
		Pin: noScope, Route: noScope, Follow: noScope},

	{N: 15, Name: "VRF leaks to the main table", Needs: "vrf", Setup: vrfOnB, Bind: "fd02::1", Dst: "[fd01::2]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF with an unreachable default", Needs: "vrf", Bind: "fd02::1", Dst: "[fd01::2]:7471",
		Setup: append(vrfOnB[:len(vrfOnB):len(vrfOnB)], "route add unreachable default metric 4278198272 vrf vrf-b"),
		Pin:   mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF, IPv4 through the other rail", Needs: "vrf", Setup: vrfOnB, Bind: "10.2.0.1", Dst: "10.1.0.2:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF, the own peer", Needs: "vrf", Setup: vrfOnB, Bind: "fd02::1", Dst: "[fd02::2]:7471",
		Pin: on("b0").overridden(), Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF, the own peer, IPv4", Needs: "vrf", Setup: vrfOnB, Bind: "10.2.0.1", Dst: "10.2.0.2:7471",
		Pin: on("b0").overridden(), Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF, the own address", Needs: "vrf", Setup: vrfOnB, Bind: "10.2.0.1", Dst: "10.2.0.1:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF, the own address, IPv6", Needs: "vrf", Setup: vrfOnB, Bind: "fd02::1", Dst: "[fd02::1]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF, the own address, opted in", Needs: "vrf", Setup: vrfOnB, Bind: "10.2.0.1", Dst: "10.2.0.1:7471", Crossing: true,
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
	{N: 15, Name: "VRF, idle", Needs: "vrf", Setup: vrfOnB, Dst: "10.2.0.2:7471",
		Pin: notBound, Route: notBound, Follow: noRoute(syscall.ENETUNREACH)},

	{N: 16, Name: "a host route through the other rail", Setup: []string{"route add 10.1.0.2/32 dev b0"}, Bind: "10.1.0.1", Dst: "10.1.0.2:7471",
		Pin: on("a0").overridden(), Route: mismatch, Follow: alreadyBound},
	{N: 16, Name: "a host route through the other rail, unbound", Setup: []string{"route add 10.1.0.2/32 dev b0"}, Dst: "10.1.0.2:7471",
		Pin: notBound, Route: notBound, Follow: on("b0")},
	{N: 16, Name: "a host route through the other rail, IPv6", Setup: []string{"route add fd01::2/128 dev b0"}, Bind: "fd01::1", Dst: "[fd01::2]:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},

	{N: 17, Name: "two bridge ports carry RDMA", Needs: "bridge",
		Setup: []string{"link add br0 type bridge", "link set br0 up", "addr add 10.4.0.1/24 dev br0"},
		RDMA:  map[string]string{"rxe2": "br0", "rxe3": "br0"}, Bind: "10.4.0.1", BindErr: policy.ErrAmbiguousDevice},

	{N: 17, Name: "an address on two rails", Setup: []string{"addr add 10.7.0.1/24 dev a0", "addr add 10.7.0.1/24 dev b0"},
		Bind: "10.7.0.1", BindErr: policy.ErrAmbiguousDevice},
	{N: 17, Name: "an address on a rail and a netdev without RDMA", Setup: []string{"addr add 10.7.0.1/24 dev a0", "addr add 10.7.0.1/24 dev c0"},
		Bind: "10.7.0.1", BindErr: policy.ErrAmbiguousDevice},
	{N: 17, Name: "an address on a rail and a netdev without RDMA, IPv6", Setup: []string{"addr add fd07::1/64 dev a0", "addr add fd07::1/64 dev c0"},
		Bind: "fd07::1", BindErr: policy.ErrAmbiguousDevice},
	{N: 17, Name: "to an address on two rails, idle", Setup: []string{"addr add 10.7.0.1/24 dev a0", "addr add 10.7.0.1/24 dev b0"}, Dst: "10.7.0.1:7471",
		Pin: notBound, Route: notBound, Follow: ambiguous},
	{N: 17, Name: "to an address on two rails", Setup: []string{"addr add 10.7.0.1/24 dev a0", "addr add 10.7.0.1/24 dev b0"}, Bind: "10.1.0.1", Dst: "10.7.0.1:7471",
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},

	{N: 18, Name: "loopback", Bind: "10.1.0.1", Dst: "127.0.0.1:7471", Pin: loopback, Route: loopback, Follow: loopback},
	{N: 18, Name: "loopback, idle", Dst: "127.0.0.1:7471", Pin: loopback, Route: loopback, Follow: loopback},
	{N: 18, Name: "loopback, idle, IPv4-mapped", Dst: "[::ffff:127.0.0.1]:7471", Pin: loopback, Route: loopback, Follow: loopback},
	{N: 18, Name: "loopback, IPv6", Bind: "fd01::1", Dst: "[::1]:7471", Pin: loopback, Route: loopback, Follow: loopback},
	{N: 18, Name: "unspecified", Bind: "10.1.0.1", Dst: "0.0.0.0:7471", Pin: loopback, Route: loopback, Follow: loopback},
	{N: 18, Name: "unspecified, IPv6", Dst: "[::]:7471", Pin: loopback, Route: loopback, Follow: loopback},
	{N: 18, Name: "multicast", Bind: "10.1.0.1", Dst: "239.1.1.1:7471", Pin: loopback, Route: loopback, Follow: loopback},
	{N: 18, Name: "multicast, UDP port space", Bind: "10.1.0.1", Dst: "239.1.1.1:7471", PortSpace: policy.PortSpaceUDP,
		Pin: on("a0"), Route: on("a0"), Follow: alreadyBound},
	{N: 18, Name: "families differ", Bind: "10.1.0.1", Dst: "[fd01::2]:7471", Pin: family, Route: family, Follow: family},
	{N: 18, Name: "families differ, wildcard", Bind: "[::]:7000", Dst: "10.1.0.2:7471", Pin: family, Route: family, Follow: family},

	{N: 19, Name: "the address is removed", Bind: "10.1.0.1", AfterBind: []string{"addr del 10.1.0.1/24 dev a0"}, Dst: "10.1.0.2:7471",
		Pin: lost, Route: lost, Follow: alreadyBound},
	{N: 19, Name: "the address is removed, IPv6", Bind: "fd01::1", AfterBind: []string{"addr del fd01::1/64 dev a0"}, Dst: "[fd01::2]:7471",
		Pin: lost, Route: lost, Follow: alreadyBound},
	{N: 19, Name: "the network device is removed", Bind: "10.1.0.1", AfterBind: []string{"link del a0"}, Dst: "10.1.0.2:7471",
		Pin: lost, Route: lost, Follow: alreadyBound},
	{N: 19, Name: "the network device is down", Bind: "10.1.0.1", AfterBind: []string{"link set a0 down"}, Dst: "10.1.0.2:7471",
		Pin: mismatch, Route: mismatch, Follow: alreadyBound},
}
