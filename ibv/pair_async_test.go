//go:build linux && cgo

package ibv

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// nextOf waits for an event of that type.
func nextOf(t *testing.T, c *Context, want AsyncEventType) AsyncEvent {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		ev, err := c.NextAsyncEvent(ctx)
		require.NoError(t, err, "waiting for %v", want)
		if ev.Type == want {
			return ev
		}
	}
}

// run runs a command line.
func run(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	out, err := exec.Command(f[0], f[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}

func TestPairAsyncPort(t *testing.T) {
	needRDMA(t)
	run(t, "ip link add async0 type veth peer name async1")
	t.Cleanup(func() { run(t, "ip link del async0") })
	run(t, "ip link set async0 up")
	run(t, "ip link set async1 up")
	run(t, "rdma link add rxe9 type rxe netdev async0")
	t.Cleanup(func() { run(t, "rdma link del rxe9") })
	var c *Context
	require.Eventually(t, func() (ok bool) { // the device node comes a moment later
		var err error
		c, err = Open("rxe9")
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	c = autoClose(t, c, nil)

	run(t, "ip address add 10.1.99.1/24 dev async0")
	require.EqualValues(t, 1, nextOf(t, c, EventGIDChange).Port)
	run(t, "ip link set async1 down") // what comes while nobody asks waits
	run(t, "ip link set async1 up")
	require.EqualValues(t, 1, nextOf(t, c, EventPortErr).Port)
	require.Equal(t, "PORT_ACTIVE on port 1", nextOf(t, c, EventPortActive).String())
}

// An event of a queue pair comes with the queue pair, whoever else has one.
func TestPairAsyncQP(t *testing.T) {
	needRDMA(t)
	a, b := newPair(t, endConfig{})
	require.NoError(t, b.qp.Modify(QPAttr{State: QPSQD, SQDAsyncNotify: true}, AttrState|AttrSQDAsyncNotify))
	ev := nextOf(t, b.ctx, EventSQDrained)
	require.Same(t, b.qp, ev.QP)
	require.NotSame(t, a.qp, ev.QP)
	require.Contains(t, ev.String(), "SQ_DRAINED on QP ")
}

// Waiting ends with the context, and with the device's Close, and costs no more
// than a goroutine.
func TestPairAsyncWait(t *testing.T) {
	needRDMA(t)
	c, err := Open("rxe1")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	cancel()
	for range 3 {
		_, err = c.NextAsyncEvent(ctx)
		require.ErrorIs(t, err, context.Canceled)
	}
	ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = c.NextAsyncEvent(ctx)
	require.Error(t, err)

	var wg sync.WaitGroup
	started := make(chan struct{}, 10)
	for range cap(started) {
		wg.Go(func() {
			started <- struct{}{}
			_, err := c.NextAsyncEvent(within(t, time.Minute))
			require.ErrorIs(t, err, ErrClosed)
		})
	}
	for range cap(started) {
		<-started
	}
	require.NoError(t, c.Close())
	wg.Wait()
	_, err = c.NextAsyncEvent(within(t, time.Minute))
	require.ErrorIs(t, err, ErrClosed)
}
