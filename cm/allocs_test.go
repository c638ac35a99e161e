//go:build !asan

package cm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// What moves data on a connection allocates nothing. (Under the address sanitizer
// parts of the standard library allocate that otherwise do not.)
func TestPairAllocs(t *testing.T) {
	needTopo(t, "pair")
	client, server := pairUp(t, "10.1.0.1:0", Dialer{}, AcceptConfig{})
	ctx := within(t, 5*time.Minute)
	msg, buf := make([]byte, 64), make([]byte, 64)
	local, err := client.PD().AllocMR(64, ibv.LocalWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Close()) })
	remote, err := server.PD().AllocMR(64, ibv.LocalWrite|ibv.RemoteRead|ibv.RemoteWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, remote.Close()) })
	for name, call := range map[string]func() error{
		"Send, Recv": func() error {
			if err := client.Send(ctx, msg); err != nil {
				return err
			}
			_, err := server.Recv(ctx, buf)
			return err
		},
		"Write": func() error { return client.Write(ctx, local.SGE(0, 64), remote.Remote(0)) },
		"Read":  func() error { return client.Read(ctx, local.SGE(0, 64), remote.Remote(0)) },
		"Err":   client.Err,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, call())
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if err := call(); err != nil {
					t.Error(err)
				}
			}))
		})
	}
}
