package cm

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// records gives a logger and what it was given.
func records(t *testing.T) (*slog.Logger, func() []map[string]any) {
	var buf bytes.Buffer
	return slog.New(slog.NewJSONHandler(&buf, nil)), func() (out []map[string]any) {
		for d := json.NewDecoder(&buf); d.More(); {
			var m map[string]any
			require.NoError(t, d.Decode(&m))
			out = append(out, m)
		}
		return out
	}
}

// Every decision is logged and counted once.
func TestPairObserve(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	for _, c := range []struct {
		name, bind, src, dst string
		level, refused       string
		overridden           bool
	}{
		{name: "accepted", bind: "10.1.0.1:0", dst: "10.1.0.2:7471", level: "INFO"},
		{name: "followed", dst: "10.2.0.2:7471", level: "INFO"},
		{name: "another rail", bind: "[fd01::1]:0", dst: "[fd02::2]:7471", level: "WARN", refused: "ErrRouteMismatch"},
		{name: "another source", bind: "10.1.0.1:0", src: "10.2.0.1:0", dst: "10.2.0.2:7471", level: "WARN", refused: "ErrSourceConflict"},
		{name: "bind without RDMA", bind: "10.3.0.1:0", level: "WARN", refused: "ErrNotRDMA"},
		{name: "bind without zone", bind: "[fe80::1]:0", level: "WARN", refused: "ErrScope"},
	} {
		t.Run(c.name, func(t *testing.T) {
			logger, read := records(t)
			before := ReadCounters()
			id := newTestID(t, IDConfig{Logger: logger})
			var err error
			if c.bind != "" {
				err = id.Bind(ap(c.bind))
			}
			if err == nil {
				err = id.ResolveAddr(ctx, ap(c.src), ap(c.dst))
			}
			after := ReadCounters()
			got := read()
			require.Len(t, got, 1)
			require.Equal(t, c.level, got[0]["level"])
			if c.refused == "" {
				require.NoError(t, err)
				require.Equal(t, before.Accepted+1, after.Accepted)
				require.Equal(t, "accepted", got[0]["decision"].(map[string]any)["verdict"])
				return
			}
			require.Error(t, err)
			require.Equal(t, c.refused, got[0]["error"])
			require.Equal(t, before.Accepted, after.Accepted)
			require.Equal(t, before.Refused[c.refused]+1, after.Refused[c.refused])
		})
	}

	t.Run("both ends", func(t *testing.T) {
		logger, read := records(t)
		before := ReadCounters()
		l := listen(t, home, ListenConfig{Logger: logger})
		done := make(chan error, 1)
		go func() {
			_, err := dialHome(ctx, l)
			done <- err
		}()
		r, err := l.Accept(ctx)
		require.NoError(t, err)
		require.NoError(t, r.Reject(nil))
		require.ErrorIs(t, <-done, ErrRejected)
		require.Len(t, read(), 1)
		require.Equal(t, before.Accepted+2, ReadCounters().Accepted, "the dialer's and the listener's")
	})
}

// Case by case: whether, to what and since when an id is bound.
func TestPairBindingOnRecord(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	began := time.Now()
	want := func(id *ID, state policy.BindState, device string) {
		t.Helper()
		b := id.Binding()
		require.Equal(t, state, b.State)
		require.Equal(t, device, b.Device)
		if state == policy.Unbound {
			require.Zero(t, b.Since)
		} else {
			require.WithinRange(t, b.Since, began, time.Now())
		}
	}
	short := IDConfig{Timeouts: Timeouts{ResolveAddr: 100 * time.Millisecond}}

	id := newTestID(t, IDConfig{})
	want(id, policy.Unbound, "")
	require.NoError(t, id.Bind(ap("10.1.0.1:0")))
	want(id, policy.BoundDevice, dev("rxe0"))
	bound := id.Binding()
	require.ErrorIs(t, id.ResolveAddr(ctx, ap("10.2.0.1:0"), ap("10.2.0.2:1")), ErrSourceConflict)
	require.Equal(t, bound, id.Binding(), "a refusal leaves the id as it was")
	require.NoError(t, id.ResolveAddr(ctx, ap(""), ap("10.1.0.2:1")))
	require.Equal(t, bound.Since, id.Binding().Since, "it has been bound since the bind")
	require.NoError(t, id.Close())
	want(id, policy.BoundDevice, dev("rxe0"))

	id = newTestID(t, IDConfig{})
	require.NoError(t, id.Bind(ap("0.0.0.0:0")))
	want(id, policy.BoundWildcard, "")
	require.NoError(t, id.ResolveAddr(ctx, ap(""), ap("10.2.0.2:1")))
	want(id, policy.BoundDevice, dev("rxe1"))

	id = newTestID(t, IDConfig{})
	require.NoError(t, id.ResolveAddr(ctx, ap(""), ap("10.2.0.2:1")))
	want(id, policy.BoundDevice, dev("rxe1"))

	id = newTestID(t, IDConfig{})
	require.Error(t, id.Bind(ap("10.3.0.1:0")))
	want(id, policy.BoundUnknown, "")

	// The kernel has bound this one although the resolve has failed.
	id = newTestID(t, short)
	require.ErrorIs(t, id.ResolveAddr(ctx, ap(""), ap("10.1.0.77:1")), syscall.ETIMEDOUT)
	want(id, policy.BoundUnknown, "")
	require.ErrorIs(t, id.ResolveAddr(ctx, ap(""), ap("10.2.0.2:1")), ErrPoisoned)

	id = newTestID(t, short)
	require.NoError(t, id.Bind(ap("10.1.0.1:0")))
	require.ErrorIs(t, id.ResolveAddr(ctx, ap(""), ap("10.1.0.77:1")), syscall.ETIMEDOUT)
	want(id, policy.BoundDevice, dev("rxe0"))

	// Both kinds of listener, and what comes from them.
	for listener, state := range map[string]policy.BindState{"10.1.0.1:0": policy.BoundDevice, "0.0.0.0:0": policy.BoundWildcard} {
		l := listen(t, listener, ListenConfig{})
		done := make(chan error, 1)
		go func() {
			to := ap(home).Addr()
			_, err := (&Dialer{LocalAddr: ap(home)}).DialAddr(ctx, netip.AddrPortFrom(to, l.Addr().Port()))
			done <- err
		}()
		require.Eventually(t, func() bool { return len(l.ID().requests.ch) == 1 }, time.Minute, time.Millisecond)
		waiting := time.Now()
		r, err := l.Accept(ctx)
		require.NoError(t, err)
		require.True(t, r.Binding().Since.Before(waiting), "it landed before it was taken")
		require.Equal(t, state, l.Binding().State)
		want(r.ID(), policy.BoundDevice, dev("rxe0"))
		require.Equal(t, "a0", r.Binding().Netdev)
		if !iwarp() { // whose GID is the hardware address
			require.Equal(t, "10.1.0.1", r.Binding().GID.Addr().String())
		}
		require.NoError(t, r.Close())
		require.ErrorIs(t, <-done, ErrRejected)
	}
}

// Datagram ids keep the rule; what is missing says so.
func TestPairUDPPortSpace(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	id := newTestID(t, IDConfig{PortSpace: PortSpaceUDP})
	require.NoError(t, id.Bind(ap("[fd01::1]:0")))
	require.ErrorIs(t, id.ResolveAddr(ctx, ap(""), ap("[fd02::2]:1")), ErrRouteMismatch)
	require.NoError(t, id.ResolveAddr(ctx, ap(""), ap("[fd01::2]:1")))
	require.NoError(t, id.ResolveRoute(ctx))
	pd, err := id.Context().AllocPD()
	require.NoError(t, err)
	defer pd.Close()
	_, err = id.CreateQP(pd, ibv.QPConfig{})
	require.ErrorIs(t, err, ibv.ErrInvalid)
	require.ErrorContains(t, err, "SendCQ")
	_, err = NewID(IDConfig{PortSpace: 77})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// What a dial costs in netlink requests stands in the package's documentation.
func TestPairLookups(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	l := listen(t, home, ListenConfig{})
	go func() {
		for {
			r, err := l.Accept(ctx)
			if err != nil {
				return
			}
			c, err := r.Accept(ctx, AcceptConfig{})
			if err == nil {
				go func() {
					<-c.Done()
					c.Close()
				}()
			}
		}
	}()
	cost := func(d *Dialer) uint64 {
		id := newTestID(t, IDConfig{}) // the host's handle stays the same while it lives
		before := id.host.Requests()
		i, err := d.resolve(ctx, l.Addr())
		require.NoError(t, err)
		after := i.host.Requests()
		require.NoError(t, i.Close())
		return after - before
	}
	bound, idle := 36, 13
	if iwarp() { // has no GID to look for
		bound, idle = 35, 12
	}
	// (How many are answered from memory is a matter of time: TestMemo.)
	for name, c := range map[string]struct {
		d    *Dialer
		most int
	}{"bound": {&Dialer{LocalAddr: ap(home)}, bound}, "not bound": {&Dialer{}, idle}} {
		n := int(cost(c.d))
		t.Logf("%s: %d requests", name, n)
		require.LessOrEqual(t, n, c.most, name)
		require.Positive(t, n, name)
	}
}
