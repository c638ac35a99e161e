//go:build linux

package cm

import (
	"errors"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/internal/route"
	"github.com/railbind/railbind/ibv"
)

// A device that is deleted between two steps of a connection, and made anew under
// the same name. The kernel takes it out of its lists at once, tells each id, and
// then waits until the last process has closed it; it cannot come back before. So
// the step says so, nothing hangs, and the library lets go of the device.
//
// In a process of its own: others have opened devices that it must not wait for.
// Part of make changes alone, see ci/README.md: librdmacm can lock itself out.
func TestChangesDeviceRemoved(t *testing.T) {
	needTopo(t, "pair")
	rxe9(t)
	steps := []string{"decided", "route resolved", "path checked", "before accept", "connected"}
	if changesAsked(0) > 0 {
		steps = append(steps, "idle", "address resolved", "before the route", "before connect", "established")
	}
	child(t, "removal", steps...)
}

func childRemoval(t *testing.T, steps []string) {
	for i, step := range steps {
		local := []string{"10.3.0.1", "fd03::1"}[i%2]
		ok := t.Run(step, func(t *testing.T) { removeAt(t, step, netip.AddrPortFrom(netip.MustParseAddr(local), 0)) })
		require.True(t, ok, "the device may still be held")
		run(t, dev("rdma link add rxe9 type rxe netdev c0"))
		if !iwarp() {
			awaitGID(t, "rxe9", netip.MustParseAddr("10.3.0.1"))
			awaitGID(t, "rxe9", netip.MustParseAddr("fd03::1"))
		}
	}
	loopData(t, "10.3.0.1", dev("rxe9@c0"))
}

// removal deletes the device at a step, once.
type removal struct {
	t     *testing.T
	step  string
	host  *Host
	ended chan error // nil before
}

func (r *removal) at(step string) {
	if step != r.step || r.ended != nil {
		return
	}
	r.ended = make(chan error, 1)
	go func() { r.ended <- exec.Command("rdma", "link", "delete", dev("rxe9")).Run() }()
	require.Eventually(r.t, func() bool {
		links, err := r.host.host.RDMALinks()
		require.NoError(r.t, err)
		return !slices.ContainsFunc(links, func(l route.RDMALink) bool { return l.Name == dev("rxe9") })
	}, 30*time.Second, time.Millisecond)
}

func removeAt(t *testing.T, step string, local netip.AddrPort) {
	h, err := OpenHost()
	require.NoError(t, err)
	defer h.Close()
	r := &removal{t: t, step: step, host: h}
	ctx := within(t, time.Minute)
	l, err := Listen(local, ListenConfig{})
	require.NoError(t, err)
	d := Dialer{LocalAddr: local, stepHook: r.at}
	if step == "before accept" {
		d.stepHook, l.id.cfg.stepHook = nil, r.at
	}
	type end struct {
		c   *Conn
		err error
	}
	passive := make(chan end, 1)
	go func() {
		req, err := l.Accept(ctx)
		if err != nil {
			passive <- end{err: err}
			return
		}
		c, err := req.Accept(ctx, AcceptConfig{})
		passive <- end{c, err}
	}()
	r.at("idle")
	c, err := d.dialOnce(ctx, l.Addr())
	p := <-passive
	r.at("connected")
	removed := 0
	for _, e := range []end{{c, err}, p} {
		if e.c != nil {
			select {
			case <-e.c.Done():
			case <-ctx.Done():
				t.Fatal("not told")
			}
			require.Error(t, e.c.Send(ctx, nil))
			e.err = e.c.Err()
		}
		t.Log("told:", e.err)
		switch {
		case (step == "idle" || step == "decided") && errors.Is(e.err, ErrNotRDMA): // not bound yet
		case e.c != nil && errors.Is(e.err, ErrDisconnected): // the other end was told first, and hung up
		default:
			require.ErrorIs(t, e.err, ibv.ErrDeviceRemoved)
			removed++
		}
	}
	require.NotZero(t, removed)
	require.NoError(t, c.Close())
	require.NoError(t, p.c.Close())
	require.NoError(t, l.Close())
	select {
	case err := <-r.ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("the device is not let go of")
	}
}
