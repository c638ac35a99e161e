package cm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// peerAddr in the environment makes the test binary a peer that dials there and
// sends without end, until it is killed.
const peerAddr = "CM_TEST_PEER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(peerAddr); addr != "" {
		fmt.Fprintln(os.Stderr, "peer:", flood(addr))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func flood(addr string) error {
	ctx := context.Background()
	c, err := (&Dialer{LocalAddr: ap("10.1.0.1:0")}).Dial(ctx, addr)
	if err != nil {
		return err
	}
	for {
		if err := c.Send(ctx, make([]byte, 1000)); err != nil {
			return err
		}
		if iwarp() { // one at a time: it has no flow control, see TestPairFlood
			if _, err := c.Recv(ctx, nil); err != nil {
				return err
			}
		}
	}
}

// A peer process that is killed in the middle: the connection ends with an
// error, in the middle of a wait too, and the listener serves the next one.
func TestPairPeerKilled(t *testing.T) {
	needTopo(t, "pair")
	l := listen(t, "10.1.0.1:0", ListenConfig{})
	ctx := within(t, 2*time.Minute)
	exe, err := os.Executable()
	require.NoError(t, err)
	for range 3 {
		peer := exec.Command(exe)
		peer.Env = append(os.Environ(), peerAddr+"="+l.Addr().String())
		peer.Stderr = os.Stderr
		require.NoError(t, peer.Start())
		r, err := l.Accept(ctx)
		require.NoError(t, err)
		c, err := r.Accept(ctx, AcceptConfig{})
		require.NoError(t, err)
		buf := make([]byte, 4096)
		for range 20 {
			n, err := c.Recv(ctx, buf)
			require.NoError(t, err)
			require.Equal(t, 1000, n)
			if iwarp() {
				require.NoError(t, c.Send(ctx, nil))
			}
		}
		require.NoError(t, peer.Process.Kill())
		for err = nil; err == nil; {
			_, err = c.Recv(ctx, buf) // what had arrived still comes
		}
		require.ErrorIs(t, err, ErrDisconnected)
		require.ErrorIs(t, c.Send(ctx, buf), ErrDisconnected)
		<-c.Done()
		require.NoError(t, c.Close())
		var exit *exec.ExitError
		require.True(t, errors.As(peer.Wait(), &exit))
	}
}

// A sender that overruns its peer's receives: RoCE makes it wait, iWARP has
// nothing to make it wait with and ends the connection, at both ends.
func TestPairFlood(t *testing.T) {
	needTopo(t, "pair")
	client, server := pairUp(t, home, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
	flood, cancel := context.WithTimeout(within(t, time.Minute), 2*time.Second)
	defer cancel()
	sent := 0
	var err error
	for ; err == nil; sent++ {
		err = client.Send(flood, []byte{byte(sent)})
	}
	ctx := within(t, time.Minute)
	buf := make([]byte, 8)
	if iwarp() {
		require.ErrorIs(t, err, ErrDisconnected)
		for err = nil; err == nil; {
			_, err = server.Recv(ctx, buf)
		}
		require.ErrorIs(t, err, ErrDisconnected)
		return
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for i := range sent - 1 {
		n, err := server.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, buf[:n])
	}
	require.NoError(t, server.Send(ctx, nil), "the connection has lasted")
}
