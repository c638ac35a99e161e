package cm

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// The acceptance scenarios of the binding rule against the kernel, in the
// topology `pair`: rxe0 on a0, rxe1 on b0, c0 without RDMA. Numbers 15 and 17,
// which need other hosts, stand in hosts_test.go; 16, which needs two, in rails_test.go,
// examples/explain and examples/rping.

// outcome is what one policy makes of a scenario.
type outcome struct {
	err        error         // nil: accepted
	errno      syscall.Errno // with err
	on         []string      // where accepted: device@netdev; several under multipath
	beforeCM   bool          // refused without any rdma_resolve_addr
	overridden bool
	assumed    bool
}

func accepted(on ...string) outcome {
	for i := range on {
		on[i] = dev(on[i])
	}
	return outcome{on: on}
}

func (o outcome) override() outcome { o.overridden = true; return o }

// unanswered is accepted, and then nobody answers.
func (o outcome) unanswered() outcome {
	o.on, o.err, o.errno = nil, syscall.ETIMEDOUT, syscall.ETIMEDOUT
	return o
}

func refused(err error, errno syscall.Errno) outcome {
	return outcome{err: err, errno: errno, beforeCM: true}
}

type scenario struct {
	name     string
	setup    func(t *testing.T)
	bind     string
	bindErr  error // the bind fails like this, and nothing follows
	src, dst string
	cfg      IDConfig
	want     map[Policy]outcome
	// kernel is where the same calls end without a policy: what the refusal is
	// for, or proof that it was right to accept. "" is not asked.
	kernel string
	// kernelIWARP is given where iWARP's end is another.
	kernelIWARP string
}

// spaces are the port spaces that every scenario runs in.
var spaces = []PortSpace{PortSpaceTCP, PortSpaceUDP}

var (
	unreachable = refused(ErrRouteMismatch, syscall.EHOSTUNREACH)
	notBound    = refused(ErrNotBound, syscall.EINVAL)
	conflict    = refused(ErrSourceConflict, syscall.EINVAL)
	badScope    = refused(ErrScope, syscall.EINVAL)
	loopback    = refused(ErrLoopbackDst, syscall.EADDRNOTAVAIL)
	otherFamily = refused(ErrFamilyMismatch, syscall.EAFNOSUPPORT)
	silent      = onLinkGuess()
)

// onLinkGuess is accepted where only the kernel's guess says that the destination
// is on the link, and nobody answers. iWARP's socket would not be on that link.
func onLinkGuess() outcome {
	if iwarp() {
		return unreachable
	}
	return outcome{overridden: true, assumed: true}.unanswered()
}

// bothPin is the same outcome under PinBound, RequireRoute and, since the id is
// bound or a source is given, Auto; FollowRoute refuses a bound id.
func bothPin(o outcome) map[Policy]outcome {
	return map[Policy]outcome{
		PinBound: o, RequireRoute: o, Auto: o,
		FollowRoute: refused(ErrAlreadyBound, syscall.EINVAL),
	}
}

// all is the same outcome under every policy.
func all(o outcome) map[Policy]outcome {
	return map[Policy]outcome{PinBound: o, RequireRoute: o, Auto: o, FollowRoute: o}
}

// pinned is bothPin with another outcome under RequireRoute.
func pinned(pin, route outcome) map[Policy]outcome {
	m := bothPin(pin)
	m[RequireRoute] = route
	return m
}

// idle is what becomes of an id that is bound to no device.
func idle(follow outcome) map[Policy]outcome {
	return map[Policy]outcome{PinBound: notBound, RequireRoute: notBound, Auto: follow, FollowRoute: follow}
}

// routed is `ip route add` with its end.
func routed(spec string) func(*testing.T) {
	return func(t *testing.T) { ip(t, "route add "+spec, "route del "+spec) }
}

const (
	onA4 = "rxe0 from 10.1.0.1, path MTU 4096"
	onA6 = "rxe0 from fd01::1, path MTU 4096"
	onB4 = "rxe1 from 10.2.0.1, path MTU 2048"
	onB6 = "rxe1 from fd02::1, path MTU 2048"
	// split is the fault that the rule is about: the device is one, the path another's.
	splitAB   = "rxe0 from fd01::1, path MTU 2048"
	splitAC   = "rxe0 from fd01::1, path MTU 1024"
	noAnswer  = "address: ETIMEDOUT"
	noNetwork = "address: ENETUNREACH"
)

var scenarios = []scenario{
	{name: "01 bound, route agrees/v4", bind: "10.1.0.1:0", dst: "10.1.0.2:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA4},
	{name: "01 bound, route agrees/v6", bind: "[fd01::1]:0", dst: "[fd01::2]:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA6},
	{name: "01 bound by a source/v4", src: "10.1.0.1:0", dst: "10.1.0.2:7471", want: sourced(accepted("rxe0@a0")), kernel: onA4},
	{name: "01 bound by a source/v6", src: "[fd01::1]:0", dst: "[fd01::2]:7471", want: sourced(accepted("rxe0@a0")), kernel: onA6},
	{name: "02 idle/v4", dst: "10.2.0.2:7471", want: idle(accepted("rxe1@b0")), kernel: onB4},
	{name: "02 idle/v6", dst: "[fd02::2]:7471", want: idle(accepted("rxe1@b0")), kernel: onB6},
	{name: "02 idle, a rail without RDMA/v4", dst: "10.3.0.2:7471", want: idle(refused(ErrNotRDMA, syscall.ENODEV)), kernel: "address: ENODEV"},
	{name: "02 idle, a rail without RDMA/v6", dst: "[fd03::2]:7471", want: idle(refused(ErrNotRDMA, syscall.ENODEV)), kernel: "address: ENODEV"},
	{name: "02 wildcard-bound/v4", bind: "0.0.0.0:0", dst: "10.2.0.2:7471", want: idle(accepted("rxe1@b0")), kernel: onB4},
	{name: "02 wildcard-bound/v6", bind: "[::]:0", dst: "[fd02::2]:7471", want: idle(accepted("rxe1@b0")), kernel: onB6},
	{name: "03 bound, other source/v4", bind: "10.1.0.1:0", src: "10.2.0.1:0", dst: "10.2.0.2:7471", want: all(conflict), kernel: noAnswer},
	{name: "03 bound, other source/v6", bind: "[fd01::1]:0", src: "[fd02::1]:0", dst: "[fd02::2]:7471", want: all(conflict), kernel: splitAB},
	{name: "04 bound, source without RDMA, own address/v4", bind: "10.1.0.1:0", src: "10.3.0.1:0", dst: "10.1.0.1:7471", want: all(conflict), kernel: onA4},
	{name: "04 bound, source without RDMA, own address/v6", bind: "[fd01::1]:0", src: "[fd03::1]:0", dst: "[fd01::1]:7471", want: all(conflict), kernel: onA6},
	{name: "04 bound, own address/v4", bind: "10.1.0.1:0", dst: "10.1.0.1:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA4},
	{name: "04 bound, own address/v6", bind: "[fd01::1]:0", dst: "[fd01::1]:7471", want: bothPin(accepted("rxe0@a0")), kernel: onA6},
	{name: "05 bound, address of another rail/v4", bind: "10.1.0.1:0", dst: "10.2.0.1:7471", want: bothPin(unreachable), kernel: noAnswer},
	{name: "05 the same, let through/v4", bind: "10.1.0.1:0", dst: "10.2.0.1:7471",
		cfg: IDConfig{AllowLocalCrossing: true}, want: pinned(silent, unreachable)},
	{name: "06 bound, address of another rail/v6", bind: "[fd01::1]:0", dst: "[fd02::1]:7471", want: bothPin(unreachable), kernel: onA6},
	{name: "06 the same, let through/v6", bind: "[fd01::1]:0", dst: "[fd02::1]:7471",
		cfg: IDConfig{AllowLocalCrossing: true}, want: bothPin(unreachable)},
	{name: "07 bound, peer of another rail/v6", bind: "[fd01::1]:0", dst: "[fd02::2]:7471", want: bothPin(unreachable), kernel: splitAB},
	{name: "08 bound, peer of a rail without RDMA/v4", bind: "10.1.0.1:0", dst: "10.3.0.2:7471", want: pinned(silent, unreachable), kernel: noAnswer},
	{name: "08 bound, peer of a rail without RDMA/v6", bind: "[fd01::1]:0", dst: "[fd03::2]:7471", want: bothPin(unreachable), kernel: splitAC},
	{name: "09 bound, peer of another rail/v4", bind: "10.1.0.1:0", dst: "10.2.0.2:7471", want: pinned(silent, unreachable), kernel: noAnswer},
	{name: "09 the same, on-link route required/v4", bind: "10.1.0.1:0", dst: "10.2.0.2:7471",
		cfg: IDConfig{RequireOnLinkRoute: true}, want: bothPin(unreachable)},
	{name: "10 unreachable route/v4", setup: routed("unreachable 10.50.0.0/24"), bind: "10.1.0.1:0", dst: "10.50.0.2:7471",
		want: pinned(silent, unreachable), kernel: noAnswer},
	{name: "10 unreachable route/v6", setup: routed("unreachable fd50::/64"), bind: "[fd01::1]:0", dst: "[fd50::2]:7471",
		want: bothPin(unreachable), kernel: "address: EHOSTUNREACH"},
	{name: "10 unreachable route, idle/v4", setup: routed("unreachable 10.50.0.0/24"), dst: "10.50.0.2:7471",
		want: idle(refused(ErrNoRoute, syscall.EHOSTUNREACH)), kernel: "address: EHOSTUNREACH"},
	{name: "10 blackhole route/v4", setup: routed("blackhole 10.51.0.0/24"), bind: "10.1.0.1:0", dst: "10.51.0.2:7471",
		want: pinned(silent, unreachable), kernel: noAnswer},
	{name: "10 blackhole route/v6", setup: routed("blackhole fd51::/64"), bind: "[fd01::1]:0", dst: "[fd51::2]:7471",
		want: bothPin(unreachable), kernel: "address: EINVAL"},
	{name: "11 wildcard-bound, a source/v4", bind: "0.0.0.0:7000", src: "10.2.0.1:0", dst: "10.1.0.2:7471", want: all(conflict), kernel: onA4},
	{name: "11 wildcard-bound, a source/v6", bind: "[::]:7000", src: "[fd02::1]:0", dst: "[fd01::2]:7471", want: all(conflict), kernel: onA6},
	{name: "14 link-local, zones agree", bind: "[fe80::1%a0]:0", dst: "[fe80::1:2%a0]:7471", want: bothPin(accepted("rxe0@a0"))},
	{name: "14 link-local, zones differ", bind: "[fe80::1%a0]:0", dst: "[fe80::2:2%b0]:7471", want: bothPin(badScope), kernel: noAnswer},
	{name: "14 link-local, no zone", bind: "[fe80::1%a0]:0", dst: "[fe80::1:2]:7471", want: all(badScope)},
	{name: "14 link-local, idle", dst: "[fe80::2:2%b0]:7471", want: idle(accepted("rxe1@b0"))},
	{name: "14 link-local, idle, no zone", dst: "[fe80::2:2]:7471", want: all(badScope)},
	{name: "14 link-local, wildcard-bound", bind: "[::]:0", dst: "[fe80::2:2%b0]:7471", want: all(badScope)},
	{name: "18 loopback destination/v4", bind: "10.1.0.1:0", dst: "127.0.0.1:7471", want: all(loopback)},
	{name: "18 loopback destination/v6", bind: "[fd01::1]:0", dst: "[::1]:7471", want: all(loopback)},
	{name: "18 loopback destination, idle/v4", dst: "127.0.0.1:7471", want: all(loopback), kernel: "rxe0 from 127.0.0.1; route: ENODEV", kernelIWARP: "address: EINVAL"},
	{name: "18 loopback destination, idle/v6", dst: "[::1]:7471", want: all(loopback)},
	{name: "18 unspecified destination, idle/v4", dst: "0.0.0.0:7471", want: all(loopback)},
	{name: "18 unspecified destination, idle/v6", dst: "[::]:7471", want: all(loopback)},
	{name: "30 families differ/v4", bind: "10.1.0.1:0", dst: "[fd01::2]:7471", want: all(otherFamily), kernel: "address: EINVAL"},
	{name: "30 families differ/v6", bind: "[fd01::1]:0", dst: "10.1.0.2:7471", want: all(otherFamily)},
	{name: "30 mapped addresses are IPv4", bind: "[::ffff:10.1.0.1]:0", dst: "[::ffff:10.1.0.2]:7471", want: bothPin(accepted("rxe0@a0"))},
}

// sourced is bothPin for an idle id with a source, which binds it; FollowRoute
// lets the route choose the source.
func sourced(o outcome) map[Policy]outcome {
	m := bothPin(o)
	m[FollowRoute] = conflict
	return m
}

func TestPairScenarios(t *testing.T) {
	needTopo(t, "pair")
	for _, sc := range scenarios {
		t.Run(strings.ReplaceAll(sc.name, " ", "_"), func(t *testing.T) {
			if sc.setup != nil {
				sc.setup(t)
			}
			sc.run(t)
		})
	}
}

// run tries the scenario under every policy and in every port space, and then
// what the kernel makes of it alone.
func (sc scenario) run(t *testing.T) {
	for _, pol := range []Policy{Auto, PinBound, RequireRoute, FollowRoute} {
		for _, space := range spaces {
			if space.datagrams() && iwarp() {
				continue // refused at the bind: TestSiwRefuses
			}
			t.Run(pol.String()+"/"+space.String(), func(t *testing.T) {
				cfg := sc.cfg
				cfg.Policy = pol
				cfg.PortSpace = space
				want := sc.want[pol]
				cfg.Timeouts.ResolveAddr = 20 * time.Second
				if want.err != nil && !want.beforeCM {
					cfg.Timeouts.ResolveAddr = 600 * time.Millisecond // look-ups included, on a busy machine
				}
				id := newTestID(t, cfg)
				if sc.bindErr != nil {
					err := id.Bind(ap(sc.bind))
					require.ErrorIs(t, err, sc.bindErr)
					require.Equal(t, StatePoisoned, id.State())
					t.Log(err)
					return
				}
				if sc.bind != "" {
					require.NoError(t, id.Bind(ap(sc.bind)))
				}
				calls := resolveCalls.Load()
				err := id.ResolveAddr(within(t, time.Minute), ap(sc.src), ap(sc.dst))
				want.check(t, id, err, resolveCalls.Load()-calls)
			})
		}
	}
	if sc.kernel == "" {
		return
	}
	t.Run("kernel", func(t *testing.T) {
		// A cold neighbour costs the kernel its whole timeout: ask again.
		got, want := "", dev(sc.kernel)
		if iwarp() {
			want, _, _ = strings.Cut(cmp.Or(sc.kernelIWARP, want), ", path MTU") // it has no path record
		}
		for slice := 300 * time.Millisecond; got != want && slice < 3*time.Second; slice *= 2 {
			got = alone(t, sc.bind, sc.src, sc.dst, slice)
		}
		require.Equal(t, want, got)
	})
}

// check compares the outcome of a resolve with what was promised.
func (o outcome) check(t *testing.T, id *ID, err error, calls int64) {
	t.Helper()
	d := id.Decision()
	if o.err == nil {
		require.NoError(t, err)
		require.NoError(t, id.ResolveRoute(within(t, time.Minute)))
		requireKept(t, id, o.on)
		require.Equal(t, policy.Accepted, d.Verdict)
		require.Equal(t, o.overridden, d.Overridden, "overridden")
		require.Equal(t, o.assumed, d.AssumedOnLink, "assumed on-link")
		return
	}
	require.ErrorIs(t, err, o.err)
	require.ErrorIs(t, err, o.errno)
	require.Equal(t, o.overridden, d.Overridden, "overridden")
	require.Equal(t, o.assumed, d.AssumedOnLink, "assumed on-link")
	if o.beforeCM {
		require.Zero(t, calls, "rdma_resolve_addr was called")
	} else {
		// On a slow machine the neighbour's warming may have used up the time.
		require.LessOrEqual(t, calls, int64(1))
	}
	require.Equal(t, calls == 1, id.State() == StatePoisoned, "poisoned if, and only if, the kernel was asked")
	var op *OpError
	require.True(t, errors.As(err, &op))
	t.Log(err)
}

// requireKept wants the kernel's own view of a resolved id to be one of the
// places (device@netdev), in everything that can be asked: device, source, GID
// row, path MTU; and the decision to have named just these places before.
func requireKept(t *testing.T, id *ID, places []string) {
	t.Helper()
	var predicted []string
	for _, p := range id.Decision().Predicted {
		predicted = append(predicted, p.Device+"@"+p.Netdev)
	}
	require.ElementsMatch(t, places, predicted, "predicted")

	b := id.Binding()
	require.Contains(t, places, b.Device+"@"+b.Netdev)
	var info cgo.IDInfo
	require.NoError(t, id.call(func(h cgo.ID) error { info = h.Info(); return nil }))
	require.Equal(t, b.Device, info.Device)
	require.Equal(t, b.Device, id.Context().Name())
	require.Equal(t, b.Addr.Addr().WithZone(""), info.Local.Addr().WithZone(""))
	link, err := id.host.InterfaceByName(b.Netdev)
	require.NoError(t, err)
	if iwarp() {
		return // no address in the GID table, and no path record
	}
	require.Equal(t, policy.GIDOf(info.Local.Addr()), policy.GID(info.PathSGID))
	require.Equal(t, policy.PathMTU(link.MTU), 128<<info.PathMTU, "path MTU")
	rows, err := id.Context().GIDTable()
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(rows, func(g ibv.GIDEntry) bool {
		return policy.GID(g.GID) == policy.GID(info.PathSGID) && g.Netdev == link.Index
	}), "no GID of %s on %s", info.Local.Addr(), b.Netdev)
}

// alone makes the calls without a policy, and says where the kernel ends;
// between happens between bind and resolve.
func alone(t *testing.T, bind, src, dst string, timeout time.Duration, between ...func()) string {
	t.Helper()
	id := newTestID(t, IDConfig{})
	ctx := within(t, time.Minute)
	addr := func(s string) cgo.SockAddr {
		if s == "" {
			return cgo.SockAddr{}
		}
		a, err := kernelAddr(id.host, ap(s))
		require.NoError(t, err)
		return cgo.ToSockAddr(a)
	}
	name := func(err error) string {
		var errno syscall.Errno
		require.ErrorAs(t, err, &errno)
		return policy.ErrnoName(errno)
	}
	step := func(want uint32, f func(h cgo.ID, _ time.Duration) error) (cgo.IDInfo, error) {
		ev, err := id.await(ctx, "", time.Minute, f)
		if err == nil {
			err = eventError(&ev, want)
		}
		return ev.Info, err
	}
	if bind != "" {
		if err := id.call(func(h cgo.ID) error { return h.Bind(addr(bind)) }); err != nil {
			return "bind: " + name(err)
		}
	}
	for _, f := range between {
		f()
	}
	i, err := step(cgo.EventAddrResolved, func(h cgo.ID, _ time.Duration) error {
		return h.ResolveAddr(addr(src), addr(dst), millis(timeout))
	})
	if err != nil {
		return "address: " + name(err)
	}
	from := i.Device + " from " + i.Local.Addr().WithZone("").String()
	i, err = step(cgo.EventRouteResolved, func(h cgo.ID, _ time.Duration) error { return h.ResolveRoute(2000) })
	if err != nil {
		return from + "; route: " + name(err)
	}
	if iwarp() {
		return from
	}
	return fmt.Sprintf("%s, path MTU %d", from, 128<<i.PathMTU)
}

// Scenario 12: a failed bind poisons the id, a new one works.
func TestPairFailedBindPoisons(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct{ bad, good, dst string }{
		{"10.3.0.1:0", "10.1.0.1:0", "10.1.0.2:1"},
		{"[fd03::1]:0", "[fd01::1]:0", "[fd01::2]:1"},
	} {
		for _, pol := range []Policy{Auto, PinBound, RequireRoute, FollowRoute} {
			t.Run(c.bad+"/"+pol.String(), func(t *testing.T) {
				id := newTestID(t, IDConfig{Policy: pol})
				err := id.Bind(ap(c.bad))
				require.ErrorIs(t, err, ErrNotRDMA)
				require.ErrorIs(t, err, syscall.ENODEV)
				require.ErrorContains(t, err, "c0", "the error names the network device without RDMA")
				err = id.Bind(ap(c.good))
				require.ErrorIs(t, err, ErrPoisoned)
				calls := resolveCalls.Load()
				require.ErrorIs(t, id.ResolveAddr(within(t, time.Second), ap(""), ap(c.dst)), ErrPoisoned)
				require.Equal(t, calls, resolveCalls.Load())

				id = newTestID(t, IDConfig{})
				require.NoError(t, id.Bind(ap(c.good)))
				require.Equal(t, dev("rxe0"), id.Binding().Device)
				require.Equal(t, "a0", id.Binding().Netdev)
			})
		}
	}
}

func TestPairBindErrors(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct {
		addr  string
		err   error
		errno syscall.Errno
		state State // idle where the kernel was not asked
	}{
		{"10.99.0.1:0", ErrNotLocal, syscall.EADDRNOTAVAIL, StatePoisoned},
		{"[fe80::1]:0", ErrScope, syscall.EINVAL, StateIdle},
		{"[fe80::1%b0]:0", syscall.ENODEV, syscall.ENODEV, StatePoisoned},
		{"[fe80::1%nosuch]:0", syscall.ENODEV, syscall.ENODEV, StateIdle},
		{"[fe80::1%nosuch]:0", ErrScope, syscall.EINVAL, StateIdle},
		{"[fe80::1%0]:0", ErrScope, syscall.ENODEV, StateIdle},
		{"[fe80::1%+2]:0", ErrScope, syscall.ENODEV, StateIdle},
		{"[fe80::1%9999]:0", ErrScope, syscall.ENODEV, StateIdle},
		{"[fe80::1%4294967295]:0", ErrScope, syscall.ENODEV, StateIdle},
		{"[fe80::1%4294967298]:0", ErrScope, syscall.ENODEV, StateIdle},
		{"[fd01::1%a0]:0", ErrScope, syscall.EINVAL, StateIdle},
		{"[fd01::1%0]:0", ErrScope, syscall.EINVAL, StateIdle},
		{"[::%a0]:0", ErrScope, syscall.EINVAL, StateIdle},
	} {
		t.Run(c.addr, func(t *testing.T) {
			id := newTestID(t, IDConfig{})
			err := id.Bind(ap(c.addr))
			require.ErrorIs(t, err, c.err)
			require.ErrorIs(t, err, c.errno)
			require.Equal(t, c.state, id.State())
			t.Log(err)
		})
	}
	t.Run("port taken", func(t *testing.T) {
		require.NoError(t, newTestID(t, IDConfig{}).Bind(ap("10.1.0.1:7999")))
		err := newTestID(t, IDConfig{}).Bind(ap("10.1.0.1:7999"))
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	})
}

// Scenario 13: a failed resolve may leave the kernel's id pinned; a new id is not.
func TestPairDeadPeerThenOther(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct{ dead, other string }{
		{"10.1.0.77:7471", "10.2.0.2:7471"},
		{"[fd01::77]:7471", "[fd02::2]:7471"},
	} {
		for _, pol := range []Policy{FollowRoute, Auto} {
			t.Run(c.dead+"/"+pol.String(), func(t *testing.T) {
				cfg := IDConfig{Policy: pol, Timeouts: Timeouts{ResolveAddr: time.Second}} // enough, on a busy machine too, to come to the kernel
				id := newTestID(t, cfg)
				err := id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.dead))
				require.ErrorIs(t, err, syscall.ETIMEDOUT)
				calls := resolveCalls.Load()
				require.ErrorIs(t, id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.other)), ErrPoisoned)
				require.Equal(t, calls, resolveCalls.Load())

				cfg.Timeouts.ResolveAddr = 20 * time.Second
				id = newTestID(t, cfg)
				err = id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.other))
				accepted("rxe1@b0").check(t, id, err, 1)
			})
		}
	}
}

// Scenario 19: the bound address goes away.
func TestPairBindingLost(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct{ add, bind, dst, kernel string }{
		{"10.1.0.9/24", "10.1.0.9:0", "10.1.0.2:7471", "ENETUNREACH"},
		{"fd01::9/64 nodad", "[fd01::9]:0", "[fd01::2]:7471", "ENETUNREACH"},
	} {
		t.Run(c.bind, func(t *testing.T) {
			ip(t, "addr add "+c.add+" dev a0")
			if !iwarp() { // whose table has no addresses
				awaitGID(t, "rxe0", ap(c.bind).Addr())
			}
			ids := map[Policy]*ID{Auto: nil, PinBound: nil, RequireRoute: nil, FollowRoute: nil}
			for pol := range ids {
				ids[pol] = newTestID(t, IDConfig{Policy: pol})
				require.NoError(t, ids[pol].Bind(ap(c.bind)))
			}
			ip(t, "addr del "+strings.TrimSuffix(c.add, " nodad")+" dev a0")
			want := bothPin(refused(ErrBindingLost, syscall.EADDRNOTAVAIL))
			for pol, id := range ids {
				calls := resolveCalls.Load()
				err := id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.dst))
				want[pol].check(t, id, err, resolveCalls.Load()-calls)
			}
		})
	}
}

// awaitGID waits until the device's GID table has an address: it follows the
// network device's addresses in its own time.
func awaitGID(t *testing.T, device string, addr netip.Addr) {
	t.Helper()
	h, err := OpenHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	require.Eventually(t, func() bool {
		ports, err := h.RDMAPorts()
		require.NoError(t, err)
		return slices.ContainsFunc(ports, func(p policy.RDMAPort) bool {
			return p.Device == device && slices.ContainsFunc(p.GIDs, func(g policy.GIDRow) bool {
				return g.GID == policy.GIDOf(addr)
			})
		})
	}, 20*time.Second, 5*time.Millisecond, "%s has no GID for %s", device, addr)
}

// A neighbour that nobody has spoken to yet must not cost the whole timeout.
func TestPairColdNeighbour(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct{ bind, dst, neigh string }{
		{"10.1.0.1:0", "10.1.0.2:7471", "10.1.0.2"},
		{"", "10.1.0.2:7471", "10.1.0.2"},
		{"[fd01::1]:0", "[fd01::2]:7471", "fd01::2"},
		{"", "[fd01::2]:7471", "fd01::2"},
	} {
		t.Run(c.bind+" to "+c.dst, func(t *testing.T) {
			ip(t, "neigh flush dev a0")
			id := newTestID(t, IDConfig{Timeouts: Timeouts{ResolveAddr: time.Minute}})
			if c.bind != "" {
				require.NoError(t, id.Bind(ap(c.bind)))
			}
			began := time.Now()
			require.NoError(t, id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.dst)))
			require.Less(t, time.Since(began), 30*time.Second, "the kernel's lost wake-up cost the timeout")
		})
	}
}
