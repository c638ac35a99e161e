//go:build linux

package cm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// The network changes while a connection is made. Either the connection is where
// it was promised, or an error says what changed: never a silent split.

// side is what a round is about: on a rail, bound to local, towards peer; the
// rail has another address, and away is another rail with a gateway.
type side struct {
	rail
	local, peer, other, gateway string
}

// rail is a network device, what is on it, and another one.
type rail struct {
	rdma, netdev, away string
	mtu                int
	linkLocal          string
}

var (
	railA = rail{"rxe0", "a0", "b0", 4200, "fe80::1"}
	railB = rail{"rxe1", "b0", "a0", 2200, "fe80::2"}
	railC = rail{"rxe9", "c0", "b0", 1500, "fe80::3"} // with a device that a test makes there
)

var sides = map[string]side{
	"IPv4": {railA, "10.1.0.9", "10.1.0.2", "10.1.0.1", "10.2.0.2"},
	"IPv6": {railA, "fd01::9", "fd01::2", "fd01::1", "fd02::2"},
}

// change is done to the network and undone again.
type netChange struct {
	name     string
	object   func(side) string // what an error calls it
	do, undo func(side) error
	pathMTU  int // of a0 while it holds, where it differs
	// muting: rxe cannot send a connection manager's message meanwhile, and after
	// that takes none any more, on no connection of the device. So on a device that
	// others need it is done while resolving only.
	muting bool
}

func index(name string) int {
	i, err := net.InterfaceByName(name)
	if err != nil {
		panic(err)
	}
	return i.Index
}

func link(name string) netlink.Link {
	l, err := netlink.LinkByName(name)
	if err != nil {
		panic(err)
	}
	return l
}

func host32(addr string) *net.IPNet {
	a := netip.MustParseAddr(addr)
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

func hostRoute(s side, kind int) *netlink.Route {
	r := &netlink.Route{Dst: host32(s.peer), Type: kind}
	if kind == unix.RTN_UNICAST {
		r.LinkIndex, r.Gw = index(s.away), net.ParseIP(s.gateway)
	}
	return r
}

func sourceRule(s side) *netlink.Rule {
	r := netlink.NewRule()
	r.Src, r.Table, r.Priority = host32(s.local), 77, 77
	if netip.MustParseAddr(s.local).Is6() {
		r.Family = netlink.FAMILY_V6
	}
	return r
}

func address(addr string) *netlink.Addr {
	a := netip.MustParseAddr(addr)
	bits := 24
	if a.Is6() {
		bits = 64
	}
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}, Flags: unix.IFA_F_NODAD}
}

func neighbour(s side, mac net.HardwareAddr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: index(s.netdev), IP: net.ParseIP(s.peer), State: netlink.NUD_REACHABLE, HardwareAddr: mac}
}

func routeChange(name string, kind int) netChange {
	return netChange{
		name: name,
		object: func(s side) string {
			via := map[int]string{unix.RTN_UNICAST: " via " + s.gateway + " dev " + s.away}[kind]
			word := map[int]string{unix.RTN_BLACKHOLE: "blackhole ", unix.RTN_UNREACHABLE: "unreachable "}[kind]
			return fmt.Sprintf("route %s%s%s table 254 added", word, host32(s.peer), via)
		},
		do:   func(s side) error { return netlink.RouteAdd(hostRoute(s, kind)) },
		undo: func(s side) error { return netlink.RouteDel(hostRoute(s, kind)) },
	}
}

func netChanges() []netChange {
	return []netChange{
		routeChange("route through the other rail", unix.RTN_UNICAST),
		routeChange("blackhole", unix.RTN_BLACKHOLE),
		routeChange("unreachable", unix.RTN_UNREACHABLE),
		{
			name:   "source rule",
			object: func(s side) string { return fmt.Sprintf("rule 77 from %s table 77 added", host32(s.local)) },
			do: func(s side) error {
				r := hostRoute(s, unix.RTN_UNICAST)
				r.Table = 77
				return errors.Join(netlink.RouteAdd(r), netlink.RuleAdd(sourceRule(s)))
			},
			undo: func(s side) error {
				r := hostRoute(s, unix.RTN_UNICAST)
				r.Table = 77
				return errors.Join(netlink.RuleDel(sourceRule(s)), netlink.RouteDel(r))
			},
		},
		{
			name:   "address removed",
			object: func(s side) string { return "address " + s.local + " of " + s.netdev + " deleted" },
			muting: true,
			do:     func(s side) error { return netlink.AddrDel(link(s.netdev), address(s.local)) },
			undo:   func(s side) error { return netlink.AddrAdd(link(s.netdev), address(s.local)) },
		},
		{
			name: "address moved",
			// (That IPv6 has an address is told a moment later.)
			object: func(s side) string { return "address " + s.local + " of " + s.netdev + " deleted" },
			muting: true,
			do: func(s side) error {
				return errors.Join(netlink.AddrDel(link(s.netdev), address(s.local)), netlink.AddrAdd(link(s.away), address(s.local)))
			},
			undo: func(s side) error {
				return errors.Join(netlink.AddrDel(link(s.away), address(s.local)), netlink.AddrAdd(link(s.netdev), address(s.local)))
			},
		},
		{
			name:   "link down",
			object: func(s side) string { return fmt.Sprintf("link %s changed (down, MTU %d)", s.netdev, s.mtu) },
			muting: true,
			do:     func(s side) error { return netlink.LinkSetDown(link(s.netdev)) },
			// The link-local address does not stay; without one the connection
			// manager sends no neighbour solicitation.
			undo: func(s side) error {
				return errors.Join(netlink.LinkSetUp(link(s.netdev)), netlink.AddrAdd(link(s.netdev), address(s.linkLocal)))
			},
		},
		{
			name:    "MTU",
			object:  func(side) string { return ", MTU 1500)" }, // whether the link has its carrier back yet
			do:      func(s side) error { return netlink.LinkSetMTU(link(s.netdev), 1500) },
			undo:    func(s side) error { return netlink.LinkSetMTU(link(s.netdev), s.mtu) },
			pathMTU: 1024,
		},
		{
			name:   "neighbour replaced",
			object: func(side) string { return "" },
			do: func(s side) error {
				return netlink.NeighSet(neighbour(s, net.HardwareAddr{2, 0, 0, 0, 0, 99}))
			},
		},
	}
}

// known are the errors by which a step may say that something changed.
var known = []error{
	ErrRouteMismatch, ErrDeviceSplit, ErrBindingLost, ErrChanged, ErrNotLocal, ErrNotRDMA, ErrNoRoute,
	ErrUnreachable, ErrDisconnected, ErrRejected, ibv.ErrDeviceRemoved,
}

func requireTold(t *testing.T, err error) {
	t.Helper()
	var late *TimeoutError
	if errors.As(err, &late) {
		return
	}
	for _, k := range known {
		if errors.Is(err, k) {
			return
		}
	}
	t.Errorf("the error does not say what changed: %v", err)
}

// requireNamed wants the error of a step, but for one that the other end brings
// about, to name the object that changed.
func requireNamed(t *testing.T, err error, object string) {
	t.Helper()
	var e *OpError
	require.ErrorAs(t, err, &e)
	if e.Op == "send" || e.Op == "receive" || errors.Is(err, ErrRejected) {
		return
	}
	require.ErrorContains(t, err, object)
}

// ready makes rail a what it was: the address has its GID, the neighbours answer.
func ready(t *testing.T, s side) {
	t.Helper()
	if !iwarp() {
		awaitGID(t, "rxe0", netip.MustParseAddr(s.local))
		awaitGID(t, "rxe0", netip.MustParseAddr(s.other))
	}
	for start := time.Now(); ; {
		id := newTestID(t, IDConfig{})
		err := id.ResolveAddr(within(t, 20*time.Second), netip.AddrPortFrom(netip.MustParseAddr(s.local), 0), netip.AddrPortFrom(netip.MustParseAddr(s.peer), 1))
		if err == nil {
			return
		}
		if time.Since(start) > 30*time.Second {
			require.NoError(t, err, "rail a does not come back")
		}
		require.NoError(t, id.Close())
	}
}

func changesAsked(short int) int {
	if n, err := strconv.Atoi(os.Getenv("RAILBIND_CHANGES_N")); err == nil && n > 0 {
		return n
	}
	return short
}

func changesSeed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("RAILBIND_CHANGES_SEED"), 10, 64); err == nil {
		return n
	}
	return 1
}

// changer is a step hook that makes the change at one step, and, if it is there
// and back, undoes it at the next.
type changer struct {
	step string
	back bool
	c    netChange
	s    side
	done bool
	held bool
	err  error

	patience time.Duration // for the other end, where none may answer
}

func (c *changer) at(step string) {
	switch {
	case c.held && c.back:
		c.undo()
	case !c.done && step == c.step:
		c.done, c.held = true, true
		c.err = errors.Join(c.err, c.c.do(c.s))
	}
}

func (c *changer) undo() {
	if c.held {
		c.held = false
		c.err = errors.Join(c.err, c.c.undo(c.s))
	}
}

func TestPairChanges(t *testing.T) {
	needTopo(t, "pair")
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/a0/keep_addr_on_down", []byte("1"), 0o600))
	changes := netChanges()
	for _, s := range sides {
		require.NoError(t, netlink.AddrAdd(link("a0"), address(s.local)))
		t.Cleanup(func() { require.NoError(t, netlink.AddrDel(link("a0"), address(s.local))) })
		ready(t, s)
	}
	neighs, err := netlink.NeighList(index("a0"), 0)
	require.NoError(t, err)
	for i := range changes {
		if changes[i].name != "neighbour replaced" {
			continue
		}
		changes[i].undo = func(s side) error {
			for _, n := range neighs {
				if n.IP.Equal(net.ParseIP(s.peer)) {
					return netlink.NeighSet(neighbour(s, n.HardwareAddr))
				}
			}
			return fmt.Errorf("no neighbour %s", s.peer)
		}
	}
	resolving := []string{"decided", "address resolved", "before the route", "route resolved"}
	connecting := []string{"before connect", "path checked", "established", "before accept"}

	short := 40
	if iwarp() { // whose path has less to go wrong
		short = 20
	}
	seed, n := changesSeed(), changesAsked(short)
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %d rounds", seed, n)
	families := []string{"IPv4", "IPv6"}
	policies := []Policy{PinBound, RequireRoute}
	kept, told := map[string]int{}, map[string]int{}
	for round := range n {
		fam, pol := families[rnd.IntN(2)], policies[rnd.IntN(2)]
		c := &changer{c: changes[rnd.IntN(len(changes))], back: rnd.IntN(2) == 0, s: sides[fam]}
		play := resolveRound
		if rnd.IntN(2) == 0 {
			c.step = resolving[rnd.IntN(len(resolving))]
		} else {
			c.step, play = connecting[rnd.IntN(len(connecting))], connectRound
			for c.c.muting {
				c.c = changes[rnd.IntN(len(changes))]
			}
		}
		name := fmt.Sprintf("%s, %s, %s at %q, back %t", fam, pol, c.c.name, c.step, c.back)
		err := play(t, c, pol)
		c.undo()
		require.NoError(t, c.err, name)
		require.True(t, c.done, name)
		if err != nil {
			told[c.c.name]++
			requireTold(t, err)
			requireNamed(t, err, c.c.object(c.s))
			t.Logf("%d: %s: %v", round, name, err)
		} else {
			kept[c.c.name]++
		}
		if t.Failed() {
			t.Fatalf("round %d: %s", round, name)
		}
		ready(t, c.s)
	}
	for _, c := range changes {
		t.Logf("%-20s kept %4d, told %4d", c.name, kept[c.name], told[c.name])
	}
}

// resolveRound resolves towards the peer beyond the rail; what the kernel made is
// told by the MTU of the path, which differs between all netdevs. (iWARP has none:
// where its TCP goes, and that is later, TestPairRouteThereAndBack shows.)
func resolveRound(t *testing.T, c *changer, pol Policy) error {
	id, err := NewID(IDConfig{Policy: pol, stepHook: c.at, Timeouts: Timeouts{ResolveAddr: 3 * time.Second}})
	require.NoError(t, err)
	defer id.Close()
	ctx := within(t, 30*time.Second)
	local, peer := netip.MustParseAddr(c.s.local), netip.MustParseAddr(c.s.peer)
	if err = id.ResolveAddr(ctx, netip.AddrPortFrom(local, 0), netip.AddrPortFrom(peer, 7471)); err == nil {
		err = id.ResolveRoute(ctx)
	}
	if err != nil {
		return err
	}
	mtu := ibv.MTU(id.info.PathMTU).Bytes()
	if !iwarp() && mtu != 4096 && (mtu != c.c.pathMTU || mtu == 0) {
		t.Errorf("silent split: path MTU %d", mtu)
	}
	require.Equal(t, dev("rxe0"), id.Binding().Device)
	return nil
}

// connectRound connects on the rail itself and sends data.
func connectRound(t *testing.T, c *changer, pol Policy) error {
	ctx := within(t, 60*time.Second)
	times := Timeouts{ResolveAddr: 3 * time.Second, Connect: c.patience}
	other := netip.MustParseAddr(c.s.other)
	dialer := Dialer{LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(c.s.local), 0), Policy: pol, Timeouts: times}
	l, err := Listen(netip.AddrPortFrom(other, 0), ListenConfig{Timeouts: times})
	require.NoError(t, err)
	defer l.Close()
	if c.step == "before accept" {
		l.id.cfg.stepHook = c.at // its children have it too
	} else {
		dialer.stepHook = c.at
	}
	type end struct {
		c   *Conn
		err error
	}
	passive := make(chan end, 1)
	actx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		r, err := l.Accept(actx)
		if err != nil {
			passive <- end{nil, err}
			return
		}
		s, err := r.Accept(actx, AcceptConfig{})
		passive <- end{s, err}
	}()
	before := packets(t)
	cl, err := dialer.dialOnce(ctx, l.Addr()) // DialAddr would dial again
	if err != nil {
		stop()
		if p := <-passive; p.c != nil {
			p.c.Close()
		} else if !errors.Is(p.err, context.Canceled) {
			requireTold(t, p.err)
		}
		return err
	}
	defer cl.Close()
	p := <-passive
	if p.err != nil {
		return p.err
	}
	defer p.c.Close()
	c.undo() // what the data needs is back; a connection that has ended says so
	buf := make([]byte, 1000)
	for range 10 {
		if err := cl.Send(ctx, buf); err != nil {
			return err
		}
		if _, err := p.c.Recv(ctx, buf); err != nil {
			return err
		}
	}
	after := packets(t)
	if iwarp() {
		require.Equal(t, dev(c.s.rdma), cl.ID().Binding().Device) // its packets go over lo here
		return nil
	}
	for name := range after {
		sent := after[name] - before[name]
		// Of the other device: a few packets by which an earlier connection ends are none of the data.
		if name == c.s.rdma && sent < 20 || name != c.s.rdma && sent >= 10 {
			t.Errorf("silent split: packets before %v, after %v", before, after)
		}
	}
	return nil
}

// packets counts what the RDMA devices have sent.
func packets(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	if iwarp() {
		return out // which does not count
	}
	devices, err := os.ReadDir("/sys/class/infiniband")
	require.NoError(t, err)
	for _, d := range devices {
		b, err := os.ReadFile("/sys/class/infiniband/" + d.Name() + "/ports/1/hw_counters/sent_pkts")
		require.NoError(t, err)
		out[d.Name()], err = strconv.Atoi(string(b[:len(b)-1]))
		require.NoError(t, err)
	}
	return out
}

// The hole that no query of the kernel's objects closes: an IPv6 route comes and
// goes around the kernel's own look-up, and both rails have the same MTU. The
// kernel keeps the other rail's path, and every field of its id looks right.
func TestPairRouteThereAndBack(t *testing.T) {
	needTopo(t, "pair")
	if iwarp() {
		tcpThereAndBack(t)
		return
	}
	s := sides["IPv6"]
	s.local = "fd01::1"
	src, dst := ap("[fd01::1]:0"), ap("[fd01::2]:7471")
	route := routeChange("route through the other rail", unix.RTN_UNICAST)

	t.Run("kernel alone", func(t *testing.T) {
		id := newTestID(t, IDConfig{})
		require.NoError(t, id.Bind(src))
		require.NoError(t, route.do(s))
		ev, err := id.await(within(t, time.Minute), "resolve", 20*time.Second, func(h cgo.ID, left time.Duration) error {
			return h.ResolveAddr(cgo.SockAddr{}, cgo.ToSockAddr(dst), millis(left))
		})
		require.NoError(t, errors.Join(err, route.undo(s)))
		require.NoError(t, eventError(&ev, cgo.EventAddrResolved))
		ev, err = id.await(within(t, time.Minute), "route", 20*time.Second, func(h cgo.ID, left time.Duration) error {
			return h.ResolveRoute(millis(left))
		})
		require.NoError(t, err)
		require.Equal(t, "rxe0", ev.Info.Device)
		require.Equal(t, 2048, ibv.MTU(ev.Info.PathMTU).Bytes(), "b0's: the split that the rest is about")
	})

	require.NoError(t, netlink.LinkSetMTU(link("b0"), 4200))
	t.Cleanup(func() { require.NoError(t, netlink.LinkSetMTU(link("b0"), 2200)) })
	for _, c := range []struct {
		step string
		err  error
	}{
		{"decided", ErrChanged},
		{"address resolved", ErrChanged}, // too late to matter; that cannot be told
		{"before the route", nil},        // the kernel looks no route up then
	} {
		t.Run(c.step, func(t *testing.T) {
			ch := &changer{step: c.step, back: true, c: route, s: s}
			if c.step == "address resolved" { // the look-ups after it follow no hook
				ch.c.do = func(s side) error { return errors.Join(route.do(s), route.undo(s)) }
				ch.c.undo = func(side) error { return nil }
			}
			id := newTestID(t, IDConfig{stepHook: ch.at})
			err := id.ResolveAddr(within(t, time.Minute), src, dst)
			if err == nil {
				err = id.ResolveRoute(within(t, time.Minute))
			}
			ch.undo()
			require.NoError(t, ch.err)
			require.ErrorIs(t, err, c.err)
			if c.err != nil {
				require.ErrorIs(t, err, syscall.EHOSTUNREACH)
				require.ErrorContains(t, err, "route fd01::2/128 via fd02::2 dev b0 table 254 added")
				// The decision that was taken is still there to be looked at.
				d := id.Decision()
				require.Equal(t, policy.Accepted, d.Verdict)
				require.Equal(t, "a0", d.Binding.Netdev)
				require.Equal(t, dst, d.Request.Dst)
				t.Log(err)
			}
		})
	}
}

// The bound netdev's own MTU comes and goes: no split, but it looks like one. The
// error says both, and a Dialer dials again.
func TestPairChangesOfMTU(t *testing.T) {
	needTopo(t, "pair")
	var mtu netChange
	for _, c := range netChanges() {
		if c.name == "MTU" {
			mtu = c
		}
	}
	ch := &changer{step: "before the route", back: true, c: mtu, s: sides["IPv4"]}
	d := Dialer{LocalAddr: ap("10.1.0.1:0"), stepHook: ch.at}
	_, err := d.resolve(within(t, time.Minute), ap("10.1.0.2:7471"))
	ch.undo()
	require.NoError(t, ch.err)
	if iwarp() { // whose path has no MTU
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, ErrDeviceSplit)
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, mtu.object(ch.s))
	require.True(t, worthRetry(err))
	id, err := d.resolve(within(t, time.Minute), ap("10.1.0.2:7471"))
	require.NoError(t, err)
	require.NoError(t, id.Close())
}

// The kernel looks the route up once more when the QP is moved, within Connect.
// Here the peer is another kernel, and the route to it changes around that.
func TestRailsChanges(t *testing.T) {
	needTopo(t, "rails")
	for _, s := range []side{
		{local: "10.10.1.1", peer: "10.10.1.2", gateway: "10.10.0.2"},
		{local: "fd10:1::1", peer: "fd10:1::2", gateway: "fd10:0::2"},
	} {
		r := &netlink.Route{Dst: host32(s.peer), LinkIndex: index("rail0"), Gw: net.ParseIP(s.gateway)}
		v6 := netip.MustParseAddr(s.local).Is6()
		stay := netChange{name: "stays",
			do:   func(side) error { return netlink.RouteAdd(r) },
			undo: func(side) error { return netlink.RouteDel(r) }}
		gone := netChange{name: "there and back",
			do:   func(side) error { return errors.Join(netlink.RouteAdd(r), netlink.RouteDel(r)) },
			undo: func(side) error { return nil }}
		for _, c := range []struct {
			step   string
			change netChange
			err    error // IPv6; IPv4 keeps the bound device
		}{
			{"before connect", stay, ErrRouteMismatch},
			// (Not at "path checked": rxe sends its packets by the route of the
			// moment, and one on the wrong rail is the end of the peer's kernel 6.1.)
			{"established", stay, ErrRouteMismatch},
			{"path checked", gone, ErrChanged},
			{"route resolved", gone, nil}, // the kernel looks no route up then
		} {
			t.Run(fmt.Sprintf("%s/%s/%s", s.peer, c.step, c.change.name), func(t *testing.T) {
				ch := &changer{step: c.step, c: c.change, s: s}
				d := Dialer{
					LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(s.local), 0),
					Timeouts:  Timeouts{Connect: 3 * time.Second},
					stepHook:  ch.at,
				}
				ctx := within(t, time.Minute)
				before := sent(t)
				id, err := d.resolve(ctx, netip.AddrPortFrom(netip.MustParseAddr(s.peer), 7471))
				require.NoError(t, err)
				conn, err := newConn(id, d.Queues, nil)
				require.NoError(t, err)
				defer conn.Close()
				err = id.Connect(ctx, ConnParam{})
				if v6 && c.err != nil {
					ch.undo()
					require.NoError(t, ch.err)
					require.ErrorIs(t, err, c.err)
					t.Log(err)
					return
				}
				require.NoError(t, err)
				buf := make([]byte, 1000)
				for range 100 {
					require.NoError(t, conn.Send(ctx, buf))
					_, err = conn.Recv(ctx, buf)
					require.NoError(t, err)
				}
				after := sent(t)
				ch.undo()
				require.NoError(t, ch.err)
				require.Greater(t, after["rail1"]-before["rail1"], uint64(100), "where the data went")
				require.Less(t, after["rail0"]-before["rail0"], uint64(50), "where it did not go")
			})
		}
	}
}

// sent counts the packets that left each rail.
func sent(t *testing.T) map[string]uint64 {
	t.Helper()
	return map[string]uint64{
		"rail0": link("rail0").Attrs().Statistics.TxPackets,
		"rail1": link("rail1").Attrs().Statistics.TxPackets,
	}
}
