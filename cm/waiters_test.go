//go:build linux

package cm

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten thousand ids of one event channel wait, and close at once, on a handful
// of OS threads: those of a process that has done nothing else, since Go ends none.
func TestPairTenThousandWaiters(t *testing.T) {
	needTopo(t, "pair")
	child(t, "ten thousand waiters")
}

func childTenThousandWaiters(t *testing.T, _ []string) {
	const n, most = 10_000, 40
	ch, err := NewEventChannel()
	require.NoError(t, err)
	ids := make([]*ID, n)
	var wg sync.WaitGroup
	waiting := make(chan error, n)
	for i := range ids {
		ids[i], err = NewID(IDConfig{Channel: ch})
		require.NoError(t, err)
		require.NoError(t, ids[i].Bind(ap("0.0.0.0:0")))
		require.NoError(t, ids[i].Listen(1))
		go func() {
			child, err := ids[i].GetRequest(context.Background())
			child.Close() // which rejects the peer
			waiting <- err
		}()
	}
	require.Less(t, threads(t), most, "while ten thousand wait")

	// They are alive: one of them, picked anywhere, gets its request.
	last := ids[n/2]
	_, err = (&Dialer{LocalAddr: ap("10.1.0.1:0")}).
		DialAddr(within(t, time.Minute), netip.AddrPortFrom(netip.MustParseAddr("10.1.0.1"), last.LocalAddr().Port()))
	require.ErrorIs(t, err, ErrRejected)
	require.NoError(t, <-waiting)

	most1 := 0
	for _, id := range ids {
		wg.Add(1)
		go func() {
			defer wg.Done()
			id.Close()
		}()
	}
	closed := make(chan struct{})
	go func() { wg.Wait(); close(closed) }()
	for done := false; !done; {
		most1 = max(most1, threads(t))
		select {
		case <-closed:
			done = true
		default:
			runtime.Gosched()
		}
	}
	require.Less(t, most1, most, "while ten thousand close")
	for range n - 1 {
		require.ErrorIs(t, <-waiting, ErrClosed)
	}
	require.NoError(t, ch.Close())
	t.Logf("at most %d OS threads", most1)
}
