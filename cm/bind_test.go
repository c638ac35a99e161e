//go:build linux

package cm

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A port that is taken is EADDRINUSE, whatever the kernel calls it where one of the
// two addresses is the unspecified one; trying again would not help.
func TestPairPortInUse(t *testing.T) {
	needTopo(t, "pair")
	const port = "7471"
	for _, addrs := range []struct{ specific, wildcard, otherFamily string }{
		{"10.1.0.1:" + port, "0.0.0.0:" + port, "[::]:" + port},
		{"[fd01::1]:" + port, "[::]:" + port, "0.0.0.0:" + port},
	} {
		for _, pair := range [][2]string{
			{addrs.specific, addrs.specific},
			{addrs.wildcard, addrs.wildcard},
			{addrs.specific, addrs.wildcard},
			{addrs.wildcard, addrs.specific},
			{addrs.wildcard, addrs.otherFamily},
		} {
			t.Run(pair[0]+"/"+pair[1], func(t *testing.T) {
				l, err := Listen(ap(pair[0]), ListenConfig{})
				require.NoError(t, err)
				defer l.Close()
				_, err = Listen(ap(pair[1]), ListenConfig{})
				inUse(t, err, port)

				// With ReuseAddr the bind is allowed, and the second to listen is told.
				require.NoError(t, l.Close())
				cfg := IDConfig{Options: Options{ReuseAddr: true}}
				one, two := newTestID(t, cfg), newTestID(t, cfg)
				require.NoError(t, one.Bind(ap(pair[0])))
				require.NoError(t, two.Bind(ap(pair[1])))
				inUse(t, one.Listen(0), port)
			})
		}
	}
}

func inUse(t *testing.T, err error, port string) {
	t.Helper()
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NotErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, "port "+port+" is in use on this host (rdma resource show cm_id")
}

// An ordinary user is told which ports are not for it.
func TestPairPrivilegedPort(t *testing.T) {
	needTopo(t, "pair")
	childAs(t, &syscall.Credential{Uid: 1000, Gid: 1000}, "privileged port")
}

func childPrivilegedPort(t *testing.T, _ []string) {
	for _, local := range []string{"10.1.0.1:700", "0.0.0.0:700"} {
		err := newTestID(t, IDConfig{}).Bind(ap(local))
		require.ErrorIs(t, err, syscall.EACCES)
		require.ErrorContains(t, err, "ports below 1024 need CAP_NET_BIND_SERVICE")
	}
}

// A neighbour that does not answer is named with the network device on which it was
// looked for, also where nothing is bound.
func TestPairSilentNeighbour(t *testing.T) {
	needTopo(t, "pair")
	run(t, "ip route add 10.66.0.0/24 via 10.1.0.98")
	t.Cleanup(func() { run(t, "ip route del 10.66.0.0/24 via 10.1.0.98") })
	for _, c := range []struct{ local, dst, says string }{
		{"", "10.1.0.99:7471", "; 10.1.0.99 did not answer neighbour discovery on a0"},
		{"", "[fd01::99]:7471", "; fd01::99 did not answer neighbour discovery on a0"},
		{"10.1.0.1:0", "10.1.0.99:7471", "; 10.1.0.99 did not answer neighbour discovery on a0"},
		{"", "10.66.0.1:7471", "; the gateway 10.1.0.98 to 10.66.0.1 did not answer neighbour discovery on a0"},
	} {
		t.Run(c.local+" "+c.dst, func(t *testing.T) {
			_, err := (&Dialer{LocalAddr: ap(c.local), Timeouts: Timeouts{ResolveAddr: 2 * time.Second}}).DialAddr(within(t, time.Minute), ap(c.dst))
			require.ErrorIs(t, err, syscall.ETIMEDOUT)
			require.ErrorContains(t, err, c.says)
		})
	}
}
