//go:build linux

package cm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/railbind/railbind/ibv"
)

// Routes, rules, addresses and MTUs that change at random beside many dials at
// once, on both rails. Each dial is where it was promised, or told; none hangs, and
// nothing is left.
func TestPairChangesBesideDials(t *testing.T) {
	needTopo(t, "pair")
	all := []side{
		{railA, "10.1.0.9", "10.1.0.2", "10.1.0.1", "10.2.0.2"},
		{railA, "fd01::9", "fd01::2", "fd01::1", "fd02::2"},
		{railB, "10.2.0.9", "10.2.0.2", "10.2.0.1", "10.1.0.2"},
		{railB, "fd02::9", "fd02::2", "fd02::1", "fd01::2"},
	}
	for _, s := range all {
		require.NoError(t, netlink.AddrAdd(link(s.netdev), address(s.local)))
		t.Cleanup(func() { require.NoError(t, netlink.AddrDel(link(s.netdev), address(s.local))) })
		if !iwarp() {
			awaitGID(t, s.rdma, netip.MustParseAddr(s.local))
		}
	}
	left := func() int { return owned(t, "qp") + owned(t, "cm_id") }
	before := left()

	ctx := within(t, 5*time.Minute)
	rounds := 3 + changesAsked(0)/10 // of each dialer, at least
	var dialing sync.WaitGroup
	var kept, told atomic.Int64
	for i, s := range append(all, all...) {
		l, err := Listen(netip.AddrPortFrom(netip.MustParseAddr(s.other), 0), ListenConfig{Timeouts: Timeouts{Connect: 10 * time.Second}})
		require.NoError(t, err)
		sctx, stop := context.WithCancel(ctx)
		var serving sync.WaitGroup
		serving.Go(func() { echo(sctx, l) })
		dialing.Go(func() {
			defer func() { stop(); serving.Wait(); l.Close() }()
			for n := range rounds {
				err := resolveBeside(ctx, s)
				if n%2 == i%2 {
					err = dialBeside(ctx, s, l.Addr())
				}
				if err == nil {
					kept.Add(1)
					continue
				}
				told.Add(1)
				if !errors.Is(err, ErrAmbiguousDevice) { // both rails had the address
					requireTold(t, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { dialing.Wait(); close(done) }()

	rnd := rand.New(rand.NewPCG(changesSeed(), 4))
	changes := 0
	for over := false; !over; changes++ {
		c, s := besides()[rnd.IntN(len(besides()))], all[rnd.IntN(len(all))]
		require.NoError(t, c.do(s), c.name)
		select {
		case <-time.After(time.Duration(rnd.IntN(20)) * time.Millisecond):
		case <-done:
			over = true
		}
		require.NoError(t, c.undo(s), c.name)
	}
	require.NoError(t, ctx.Err(), "a dial hangs")
	// (What was abandoned on iWARP is closed in the background.)
	require.Eventually(t, func() bool { return left() == before }, 30*time.Second, 10*time.Millisecond, "ids and queue pairs")
	t.Logf("%d changes beside %d kept and %d told", changes, kept.Load(), told.Load())
}

// besides are the changes after which rxe still sends, for all others' sake. In
// place of an address that goes, both rails have it for a moment.
func besides() (out []netChange) {
	for _, c := range netChanges() {
		switch {
		case c.muting || c.undo == nil:
		case c.name == "MTU": // of rail a alone: the path MTU must tell the rails apart
			out = append(out, netChange{name: c.name,
				do:   func(side) error { return c.do(side{rail: railA}) },
				undo: func(side) error { return c.undo(side{rail: railA}) }})
		default:
			out = append(out, c)
		}
	}
	return append(out, netChange{
		name: "address on the other rail too",
		do:   func(s side) error { return netlink.AddrAdd(link(s.away), address(s.local)) },
		undo: func(s side) error { return netlink.AddrDel(link(s.away), address(s.local)) },
	})
}

var errSplit = errors.New("silent split")

// resolveBeside resolves towards the peer on the rail; the path MTU tells the
// network device of the path.
func resolveBeside(ctx context.Context, s side) error {
	d := Dialer{LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(s.local), 0)}
	id, err := d.resolve(ctx, netip.AddrPortFrom(netip.MustParseAddr(s.peer), 7471))
	if err != nil {
		return err
	}
	defer id.Close()
	mtu := ibv.MTU(id.info.PathMTU).Bytes()
	if b := id.Binding(); b.Device != dev(s.rdma) || b.Netdev != s.netdev || !iwarp() && (mtu == 2048) != (s.rail == railB) {
		return fmt.Errorf("%w: %v, path MTU %d", errSplit, b, mtu)
	}
	return nil
}

// dialBeside connects on the rail, and sends.
func dialBeside(ctx context.Context, s side, to netip.AddrPort) error {
	d := Dialer{LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(s.local), 0)}
	c, err := d.DialAddr(ctx, to)
	if err != nil {
		return err
	}
	defer c.Close()
	attr, err := c.QP().Query()
	if err != nil {
		return err
	}
	if !iwarp() && attr.State == ibv.QPRTS {
		gid, err := c.ID().Context().QueryGID(attr.Port, attr.AH.SGIDIndex)
		if err != nil || gid.Netdev != link(s.netdev).Attrs().Index {
			return fmt.Errorf("%w: the QP is on network device %d: %w", errSplit, gid.Netdev, err)
		}
	}
	buf := make([]byte, 100)
	if err := c.Send(ctx, buf); err != nil {
		return err
	}
	_, err = c.Recv(ctx, buf)
	return err
}

// echo serves one peer after the other until ctx ends.
func echo(ctx context.Context, l *Listener) {
	for ctx.Err() == nil {
		r, err := l.Accept(ctx)
		if err != nil {
			continue
		}
		c, err := r.Accept(ctx, AcceptConfig{})
		if err != nil {
			continue
		}
		buf := make([]byte, 100)
		if n, err := c.Recv(ctx, buf); err == nil {
			_ = c.Send(ctx, buf[:n])
			<-c.Done()
		}
		c.Close()
	}
}
