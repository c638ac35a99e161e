package cm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// What no device is needed for.

func TestErrorsMatchSentinelAndErrno(t *testing.T) {
	for _, c := range []struct {
		err, is error
		errno   syscall.Errno
	}{
		{ErrState, ErrState, syscall.EINVAL},
		{ErrConcurrent, ErrConcurrent, syscall.EALREADY},
		{&RejectError{Status: 8}, ErrConnRefused, syscall.ECONNREFUSED},
		{&RejectError{Status: 28}, ErrRejected, syscall.ECONNREFUSED},
		{&RejectError{Status: 10}, ErrStale, syscall.ECONNRESET},
		{&RejectError{Status: 3}, ErrRejected, syscall.ECONNREFUSED},
		{&RejectError{Status: -int(syscall.ECONNREFUSED)}, syscall.ECONNREFUSED, syscall.ECONNREFUSED},
		{ErrUnreachable, ErrUnreachable, syscall.ETIMEDOUT},
		{ErrDisconnected, ErrDisconnected, syscall.ECONNRESET},
		{&PrivateDataError{Got: 57, Max: 56}, ErrPrivateDataTooLong, syscall.EMSGSIZE},
		{&MessageError{Got: 2, Max: 1}, syscall.EMSGSIZE, syscall.EMSGSIZE},
		{&TimeoutError{Phase: "connect", cause: context.DeadlineExceeded}, context.DeadlineExceeded, syscall.ETIMEDOUT},
		{&TimeoutError{Phase: "connect", cause: context.Canceled}, context.Canceled, syscall.ECANCELED},
		{ErrClosed, net.ErrClosed, syscall.EBADF},
		{ErrRouteMismatch, ErrRouteMismatch, syscall.EHOSTUNREACH},
		{ErrDeviceSplit, ErrDeviceSplit, syscall.EHOSTUNREACH},
	} {
		err := error(&OpError{Op: "connect", Local: ap("10.1.0.1:5"), Remote: ap("10.1.0.2:7"), Device: "rxe0", Err: c.err})
		require.ErrorIs(t, err, c.is, "%v", c.err)
		require.ErrorIs(t, err, c.errno, "%v", c.err)
		require.ErrorContains(t, err, "cm: connect 10.1.0.1:5 -> 10.1.0.2:7 on rxe0: ")
	}
}

func TestTimeoutsAreNetErrors(t *testing.T) {
	err := &OpError{Op: "connect", Err: &TimeoutError{Phase: "connect", After: time.Second, cause: context.DeadlineExceeded}}
	require.True(t, err.Timeout())
	require.False(t, (&OpError{Err: &TimeoutError{cause: context.Canceled}}).Timeout())
	require.False(t, (&OpError{Err: ErrConnRefused}).Timeout())
}

func TestEventErrors(t *testing.T) {
	require.NoError(t, eventError(&cgo.Event{Type: cgo.EventAddrResolved}, cgo.EventAddrResolved))
	for _, c := range []struct {
		ev cgo.Event
		is error
	}{
		{cgo.Event{Type: cgo.EventAddrResolved, Status: -int32(syscall.EIO)}, syscall.EIO},
		{cgo.Event{Type: cgo.EventAddrError, Status: -int32(syscall.ETIMEDOUT)}, syscall.ETIMEDOUT},
		{cgo.Event{Type: cgo.EventUnreachable, Status: -int32(syscall.ETIMEDOUT)}, ErrUnreachable},
		{cgo.Event{Type: cgo.EventRejected, Status: 8}, ErrConnRefused},
		{cgo.Event{Type: cgo.EventDisconnected}, ErrDisconnected},
		{cgo.Event{Type: cgo.EventDeviceRemoval}, ibv.ErrDeviceRemoved},
		{cgo.Event{Type: cgo.EventConnectError, Status: 7}, syscall.EPROTO},
		{cgo.Event{Type: 99}, syscall.EPROTO}, // what a newer kernel may send
	} {
		require.ErrorIs(t, eventError(&c.ev, cgo.EventAddrResolved), c.is, "%+v", c.ev)
	}
	require.Equal(t, "EVENT(99)", EventType(99).String())
	require.Equal(t, "State(99)", State(99).String())
}

// Case 55: an event of an id that is gone finds nobody, also after its slot was
// used again and again.
func TestSlotsTellOldIDsFromNew(t *testing.T) {
	c := &EventChannel{}
	first := &ID{}
	stale, err := c.register(first)
	require.NoError(t, err)
	require.Same(t, first, c.lookup(stale))
	c.unregister(stale)
	for range 3 << 16 {
		id := &ID{}
		cookie, err := c.register(id)
		require.NoError(t, err)
		require.NotEqual(t, stale, cookie)
		if c.lookup(cookie) != id || c.lookup(stale) != nil {
			t.Fatal("an event would reach another id")
		}
		c.unregister(cookie)
	}
	require.Len(t, c.slots, 1)
	c.slots[0].gen = ^uint32(0)
	c.unregister(uint64(c.slots[0].gen) << 32)
	cookie, err := c.register(&ID{})
	require.NoError(t, err)
	require.NotZero(t, cookie, "a context that nobody set finds nobody")
	require.Nil(t, c.lookup(0))
	require.Nil(t, c.lookup(1<<40))
}

func TestConnParamDefaults(t *testing.T) {
	attr := ibv.DeviceAttr{MaxQPReadAtomic: 128, MaxQPInitReadAtomic: 8}
	require.Equal(t, cgo.ConnParam{ResponderResources: 16, InitiatorDepth: 8, RetryCount: 6, RNRRetryCount: 7},
		ConnParam{}.resolve(attr, nil))
	require.Equal(t, cgo.ConnParam{}, ConnParam{ResponderResources: None, InitiatorDepth: None, RetryCount: None, RNRRetryCount: None}.resolve(attr, nil))
	require.Equal(t, cgo.ConnParam{ResponderResources: 2, InitiatorDepth: 1, RetryCount: 6, RNRRetryCount: 7},
		ConnParam{}.resolve(attr, &cgo.ConnParam{ResponderResources: 2, InitiatorDepth: 1}), "no more than the peer asks for")
	require.Equal(t, uint8(3), ConnParam{RetryCount: 3}.resolve(attr, nil).RetryCount)
	for field, p := range map[string]ConnParam{
		"ResponderResources is 129, at most 128": {ResponderResources: 129}, "InitiatorDepth is 9, at most 8": {InitiatorDepth: 9},
		"RetryCount is 8, at most 7": {RetryCount: 8}, "RNRRetryCount is 254, at most 7": {RNRRetryCount: 254},
	} {
		require.ErrorIs(t, p.check(attr), ibv.ErrInvalid)
		require.ErrorContains(t, p.check(attr), field)
	}
	require.NoError(t, ConnParam{ResponderResources: 128, InitiatorDepth: None, RetryCount: None, RNRRetryCount: 7}.check(attr))
}

func TestPrivateDataLimits(t *testing.T) {
	for _, most := range []int{MaxConnectData, MaxAcceptData, MaxRejectData} {
		require.NoError(t, checkPrivate(policy.RoCE, make([]byte, most), most))
		for _, n := range []int{most + 1, 256, 300} {
			require.ErrorIs(t, checkPrivate(policy.RoCE, make([]byte, n), most), ErrPrivateDataTooLong)
		}
	}
	require.NoError(t, checkPrivate(policy.IWARP, make([]byte, maxIWARPData), MaxConnectData))
	require.ErrorIs(t, checkPrivate(policy.IWARP, make([]byte, 256), MaxConnectData), ErrPrivateDataTooLong)
}

func TestSockAddrRoundTrip(t *testing.T) {
	for _, s := range []string{"10.1.0.1:7471", "[fd01::1]:1", "[fe80::1%7]:65535", "0.0.0.0:0"} {
		require.Equal(t, ap(s), cgo.ToSockAddr(ap(s)).AddrPort())
	}
	require.Equal(t, ap("10.1.0.1:5"), cgo.ToSockAddr(ap("[::ffff:10.1.0.1]:5")).AddrPort())
	require.Equal(t, netip.AddrPort{}, cgo.ToSockAddr(netip.AddrPort{}).AddrPort())
}

func TestLookup(t *testing.T) {
	ctx := context.Background()
	got, err := lookup(ctx, "[::ffff:10.1.0.1]:7471")
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{ap("10.1.0.1:7471")}, got)
	got, err = lookup(ctx, "[fe80::1%eth0]:7471")
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{ap("[fe80::1%eth0]:7471")}, got)
	_, err = lookup(ctx, ":7471")
	require.ErrorContains(t, err, `":7471" has no host`)
	for _, bad := range []string{"", "10.1.0.1", "10.1.0.1:http", "10.1.0.1:70000", "[::1:7"} {
		_, err := lookup(ctx, bad)
		require.Error(t, err, "%q", bad)
	}
}

// Nil and zero values are errors, never crashes.
func TestNilValues(t *testing.T) {
	ctx := context.Background()
	var c *Conn
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Send(ctx, nil), ErrClosed)
	_, err := c.Recv(ctx, nil)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, c.Write(ctx, ibv.SGE{}, ibv.Remote{}), ErrClosed)
	require.ErrorIs(t, c.Read(ctx, ibv.SGE{}, ibv.Remote{}), ErrClosed)
	var l *Listener
	require.NoError(t, l.Close())
	_, err = l.Accept(ctx)
	require.ErrorIs(t, err, ErrClosed)
	var r *Request
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Reject(nil), ErrClosed)
	_, err = r.Accept(ctx, AcceptConfig{})
	require.ErrorIs(t, err, ErrClosed)
	var id *ID
	require.NoError(t, id.Close())
	require.ErrorIs(t, id.ResolveAddr(ctx, netip.AddrPort{}, netip.AddrPort{}), ErrClosed)
	require.ErrorIs(t, id.ResolveRoute(ctx), ErrClosed)
	require.ErrorIs(t, id.Connect(ctx, ConnParam{}), ErrClosed)
	require.ErrorIs(t, id.Accept(ctx, ConnParam{}), ErrClosed)
	require.ErrorIs(t, id.Disconnect(), ErrClosed)
	_, err = id.CreateQP(nil, ibv.QPConfig{})
	require.ErrorIs(t, err, ErrClosed)
	_, err = id.GetRequest(ctx)
	require.ErrorIs(t, err, ErrClosed)
	var ch *EventChannel
	require.NoError(t, ch.Close())
	var h *Host
	require.NoError(t, h.Close())
}

// A kernel without RDMA: everything says so, and what to do.
func noRDMA(t *testing.T) {
	_, err := NewEventChannel()
	require.ErrorIs(t, err, ibv.ErrNoRDMA)
	if cgo.Available {
		require.ErrorIs(t, err, syscall.ENODEV)
		require.ErrorContains(t, err, "rdma_ucm")
	} else {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, cgo.NotBuilt())
	}
	_, err = NewID(IDConfig{})
	require.ErrorIs(t, err, ibv.ErrNoRDMA)
	_, err = Listen(ap("127.0.0.1:0"), ListenConfig{})
	require.ErrorIs(t, err, ibv.ErrNoRDMA)
	_, err = (&Dialer{}).Dial(context.Background(), "127.0.0.1:1")
	require.ErrorIs(t, err, ibv.ErrNoRDMA)
}

func TestNoRDMA(t *testing.T) {
	if _, err := os.Stat("/dev/infiniband/rdma_cm"); err == nil {
		t.Skip("this machine has RDMA; the guest runs it as TestBare")
	}
	noRDMA(t)
}

func TestBareNoRDMA(t *testing.T) {
	needTopo(t, "bare")
	noRDMA(t)
}

// RDMA in the kernel, and no device.
func TestNoneNoDevice(t *testing.T) {
	needTopo(t, "none")
	_, err := NewEventChannel()
	require.ErrorIs(t, err, ibv.ErrNoRDMA)
	require.ErrorContains(t, err, "no RDMA device")
}

// TestNoAnswerNamesTheLink: also where nothing is bound, so that the route told it.
func TestNoAnswerNamesTheLink(t *testing.T) {
	late := &TimeoutError{Phase: "resolve address"}
	d := Decision{Effective: policy.Route{Kind: policy.RouteUnicast, Netdev: "a0"}}
	require.ErrorContains(t, explainResolve(d, ap("10.1.0.77:1"), late), "10.1.0.77 did not answer neighbour discovery on a0")
	d.Binding.Netdev = "b0"
	require.ErrorContains(t, explainResolve(d, ap("10.1.0.77:1"), late), "10.1.0.77 did not answer neighbour discovery on b0")
}
