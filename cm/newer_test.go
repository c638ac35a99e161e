//go:build linux

package cm

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tooOld reports whether an error is that of an older rdma-core or kernel, and
// wants it to say so.
func tooOld(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return false
	}
	require.ErrorIs(t, err, errors.ErrUnsupported)
	var op *OpError
	require.ErrorAs(t, err, &op)
	if errors.Is(err, syscall.ENOSYS) {
		require.ErrorContains(t, err, "needs rdma-core 60 or later")
	}
	t.Log(err)
	return true
}

// TestPairWriteEvent: an event of the program's own comes back by the id's channel,
// in whatever state it is, and disturbs no step.
func TestPairWriteEvent(t *testing.T) {
	needTopo(t, "pair")
	id := newTestID(t, IDConfig{})
	if tooOld(t, id.WriteEvent(-5, 1<<63|7)) {
		return
	}
	listener := boundTo(t, "10.1.0.1:0")
	require.NoError(t, listener.Listen(0))
	require.NoError(t, listener.WriteEvent(-5, 1<<63|7))
	for _, id := range []*ID{id, listener} {
		n := <-id.Notices()
		require.Equal(t, Notice{Type: EventUser, Status: -5, Arg: 1<<63 | 7, At: n.At}, n)
	}
	connected := connectedID(t)
	require.NoError(t, connected.WriteEvent(0, 8))
	n := <-connected.Notices()
	require.Equal(t, uint64(8), n.Arg)
	require.Equal(t, StateConnected, connected.State())
	require.NoError(t, id.Close())
	require.ErrorIs(t, id.WriteEvent(0, 0), ErrClosed)
}

// TestPairAddrInfoEvents: address info comes by an event, as often as it is asked
// for; a service is known to InfiniBand only.
func TestPairAddrInfoEvents(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	id := boundTo(t, "10.1.0.1:0")
	_, err := id.ResolveService(ctx, "storage")
	require.True(t, tooOld(t, err))
	require.Equal(t, StateBoundDevice, id.State())
	for range 2 {
		list, err := id.ResolveAddrInfo(ctx, "10.1.0.2", "7471", AddrInfoHints{})
		if tooOld(t, err) {
			return
		}
		require.Len(t, list, 1)
		require.Equal(t, ap("10.1.0.2:7471"), list[0].Dst)
	}
	require.Equal(t, StateBoundDevice, id.State())
	_, err = id.ResolveAddrInfo(ctx, "no.such.name.invalid", "1", AddrInfoHints{})
	require.ErrorIs(t, err, syscall.ENOENT)
	require.NoError(t, id.ResolveAddr(ctx, ap("10.1.0.1:0"), ap("10.1.0.1:7")), "it is of use still")
}
