package cm

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPairWatch: RDMA devices that come and go are told, and so is a route.
func TestPairWatch(t *testing.T) {
	needTopo(t, "pair")
	h, err := OpenHost()
	require.NoError(t, err)
	defer h.Close()
	for _, change := range []string{
		dev("rdma link add rxe9 type rxe netdev c0"), dev("rdma link delete rxe9"),
		"ip route add 10.99.0.0/24 dev a0", "ip route del 10.99.0.0/24 dev a0",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		changes, err := h.Watch(ctx)
		require.NoError(t, err)
		run(t, change)
		select {
		case _, ok := <-changes:
			require.True(t, ok, change)
		case <-time.After(time.Minute):
			t.Fatal("not told: " + change)
		}
		cancel()
		for range changes {
		}
	}
}
