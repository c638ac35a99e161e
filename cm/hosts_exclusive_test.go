//go:build linux

package cm

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// RDMA namespaces in exclusive mode, in the topology `exclusive`. The kernel's
// own answers first: rxe's devices cannot be moved, so only the first namespace
// has any.
func TestExclusiveKernel(t *testing.T) {
	needTopo(t, "exclusive")
	require.Contains(t, run(t, "rdma system show"), "netns exclusive")
	out, err := exec.Command("rdma", "dev", "set", "rxe0", "netns", "other").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "Operation not supported")
	out, err = exec.Command("rdma", "system", "set", "netns", "shared").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "busy")
	require.Contains(t, run(t, "rdma link show"), "rxe1/1", "though made in another namespace")
	require.Empty(t, run(t, "ip netns exec other rdma link show"))
}

// An id of a namespace without a device: everything is refused, and says why,
// though this process has the other namespace's devices open.
func TestExclusiveElsewhere(t *testing.T) {
	needTopo(t, "exclusive")
	here := newTestID(t, IDConfig{}) // where it is as ever
	require.NoError(t, here.ResolveAddr(within(t, time.Minute), ap("10.1.0.1:0"), ap("10.1.0.2:7471")))
	for _, c := range []struct{ local, peer string }{
		{"10.2.0.1:0", "10.2.0.2:7471"}, {"[fd02::1]:0", "[fd02::2]:7471"},
	} {
		t.Run(c.local, func(t *testing.T) {
			said := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, ErrNotRDMA)
				require.ErrorIs(t, err, syscall.ENODEV)
				require.ErrorContains(t, err, "exclusive")
				t.Log(err)
			}
			id := idIn(t, "other", IDConfig{})
			said(id.Bind(ap(c.local)))
			require.Equal(t, StatePoisoned, id.State())

			for _, src := range []string{"", c.local} {
				id = idIn(t, "other", IDConfig{})
				calls := resolveCalls.Load()
				err := id.ResolveAddr(within(t, time.Minute), ap(src), ap(c.peer))
				said(err)
				noRDMA19.check(t, id, err, resolveCalls.Load()-calls)
			}
			var err error
			inNetns(t, "other", func() {
				_, err = (&Dialer{LocalDevice: "rxe1"}).DialAddr(context.Background(), ap(c.peer))
			})
			said(err)
		})
	}
	t.Run("the other's address", func(t *testing.T) {
		require.ErrorIs(t, idIn(t, "other", IDConfig{}).Bind(ap("10.1.0.1:0")), ErrNotLocal)
		require.ErrorIs(t, newTestID(t, IDConfig{}).Bind(ap("10.2.0.1:0")), ErrNotLocal, "the device is here, its netdev is not")
	})
}

// An id that was made where the devices are, used by a thread elsewhere: the
// binding, the look-ups, the connection and its data are those of its own.
func TestExclusiveUsedElsewhere(t *testing.T) {
	needTopo(t, "exclusive")
	for _, local := range []string{"10.1.0.1:0", "[fd01::1]:0"} {
		l := listen(t, local, ListenConfig{})
		ctx := within(t, time.Minute)
		served := make(chan string, 1)
		go func() {
			r, err := l.Accept(ctx)
			if err != nil {
				served <- err.Error()
				return
			}
			c, err := r.Accept(ctx, AcceptConfig{})
			if err != nil {
				served <- err.Error()
				return
			}
			buf := make([]byte, 64)
			n, _ := c.Recv(ctx, buf)
			served <- string(buf[:n])
			c.Close()
		}()
		id := newTestID(t, IDConfig{})
		var conn *Conn
		var err error
		inNetns(t, "other", func() {
			if err = id.ResolveAddr(ctx, ap(local), l.Addr()); err != nil {
				return
			}
			if err = id.ResolveRoute(ctx); err != nil {
				return
			}
			if conn, err = newConn(id, QueueConfig{}, nil); err != nil {
				return
			}
			if err = id.Connect(ctx, ConnParam{}); err == nil {
				err = conn.Send(ctx, []byte("from elsewhere"))
			}
		})
		require.NoError(t, err)
		require.Equal(t, "from elsewhere", <-served)
		require.Equal(t, "rxe0", id.Binding().Device)
		require.Equal(t, "a0", id.Binding().Netdev)
		require.NoError(t, conn.Close())
	}
}

// A process that is in the namespace without devices as a whole.
func TestExclusiveProcess(t *testing.T) {
	needTopo(t, "exclusive")
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("ip", "netns", "exec", "other", exe)
	cmd.Env = append(os.Environ(), peerAddr+"=10.2.0.2:7471")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "exclusive")
	t.Log(strings.TrimSpace(string(out)))

	// A thread of a process that knows devices sees none from there, and may not
	// open one.
	inNetns(t, "other", func() {
		devs, err := ibv.Devices()
		require.NoError(t, err)
		require.Empty(t, devs)
		_, err = ibv.Open("rxe0")
		require.ErrorIs(t, err, ibv.ErrDeviceNotAccessible)
		require.ErrorContains(t, err, "exclusive")
	})
}
