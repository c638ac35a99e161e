//go:build linux

package cm

import (
	"context"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// Faults that people met, in the topology `field`: rxe0 and rxe1 on two netdevs
// of one subnet, a netdev without RDMA, two netdevs with one MAC address, a
// link where nobody answers. (A dummy netdev resolves every on-link address.)

// resolved binds, if bind is given, and resolves.
func resolved(t *testing.T, cfg IDConfig, bind, src, dst string) (*ID, error) {
	t.Helper()
	id := newTestID(t, cfg)
	if bind != "" {
		require.NoError(t, id.Bind(ap(bind)))
	}
	return id, id.ResolveAddr(within(t, time.Minute), ap(src), ap(dst))
}

// Case 1: no source is ever dropped silently.
func TestFieldSourceConflict(t *testing.T) {
	needTopo(t, "field")
	calls := resolveCalls.Load()
	_, err := resolved(t, IDConfig{}, "0.0.0.0:0", "10.9.0.2:0", "10.9.0.50:7471")
	require.ErrorIs(t, err, ErrSourceConflict)
	_, err = resolved(t, IDConfig{}, "10.9.0.2:0", "10.9.0.1:0", "10.9.0.50:7471")
	require.ErrorIs(t, err, ErrSourceConflict)
	require.Equal(t, calls, resolveCalls.Load())

	id, err := resolved(t, IDConfig{}, "10.9.0.2:0", "10.9.0.2:0", "10.9.0.50:7471")
	require.NoError(t, err, "the source that is bound already is no conflict")
	require.Equal(t, "rxe1", id.Context().Name())
	id, err = resolved(t, IDConfig{}, "", "10.9.0.2:0", "10.9.0.50:7471")
	require.NoError(t, err, "a source on an idle id is bound first")
	require.Equal(t, "rxe1", id.Context().Name())
	require.Equal(t, policy.BoundDevice, id.Binding().State)
}

// Case 2: bind, resolve, connect; the kernel kept the destination.
func TestFieldBindKeepsDestination(t *testing.T) {
	needTopo(t, "field")
	l := listen(t, "10.9.0.1:7471", ListenConfig{})
	go func() {
		if r, err := l.Accept(context.Background()); err == nil {
			if c, err := r.Accept(context.Background(), AcceptConfig{}); err == nil {
				<-c.Done()
				c.Close()
			}
		}
	}()
	c, err := (&Dialer{LocalAddr: ap("10.9.0.1:0")}).Dial(within(t, time.Minute), "10.9.0.1:7471")
	require.NoError(t, err)
	require.Equal(t, ap("10.9.0.1:7471"), c.RemoteAddr())
	require.NoError(t, c.Close())
}

// Cases 3 and 10: the device is the bound one, whatever the route prefers; a
// link-local address without its zone is refused.
func TestFieldDeviceByIntent(t *testing.T) {
	needTopo(t, "field")
	for _, c := range []struct{ bind, dst, device string }{
		{"", "10.9.0.50:7471", "rxe0"},
		{"10.9.0.2:0", "10.9.0.50:7471", "rxe1"},
		{"10.9.0.2:0", "10.9.9.9:7471", "rxe1"},
		{"10.7.0.1:0", "10.7.0.50:7471", "rxe7"},
		{"", "[fe80::50%dummy1]:7471", "rxe1"},
		{"[fe80::2%dummy1]:0", "[fe80::50%dummy1]:7471", "rxe1"},
		{"[::ffff:10.9.0.1]:0", "10.9.0.50:7471", "rxe0"},
	} {
		t.Run(c.bind+" to "+c.dst, func(t *testing.T) {
			id, err := resolved(t, IDConfig{}, c.bind, "", c.dst)
			require.NoError(t, err)
			require.Equal(t, c.device, id.Context().Name())
		})
	}
	for _, c := range []struct{ bind, dst string }{
		{"", "[fe80::50]:7471"},
		{"[::]:0", "[fe80::50%dummy1]:7471"},
		{"[fe80::2%dummy1]:0", "[fe80::50%dummy0]:7471"},
	} {
		t.Run(c.bind+" to "+c.dst, func(t *testing.T) {
			_, err := resolved(t, IDConfig{}, c.bind, "", c.dst)
			require.ErrorIs(t, err, ErrScope)
			require.ErrorIs(t, err, syscall.EINVAL)
		})
	}
}

// A device picks the address on it that fits, or says that it cannot.
func TestFieldLocalDevice(t *testing.T) {
	needTopo(t, "field")
	for _, c := range []struct{ device, dst, local string }{
		{"rxe1", "10.9.0.2:7471", "10.9.0.2"},
		{"dummy1", "10.9.0.2:7471", "10.9.0.2"},
		{"rxe0", "[fd00::1]:7471", "fd00::1"},
	} {
		d := Dialer{LocalDevice: c.device}
		id, err := d.resolve(within(t, time.Minute), ap(c.dst))
		require.NoError(t, err)
		require.Equal(t, netip.MustParseAddr(c.local), id.LocalAddr().Addr())
		require.NoError(t, id.Close())
	}
	_, err := (&Dialer{LocalDevice: "dummy5"}).Dial(within(t, time.Minute), "10.9.5.2:7471")
	require.ErrorIs(t, err, ErrNotRDMA)
	_, err = (&Dialer{LocalDevice: "rxe5"}).Dial(within(t, time.Minute), "10.9.5.2:7471")
	require.ErrorIs(t, err, ErrNotRDMA)
	_, err = (&Dialer{LocalDevice: "rxe0", LocalAddr: ap("10.9.0.1:0")}).Dial(within(t, time.Minute), "10.9.0.1:7471")
	require.ErrorIs(t, err, ErrSourceConflict)
	// A second address in the same subnet fits as well as the first.
	ip(t, "addr add 10.9.0.3/24 dev dummy1", "addr del 10.9.0.3/24 dev dummy1")
	_, err = (&Dialer{LocalDevice: "rxe1"}).Dial(within(t, time.Minute), "10.9.0.50:7471")
	require.ErrorIs(t, err, ErrAmbiguousDevice)
	require.ErrorIs(t, err, syscall.ENOTUNIQ)
	require.ErrorContains(t, err, "10.9.0.3")
}

// Case 4: bound to a link that has no route to the destination.
func TestFieldAssumedOnLink(t *testing.T) {
	needTopo(t, "field")
	id, err := resolved(t, IDConfig{Timeouts: Timeouts{ResolveAddr: 500 * time.Millisecond}}, "10.8.0.1:0", "", "10.9.9.9:7471")
	require.ErrorIs(t, err, syscall.ETIMEDOUT)
	require.True(t, id.Decision().AssumedOnLink)
	require.True(t, id.Decision().Overridden)
	require.ErrorContains(t, err, "ve0")
	require.ErrorContains(t, err, "no route to 10.9.9.9")
	require.Equal(t, "rxe8", id.Binding().Device, "it never falls back to another device")
}

// Case 11: a silent host costs what the context allows, and leaves no id.
func TestFieldSilentHost(t *testing.T) {
	needTopo(t, "field")
	began := time.Now()
	d := Dialer{LocalAddr: ap("10.9.0.1:0"), Timeouts: Timeouts{Connect: 500 * time.Millisecond}}
	_, err := d.Dial(within(t, time.Minute), "10.9.0.50:7471")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "connect")
	require.ErrorContains(t, err, "10.9.0.50:7471")
	require.Less(t, time.Since(began), 30*time.Second)
	require.NotContains(t, run(t, "rdma resource show cm_id"), "10.9.0.50")
}

// Cases 26, 30 and 31: what is refused before the kernel, and how it reads.
func TestFieldRefusals(t *testing.T) {
	needTopo(t, "field")
	t.Run("bind", func(t *testing.T) {
		err := newTestID(t, IDConfig{}).Bind(ap("10.9.5.1:0"))
		require.ErrorIs(t, err, ErrNotRDMA)
		require.ErrorContains(t, err, "dummy5")
		require.ErrorIs(t, newTestID(t, IDConfig{}).Bind(ap("10.99.0.1:0")), syscall.EADDRNOTAVAIL)
	})
	calls := resolveCalls.Load()
	for _, c := range []struct {
		bind, dst string
		err       error
	}{
		{"10.9.0.1:0", "[fd00::50]:7471", ErrFamilyMismatch},
		{"", "127.0.0.1:7471", ErrLoopbackDst},
		{"", "0.0.0.0:7471", ErrLoopbackDst},
		{"", "[::1]:7471", ErrLoopbackDst},
		{"", "224.0.0.9:7471", ErrLoopbackDst},
		{"", "192.0.2.9:7471", ErrNoRoute},
		{"", "10.9.5.50:7471", ErrNotRDMA},
		{"10.9.0.2:0", "10.9.0.1:7471", ErrRouteMismatch}, // case 35
	} {
		t.Run(c.bind+" to "+c.dst, func(t *testing.T) {
			_, err := resolved(t, IDConfig{}, c.bind, "", c.dst)
			require.ErrorIs(t, err, c.err)
		})
	}
	require.Equal(t, calls, resolveCalls.Load())
}

// Case 13: a receive that is posted late costs a wait, not the connection.
func TestFieldLateReceive(t *testing.T) {
	needTopo(t, "field")
	client, server, cq := rawPair(t)
	ctx := within(t, time.Minute)
	sent := make(chan error, 1)
	go func() { sent <- client.Send(ctx, []byte("early")) }()
	select {
	case err := <-sent:
		t.Fatalf("sent before a receive was posted: %v", err)
	case <-time.After(200 * time.Millisecond): // long enough for a first try to be refused
	}
	mr, b := receive(t, server, 64)
	_, err := b.Post()
	require.NoError(t, err)
	require.NoError(t, <-sent)
	wcs := make([]ibv.WC, 1)
	n, err := cq.Wait(ctx, wcs)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, wcs[0].Err())
	require.Equal(t, "early", string(mr.Bytes()[:wcs[0].Len()]))
}

// Case 14: READ works by default, and is refused where the depth is zero.
func TestFieldReadDepth(t *testing.T) {
	needTopo(t, "field")
	for _, c := range []struct {
		name          string
		client, serve ConnParam
		err           error
	}{
		{"defaults", ConnParam{}, ConnParam{}, nil},
		{"one", ConnParam{InitiatorDepth: 1}, ConnParam{ResponderResources: 1}, nil},
		{"client none", ConnParam{InitiatorDepth: None}, ConnParam{}, ibv.ErrReadDepthZero},
		{"server none", ConnParam{}, ConnParam{ResponderResources: None}, ibv.ErrReadDepthZero},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := pairUp(t, "10.9.0.1:0", Dialer{LocalAddr: ap("10.9.0.1:0"), Param: c.client}, AcceptConfig{Param: c.serve})
			remote, err := server.PD().AllocMR(64, ibv.RemoteRead)
			require.NoError(t, err)
			defer remote.Close()
			copy(remote.Bytes(), "to be read")
			local, err := client.PD().AllocMR(64, ibv.LocalWrite)
			require.NoError(t, err)
			defer local.Close()
			err = client.Read(within(t, time.Minute), local.SGE(0, 10), remote.Remote(0))
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "to be read", string(local.Bytes()[:10]))
		})
	}
}

// rawPair is a connection whose server brings its own queues; cq takes the
// server's completions.
func rawPair(t *testing.T) (client, server *Conn, cq *ibv.CQ) {
	t.Helper()
	client, server = pairUp(t, "10.9.0.1:0", Dialer{LocalAddr: ap("10.9.0.1:0")}, AcceptConfig{
		Resources: func(ctx *ibv.Context) (r Resources, err error) {
			ch, err := ctx.NewCompChannel()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, ch.Close()) })
			cq, err = ctx.CreateCQ(ibv.CQConfig{Size: 64, Channel: ch})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, cq.Close()) })
			r.PD, err = ctx.AllocPD()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, r.PD.Close()) })
			r.QP = ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxRecv: 16, MaxSend: 16}
			return r, nil
		},
	})
	_, err := server.Recv(within(t, time.Second), nil)
	require.ErrorIs(t, err, ErrOwnQueues)
	return client, server, cq
}

// receive prepares one receive of n bytes.
func receive(t *testing.T, c *Conn, n int) (*ibv.MR, *ibv.RecvBatch) {
	t.Helper()
	mr, err := c.PD().AllocMR(n, ibv.LocalWrite)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); require.NoError(t, mr.Close()) })
	b, err := c.QP().NewRecvBatch(ibv.BatchConfig{})
	require.NoError(t, err)
	require.NoError(t, b.Recv(0, mr.SGE(0, n)))
	return mr, b
}
