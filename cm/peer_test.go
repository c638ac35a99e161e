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
