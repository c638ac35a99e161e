//go:build linux && cgo

package ibv

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// demuxed is a fake queue pair whose send CQ belongs to a Demux.
func demuxed(t testing.TB, f *bench, cfg DemuxConfig) (*Demux, *bell) {
	t.Helper()
	bell := withBell(f.scq)
	d, err := NewDemux(cfg, f.scq)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, bell
}

// TestDemux: completions that come in another order than their waiters reach each
// its own, and none is left.
func TestDemux(t *testing.T) {
	f := newBench(t, benchConfig{depth: 64})
	d, bell := demuxed(t, f, DemuxConfig{Slots: 50})
	m := f.mr(t, 64, LocalWrite)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 20 {
		var wg sync.WaitGroup
		ids := make(chan uint64, 50)
		for range 50 {
			wg.Go(func() {
				ticket, err := d.Take()
				require.NoError(t, err)
				ids <- ticket.ID()
				wc, err := ticket.Wait(ctx)
				require.NoError(t, err)
				require.Equal(t, ticket.ID(), wc.ID())
				require.NoError(t, wc.Err())
			})
		}
		for range 50 {
			require.NoError(t, f.qp.PostSend(SendWR{ID: <-ids, SGEs: []SGE{m.SGE(0, 8)}}))
			bell.ring()
		}
		wg.Wait()
	}
	require.Zero(t, d.Stray())
	require.Len(t, d.free, 50)
}

// TestDemuxCancelled: whose context ends first gets its error at once, the slot and
// the memory are held until the completion is in, and that reaches nobody.
func TestDemuxCancelled(t *testing.T) {
	f := newBench(t, benchConfig{})
	d, bell := demuxed(t, f, DemuxConfig{Slots: 1})
	m := f.mr(t, 64, LocalWrite)
	ticket, err := d.Take()
	require.NoError(t, err)
	require.NoError(t, f.qp.PostSend(SendWR{ID: ticket.ID(), SGEs: []SGE{m.SGE(0, 8)}}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = ticket.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, m.Close(), ErrBusy)
	_, err = d.Take()
	require.ErrorIs(t, err, ErrQueueFull)
	_, err = ticket.Wait(context.Background())
	require.ErrorIs(t, err, ErrClosed, "it has ended")

	bell.ring()
	require.Eventually(t, func() bool {
		next, err := d.Take()
		if err == nil {
			require.NotEqual(t, ticket.ID(), next.ID())
			next.Drop()
		}
		return err == nil
	}, 20*time.Second, time.Millisecond)
	require.Zero(t, d.Stray())
	require.NoError(t, m.Close())
}

// TestDemuxEnds: each way in which a ticket ends, and what ends the Demux.
func TestDemuxEnds(t *testing.T) {
	f := newBench(t, benchConfig{})
	others := make(chan uint64, 4)
	d, bell := demuxed(t, f, DemuxConfig{Slots: 2, Other: func(wc WC) { others <- wc.ID() }})
	m := f.mr(t, 64, LocalWrite)
	post := func(id uint64) {
		require.NoError(t, f.qp.PostSend(SendWR{ID: id, SGEs: []SGE{m.SGE(0, 8)}}))
		bell.ring()
	}
	ctx := context.Background()

	post(7)
	require.EqualValues(t, 7, <-others, "no ticket's")
	a, err := d.Take()
	require.NoError(t, err)
	a.Drop()
	post(a.ID())
	require.Equal(t, a.ID(), <-others, "a dropped ticket's")
	a.Leave()
	a.Drop() // each does nothing any more

	b, err := d.Take()
	require.NoError(t, err)
	b.Leave()
	post(b.ID())
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.free) == 2
	}, 20*time.Second, time.Millisecond, "a left ticket's slot is free when its completion is in")

	// One that waits, one that is done, at the end.
	done, err := d.Take()
	require.NoError(t, err)
	waits, err := d.Take()
	require.NoError(t, err)
	post(done.ID())
	ended := make(chan error)
	go func() { _, err := waits.Wait(ctx); ended <- err }()
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.slots[uint32(done.ID())].state == slotDone && d.slots[uint32(waits.ID())].state == slotWaited
	}, 20*time.Second, time.Millisecond)
	_, err = waits.Wait(ctx)
	require.ErrorIs(t, err, ErrClosed, "another one waits")
	require.NoError(t, d.Close())
	require.ErrorIs(t, <-ended, ErrClosed)
	wc, err := done.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, done.ID(), wc.ID())
	_, err = d.Take()
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, d.Close())
}

// TestDemuxSourceFails: a CQ that cannot be polled wakes everybody with its error.
func TestDemuxSourceFails(t *testing.T) {
	f := newBench(t, benchConfig{})
	d, bell := demuxed(t, f, DemuxConfig{})
	ticket, err := d.Take()
	require.NoError(t, err)
	bell.fail(errors.New("overrun"))
	_, err = ticket.Wait(context.Background())
	require.ErrorIs(t, err, ErrCQFailed)
	_, err = d.Take()
	require.ErrorIs(t, err, ErrCQFailed)
}

func TestDemuxMisuse(t *testing.T) {
	f := newBench(t, benchConfig{})
	for _, bad := range []struct {
		cfg     DemuxConfig
		sources []Completions
		want    error
	}{
		{DemuxConfig{}, nil, ErrInvalid},
		{DemuxConfig{Slots: -1}, []Completions{f.scq}, ErrInvalid},
		{DemuxConfig{}, []Completions{nil}, ErrInvalid},
		{DemuxConfig{}, []Completions{(*CQ)(nil)}, ErrClosed},
		{DemuxConfig{}, []Completions{f.scq}, ErrNoChannel},
	} {
		_, err := NewDemux(bad.cfg, bad.sources...)
		require.ErrorIs(t, err, bad.want)
	}
	for _, d := range []*Demux{nil, {}} {
		_, err := d.Take()
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, d.Close())
		require.Zero(t, d.Stray())
	}
	var zero Ticket
	_, err := zero.Wait(context.Background())
	require.ErrorIs(t, err, ErrClosed)
	zero.Drop()
	zero.Leave()
}
