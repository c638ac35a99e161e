//go:build linux

package cm

import (
	"math"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// TestPairLimits: what is over a limit is refused by its name, with the limit, and
// before the kernel is asked where it would not say; one that is just allowed goes
// through.
func TestPairLimits(t *testing.T) {
	needTopo(t, "pair")
	ctx, err := ibv.Open(dev("rxe0"))
	require.NoError(t, err)
	defer ctx.Close()
	can, err := ctx.QueryDevice()
	require.NoError(t, err)
	port, err := ctx.QueryPort(1)
	require.NoError(t, err)

	id := resolvedID(t, true)
	queues := func(q QueueConfig) func() error {
		return func() error { _, err := newConn(id, q, nil); return err }
	}
	ready := resolvedID(t, true)
	withQP(t, ready)
	connect := func(p ConnParam) func() error { // refused, it stays ready
		return func() error { return ready.Connect(within(t, time.Minute), p) }
	}
	for name, c := range map[string]struct {
		call func() error
		is   error
		says []string
	}{
		"backlog":              {func() error { return boundTo(t, home).Listen(MaxBacklog + 1) }, ibv.ErrInvalid, []string{"65537", "65536"}},
		"backlog without end":  {func() error { return boundTo(t, home).Listen(math.MaxInt) }, ibv.ErrInvalid, []string{"65536"}},
		"backlog below zero":   {func() error { return boundTo(t, home).Listen(-1) }, ibv.ErrInvalid, []string{"-1"}},
		"SendDepth":            {queues(QueueConfig{SendDepth: can.MaxQPWR + 1}), ibv.ErrInvalid, []string{"SendDepth", str(can.MaxQPWR)}},
		"RecvDepth":            {queues(QueueConfig{RecvDepth: math.MaxInt}), ibv.ErrInvalid, []string{"RecvDepth", str(can.MaxQPWR)}},
		"SendDepth below zero": {queues(QueueConfig{SendDepth: -1}), ibv.ErrInvalid, []string{"SendDepth is -1"}},
		"MaxMessage":           {queues(QueueConfig{MaxMessage: math.MaxInt}), ibv.ErrInvalid, []string{"MaxMessage", str(int(port.MaxMsgSize))}},
		"MaxInline":            {queues(QueueConfig{MaxInline: 4096}), syscall.EINVAL, []string{"MaxInline is 4096"}},
		"CQ":                   {queues(QueueConfig{RecvDepth: can.MaxCQE, MaxMessage: 1}), syscall.EINVAL, []string{"Size is", str(can.MaxCQE)}},
		"ResponderResources":   {connect(ConnParam{ResponderResources: uint8(can.MaxQPReadAtomic + 1)}), ibv.ErrInvalid, []string{"ResponderResources", str(can.MaxQPReadAtomic)}},
		"InitiatorDepth":       {connect(ConnParam{InitiatorDepth: uint8(can.MaxQPInitReadAtomic + 1)}), ibv.ErrInvalid, []string{"InitiatorDepth", str(can.MaxQPInitReadAtomic)}},
		"RetryCount":           {connect(ConnParam{RetryCount: 8}), ibv.ErrInvalid, []string{"RetryCount is 8", "7"}},
		"RNRRetryCount":        {connect(ConnParam{RNRRetryCount: 8}), ibv.ErrInvalid, []string{"RNRRetryCount is 8", "7"}},
		"AckTimeout":           {func() error { _, err := NewID(IDConfig{Options: Options{AckTimeout: 32}}); return err }, syscall.EINVAL, []string{"32", "31"}},
		"private data":         {connect(ConnParam{PrivateData: make([]byte, 256)}), ErrPrivateDataTooLong, []string{"256", str(MaxConnectData)}},
		"frame":                {func() error { _, err := Frame(make([]byte, 53), MaxConnectData); return err }, ErrPrivateDataTooLong, []string{"53", "52"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.call()
			require.ErrorIs(t, err, c.is)
			for _, s := range c.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
	require.NoError(t, boundTo(t, home).Listen(MaxBacklog))
}

func str(n int) string { return strconv.Itoa(n) }
