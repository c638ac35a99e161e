// Package cijob shows how a project tests with RDMA in a CI job: the script run, and
// a test that needs a device, whichever there is.
package cijob

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// A message goes to a listener and back over the first device that has an IPv4
// address.
func TestEcho(t *testing.T) {
	local := device(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := cm.Listen(netip.AddrPortFrom(local, 0), cm.ListenConfig{})
	require.NoError(t, err)
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- answer(ctx, l) }()

	d := cm.Dialer{LocalAddr: netip.AddrPortFrom(local, 0)}
	c, err := d.DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Send(ctx, []byte("hello")))
	buf := make([]byte, 64)
	n, err := c.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf[:n]))
	require.NoError(t, c.Close())
	require.NoError(t, <-served)
	t.Log("on", c.Binding().Device, "via", c.Binding().Netdev)
}

// answer sends one message back.
func answer(ctx context.Context, l *cm.Listener) error {
	r, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	c, err := r.Accept(ctx, cm.AcceptConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 64)
	n, err := c.Recv(ctx, buf)
	if err != nil {
		return err
	}
	if err := c.Send(ctx, buf[:n]); err != nil {
		return err
	}
	select { // iWARP may lose a message that a Close follows at once
	case <-c.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// device is the address of a device. Without one a developer's own machine skips the
// test; in the job, which promises one, that is a failure.
func device(t *testing.T) netip.Addr {
	devices, err := ibv.Devices()
	for _, d := range devices {
		var c *ibv.Context
		if c, err = ibv.Open(d.Name); err != nil {
			continue
		}
		table, e := c.GIDTable()
		require.NoError(t, e)
		require.NoError(t, c.Close())
		for _, row := range table {
			if a := row.GID.Addr(); a.Is4() {
				return a
			}
		}
	}
	if os.Getenv("RAILBIND_JOB") == "" {
		t.Skip("needs an RDMA device with an IPv4 address: ", err)
	}
	t.Fatalf("no RDMA device with an IPv4 address: %v\n%v", err, ibv.Diagnose())
	return netip.Addr{}
}
