//go:build linux && cgo

package ibv

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

// silent is a source from which nothing comes: the tests deliver themselves.
type silent struct{}

func (silent) Wait(ctx context.Context, wcs []WC) (int, error) {
	if len(wcs) == 0 {
		return 0, ErrInvalid
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

func silentDemux(t *testing.T, slots int) *Demux {
	t.Helper()
	d, err := NewDemux(DemuxConfig{Slots: slots}, silent{})
	require.NoError(t, err)
	return d
}

func completionOf(ticket Ticket) []WC { return []WC{{w: cgo.WC{ID: ticket.ID()}}} }

// mustReturn fails the test where f does not return: a lock is held for good then.
func mustReturn(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
}

// TestDemuxEndsAtOnce: a completion from one source, the failure of another and the
// end of the context come in the same moment, in each order. The ticket ends once,
// and nobody is left waiting.
func TestDemuxEndsAtOnce(t *testing.T) {
	failed := errors.New("a source failed")
	for range 20000 {
		d := silentDemux(t, 1)
		ticket, err := d.Take()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for _, f := range []func(){
			func() {
				wc, err := ticket.Wait(ctx)
				if err == nil {
					require.Equal(t, ticket.ID(), wc.ID())
				}
			},
			cancel,
			func() { d.end(failed) },
			func() { d.deliver(completionOf(ticket)) },
		} {
			all.Go(f)
		}
		mustReturn(t, all.Wait)
		require.Len(t, d.free, 1)
		require.Empty(t, d.slots[0].wake)
		require.NoError(t, d.Close())
		cancel()
	}
}

// TestDemuxOneTicketTwice: several calls on one ticket at once. One of them ends
// it, and none takes, or ends, the ticket that is the slot's next.
func TestDemuxOneTicketTwice(t *testing.T) {
	d := silentDemux(t, 1)
	ctx := context.Background()
	for range 20000 {
		ticket, err := d.Take()
		require.NoError(t, err)
		var all sync.WaitGroup
		wait := func() {
			wc, err := ticket.Wait(ctx)
			if err != nil {
				require.ErrorIs(t, err, ErrClosed)
				return
			}
			require.Equal(t, ticket.ID(), wc.ID())
		}
		for _, f := range []func(){wait, wait, ticket.Leave, func() { d.deliver(completionOf(ticket)) }} {
			all.Go(f)
		}
		mustReturn(t, all.Wait)
		require.Equal(t, slotFree, d.slots[0].state)
		require.Empty(t, d.slots[0].wake)
		require.Len(t, d.free, 1)
	}
	require.Zero(t, d.Stray())
	require.NoError(t, d.Close())
}
