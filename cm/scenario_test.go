package cm

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// The acceptance scenarios of the binding rule against the kernel, in the
// topology `pair`: rxe0 on a0, rxe1 on b0, c0 without RDMA.

// outcome is what one policy makes of a scenario.
type outcome struct {
	err        error         // nil: accepted
	errno      syscall.Errno // with err
	device     string        // where accepted: the device the id must be on
	beforeCM   bool          // refused without any rdma_resolve_addr
	overridden bool
	assumed    bool
}

func accepted(device string) outcome { return outcome{device: device} }

func refused(err error, errno syscall.Errno) outcome {
	return outcome{err: err, errno: errno, beforeCM: true}
}

type scenario struct {
	name     string
	setup    func(t *testing.T)
	bind     string
	src, dst string
	cfg      IDConfig
	want     map[Policy]outcome
}

var unreachable = refused(ErrRouteMismatch, syscall.EHOSTUNREACH)

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

func pinned(pin, route outcome) map[Policy]outcome {
	m := bothPin(pin)
	m[RequireRoute] = route
	return m
}

var followOnly = func(device string) map[Policy]outcome {
	notBound := refused(ErrNotBound, syscall.EINVAL)
	return map[Policy]outcome{
		PinBound: notBound, RequireRoute: notBound,
		Auto: accepted(device), FollowRoute: accepted(device),
	}
}

var silent = outcome{err: syscall.ETIMEDOUT, errno: syscall.ETIMEDOUT, overridden: true, assumed: true}

var scenarios = []scenario{
	{name: "01 bound, route agrees/v4", bind: "10.1.0.1:0", dst: "10.1.0.2:7471", want: bothPin(accepted("rxe0"))},
	{name: "01 bound, route agrees/v6", bind: "[fd01::1]:0", dst: "[fd01::2]:7471", want: bothPin(accepted("rxe0"))},
	{name: "02 idle/v4", dst: "10.2.0.2:7471", want: followOnly("rxe1")},
	{name: "02 idle/v6", dst: "[fd02::2]:7471", want: followOnly("rxe1")},
	{name: "03 bound, other source/v4", bind: "10.1.0.1:0", src: "10.2.0.1:0", dst: "10.2.0.2:7471", want: all(refused(ErrSourceConflict, syscall.EINVAL))},
	{name: "03 bound, other source/v6", bind: "[fd01::1]:0", src: "[fd02::1]:0", dst: "[fd02::2]:7471", want: all(refused(ErrSourceConflict, syscall.EINVAL))},
	{name: "04 bound, source without RDMA, own address/v4", bind: "10.1.0.1:0", src: "10.3.0.1:0", dst: "10.1.0.1:7471", want: all(refused(ErrSourceConflict, syscall.EINVAL))},
	{name: "04 bound, own address/v4", bind: "10.1.0.1:0", dst: "10.1.0.1:7471", want: bothPin(accepted("rxe0"))},
	{name: "04 bound, own address/v6", bind: "[fd01::1]:0", dst: "[fd01::1]:7471", want: bothPin(accepted("rxe0"))},
	{name: "05 bound, address of another rail/v4", bind: "10.1.0.1:0", dst: "10.2.0.1:7471", want: bothPin(unreachable)},
	{name: "05 the same, let through/v4", bind: "10.1.0.1:0", dst: "10.2.0.1:7471",
		cfg: IDConfig{AllowLocalCrossing: true},
		want: map[Policy]outcome{
			PinBound:     {err: syscall.ETIMEDOUT, errno: syscall.ETIMEDOUT, overridden: true, assumed: true},
			RequireRoute: unreachable,
		}},
	{name: "06 bound, address of another rail/v6", bind: "[fd01::1]:0", dst: "[fd02::1]:7471", want: bothPin(unreachable)},
	{name: "07 bound, peer of another rail/v6", bind: "[fd01::1]:0", dst: "[fd02::2]:7471", want: bothPin(unreachable)},
	{name: "08 bound, peer of a rail without RDMA/v6", bind: "[fd01::1]:0", dst: "[fd03::2]:7471", want: bothPin(unreachable)},
	{name: "09 bound, peer of another rail/v4", bind: "10.1.0.1:0", dst: "10.2.0.2:7471", want: pinned(silent, unreachable)},
	{name: "09 the same, on-link route required/v4", bind: "10.1.0.1:0", dst: "10.2.0.2:7471",
		cfg: IDConfig{RequireOnLinkRoute: true}, want: bothPin(unreachable)},
	{name: "10 unreachable route/v4", bind: "10.1.0.1:0", dst: "10.50.0.2:7471", want: pinned(silent, unreachable),
		setup: func(t *testing.T) {
			ip(t, "route add unreachable 10.50.0.0/24", "route del unreachable 10.50.0.0/24")
		}},
	{name: "11 wildcard-bound, a source/v4", bind: "0.0.0.0:7000", src: "10.2.0.1:0", dst: "10.1.0.2:7471", want: all(refused(ErrSourceConflict, syscall.EINVAL))},
	{name: "11 wildcard-bound, a source/v6", bind: "[::]:7000", src: "[fd02::1]:0", dst: "[fd01::2]:7471", want: all(refused(ErrSourceConflict, syscall.EINVAL))},
	{name: "14 link-local, zones differ", bind: "[fe80::1%a0]:0", dst: "[fe80::2%b0]:7471", want: bothPin(refused(ErrScope, syscall.EINVAL))},
	{name: "14 link-local, no zone", bind: "[fe80::1%a0]:0", dst: "[fe80::99]:7471", want: all(refused(ErrScope, syscall.EINVAL))},
	{name: "18 loopback destination/v4", bind: "10.1.0.1:0", dst: "127.0.0.1:7471", want: all(refused(ErrLoopbackDst, syscall.EADDRNOTAVAIL))},
	{name: "18 loopback destination/v6", bind: "[fd01::1]:0", dst: "[::1]:7471", want: all(refused(ErrLoopbackDst, syscall.EADDRNOTAVAIL))},
	{name: "18 loopback destination, idle", dst: "127.0.0.1:7471", want: all(refused(ErrLoopbackDst, syscall.EADDRNOTAVAIL))},
	{name: "18 unspecified destination, idle", dst: "0.0.0.0:7471", want: all(refused(ErrLoopbackDst, syscall.EADDRNOTAVAIL))},
	{name: "30 families differ", bind: "10.1.0.1:0", dst: "[fd01::2]:7471", want: all(refused(ErrFamilyMismatch, syscall.EAFNOSUPPORT))},
	{name: "30 mapped addresses are IPv4", bind: "[::ffff:10.1.0.1]:0", dst: "[::ffff:10.1.0.2]:7471", want: bothPin(accepted("rxe0"))},
}

func TestPairScenarios(t *testing.T) {
	needTopo(t, "pair")
	for _, sc := range scenarios {
		for pol, want := range sc.want {
			t.Run(strings.ReplaceAll(sc.name, " ", "_")+"/"+pol.String(), func(t *testing.T) {
				if sc.setup != nil {
					sc.setup(t)
				}
				cfg := sc.cfg
				cfg.Policy = pol
				cfg.Timeouts.ResolveAddr = 20 * time.Second
				if want.err != nil && !want.beforeCM {
					cfg.Timeouts.ResolveAddr = 300 * time.Millisecond
				}
				id := newTestID(t, cfg)
				if sc.bind != "" {
					require.NoError(t, id.Bind(ap(sc.bind)))
				}
				calls := resolveCalls.Load()
				err := id.ResolveAddr(within(t, time.Minute), ap(sc.src), ap(sc.dst))
				d := id.Decision()
				if want.err == nil {
					require.NoError(t, err)
					require.NoError(t, id.ResolveRoute(within(t, time.Minute)))
					require.Equal(t, want.device, id.Context().Name())
					require.Equal(t, want.device, id.Binding().Device)
					require.Equal(t, policy.Accepted, d.Verdict)
					require.Equal(t, want.overridden, d.Overridden)
					return
				}
				require.ErrorIs(t, err, want.err)
				require.ErrorIs(t, err, want.errno)
				require.Equal(t, want.overridden, d.Overridden)
				require.Equal(t, want.assumed, d.AssumedOnLink)
				if want.beforeCM {
					require.Equal(t, calls, resolveCalls.Load(), "rdma_resolve_addr was called")
					require.NotEqual(t, StatePoisoned, id.State(), "a refusal leaves the id as it was")
				} else {
					require.Equal(t, calls+1, resolveCalls.Load())
					require.Equal(t, StatePoisoned, id.State())
				}
				var op *OpError
				require.True(t, errors.As(err, &op))
				t.Log(err)
			})
		}
	}
}

// Scenario 12: a failed bind poisons the id, a new one works.
func TestPairFailedBindPoisons(t *testing.T) {
	needTopo(t, "pair")
	id := newTestID(t, IDConfig{})
	err := id.Bind(ap("10.3.0.1:0"))
	require.ErrorIs(t, err, ErrNotRDMA)
	require.ErrorIs(t, err, syscall.ENODEV)
	require.ErrorContains(t, err, "c0", "the error names the network device without RDMA")
	err = id.Bind(ap("10.1.0.1:0"))
	require.ErrorIs(t, err, ErrPoisoned)
	require.ErrorIs(t, id.ResolveAddr(within(t, time.Second), ap(""), ap("10.1.0.2:1")), ErrPoisoned)

	id = newTestID(t, IDConfig{})
	require.NoError(t, id.Bind(ap("10.1.0.1:0")))
	require.Equal(t, "rxe0", id.Binding().Device)
	require.Equal(t, "a0", id.Binding().Netdev)
}

func TestPairBindErrors(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct {
		addr  string
		err   error
		errno syscall.Errno
	}{
		{"10.99.0.1:0", ErrNotLocal, syscall.EADDRNOTAVAIL},
		{"[fe80::1]:0", ErrScope, syscall.EINVAL},
		{"[fe80::1%b0]:0", syscall.ENODEV, syscall.ENODEV},
		{"[fe80::1%nosuch]:0", syscall.ENODEV, syscall.ENODEV},
	} {
		t.Run(c.addr, func(t *testing.T) {
			err := newTestID(t, IDConfig{}).Bind(ap(c.addr))
			require.ErrorIs(t, err, c.err)
			require.ErrorIs(t, err, c.errno)
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
	cfg := IDConfig{Policy: FollowRoute, Timeouts: Timeouts{ResolveAddr: 300 * time.Millisecond}}
	id := newTestID(t, cfg)
	err := id.ResolveAddr(within(t, time.Minute), ap(""), ap("10.1.0.77:7471"))
	require.ErrorIs(t, err, syscall.ETIMEDOUT)
	require.ErrorIs(t, id.ResolveAddr(within(t, time.Minute), ap(""), ap("10.2.0.2:7471")), ErrPoisoned)

	cfg.Timeouts.ResolveAddr = 20 * time.Second
	id = newTestID(t, cfg)
	require.NoError(t, id.ResolveAddr(within(t, time.Minute), ap(""), ap("10.2.0.2:7471")))
	require.Equal(t, "rxe1", id.Context().Name())
}

// Scenario 19: the bound address goes away.
func TestPairBindingLost(t *testing.T) {
	needTopo(t, "pair")
	for _, c := range []struct{ add, addr, dst string }{
		{"10.1.0.9/24", "10.1.0.9:0", "10.1.0.2:7471"},
		{"fd01::9/64", "[fd01::9]:0", "[fd01::2]:7471"},
	} {
		t.Run(c.add, func(t *testing.T) {
			nodad := ""
			if strings.Contains(c.add, "::") {
				nodad = " nodad"
			}
			ip(t, "addr add "+c.add+" dev a0"+nodad)
			id := newTestID(t, IDConfig{})
			require.Eventually(t, func() bool { // the GID follows the address
				id := newTestID(t, IDConfig{})
				return id.Bind(ap(c.addr)) == nil
			}, 10*time.Second, 10*time.Millisecond)
			require.NoError(t, id.Bind(ap(c.addr)))
			ip(t, "addr del "+c.add+" dev a0")
			calls := resolveCalls.Load()
			err := id.ResolveAddr(within(t, time.Minute), ap(""), ap(c.dst))
			require.ErrorIs(t, err, ErrBindingLost)
			require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
			require.Equal(t, calls, resolveCalls.Load())
		})
	}
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
