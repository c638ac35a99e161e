//go:build linux

package cm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// Case 38: the kernel takes the path MTU from the network device's, at the moment
// of the connection, and messages are cut to it.
func TestPairPathMTU(t *testing.T) {
	needTopo(t, "pair")
	t.Cleanup(func() { run(t, "ip link set a0 mtu 4200") })
	queues := QueueConfig{MaxMessage: 1 << 20, RecvDepth: 1}
	for _, c := range []struct {
		netdev int
		want   ibv.MTU
	}{{4200, ibv.MTU4096}, {9000, ibv.MTU4096}, {2200, ibv.MTU2048}, {1500, ibv.MTU1024}} {
		run(t, fmt.Sprintf("ip link set a0 mtu %d", c.netdev))
		client, server := pairUp(t, "10.1.0.1:0", Dialer{LocalAddr: ap("10.1.0.1:0"), Queues: queues}, AcceptConfig{Queues: queues})
		if !iwarp() { // whose path is TCP's
			for _, conn := range []*Conn{client, server} {
				attr, err := conn.QP().Query()
				require.NoError(t, err)
				require.Equal(t, c.want, attr.PathMTU, "MTU %d", c.netdev)
			}
		}
		message := make([]byte, 1<<20)
		for i := range message {
			message[i] = byte(i >> 8)
		}
		ctx := within(t, time.Minute)
		sent := make(chan error, 1)
		go func() { sent <- client.Send(ctx, message) }()
		got := make([]byte, 1<<20)
		n, err := server.Recv(ctx, got)
		require.NoError(t, err)
		require.Equal(t, message, got[:n])
		require.NoError(t, <-sent)
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	}
}
