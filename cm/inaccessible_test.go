//go:build linux

package cm

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// How a process comes to see devices that it cannot open, as one in a container does.
var inaccessible = map[string]func(t *testing.T, nodes []string){
	// A container that was not given the device.
	"missing": func(t *testing.T, nodes []string) {
		for _, n := range nodes {
			require.NoError(t, os.Remove(n))
		}
	},
	// A device that is not for this process.
	"denied": func(t *testing.T, nodes []string) {
		for _, n := range nodes {
			require.NoError(t, syscall.Mount(n, n, "", syscall.MS_BIND, ""))
			require.NoError(t, syscall.Mount("", n, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_NODEV, ""))
		}
	},
}

// TestPairDeviceNotAccessible: what leads to a device that this process cannot
// open says so and what to do, and the other rail works.
func TestPairDeviceNotAccessible(t *testing.T) {
	needTopo(t, "pair")
	for how := range inaccessible {
		t.Run(how, func(t *testing.T) { child(t, "inaccessible", how, "rxe1") })
		t.Run(how+", both", func(t *testing.T) { child(t, "inaccessible", how, "rxe0", "rxe1") })
	}
}

func childInaccessible(t *testing.T, args []string) {
	ownDeviceNodes(t)
	how, shut := args[0], map[string]string{} // of a rail: its device's node
	var nodes []string
	for _, name := range args[1:] {
		nodes = append(nodes, node(t, dev(name)))
		shut[name] = nodes[len(nodes)-1]
	}
	inaccessible[how](t, nodes)
	noRail(t, "rxe1", shut["rxe1"], len(shut) == 1)
	if len(shut) == 1 {
		t.Run("the other rail", func(t *testing.T) {
			talk(t, "10.1.0.1:0", &Dialer{LocalAddr: ap("10.1.0.1:0")})
			talk(t, "10.1.0.1:0", &Dialer{})
			talk(t, "[fd01::1]:0", &Dialer{LocalDevice: dev("rxe0")})
		})
	}
}

// ownDeviceNodes gives this process a /dev/infiniband of its own.
func ownDeviceNodes(t *testing.T) {
	t.Helper()
	const dir = "/dev/infiniband"
	require.NoError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	nodes, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	numbers := map[string]syscall.Stat_t{}
	for _, n := range nodes {
		var st syscall.Stat_t
		require.NoError(t, syscall.Stat(n, &st))
		numbers[n] = st
	}
	require.NoError(t, syscall.Mount("none", dir, "tmpfs", 0, "mode=755"))
	for n, st := range numbers {
		require.NoError(t, syscall.Mknod(n, st.Mode&syscall.S_IFMT, int(st.Rdev)))
		require.NoError(t, os.Chmod(n, 0o666))
	}
}

// node is the path of a device's character device.
func node(t *testing.T, device string) string {
	t.Helper()
	all, err := filepath.Glob("/sys/class/infiniband_verbs/*/ibdev")
	require.NoError(t, err)
	for _, n := range all {
		if b, err := os.ReadFile(n); err == nil && string(b) == device+"\n" {
			return "/dev/infiniband/" + filepath.Base(filepath.Dir(n))
		}
	}
	require.Fail(t, "no character device of "+device)
	return ""
}

// noRail wants every way to a rail refused for its device, and by the rule where
// ids can be had: librdmacm gives none where libibverbs lists no device.
func noRail(t *testing.T, device, path string, ids bool) {
	n := map[string]string{"rxe0": "1", "rxe1": "2"}[device]
	netdev := map[string]string{"rxe0": "a0", "rxe1": "b0"}[device]
	told := false
	refused := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, ibv.ErrDeviceNotAccessible)
		if ids {
			require.ErrorIs(t, err, ErrNotRDMA)
		}
		require.ErrorContains(t, err, dev(device))
		require.ErrorContains(t, err, "--device="+path)
		if !told {
			t.Log("told:", err)
			told = true
		}
	}
	host, err := OpenHost()
	require.NoError(t, err)
	defer host.Close()
	calls := resolveCalls.Load()
	for _, a := range []struct{ local, peer string }{
		{"10." + n + ".0.1:0", "10." + n + ".0.2:7471"},
		{"[fd0" + n + "::1]:0", "[fd0" + n + "::2]:7471"},
	} {
		if !ids && ap(a.local).Addr().Is6() {
			break // libibverbs waits 5 s for each device that it cannot open, each time
		}
		ctx := within(t, time.Minute)
		id, err := NewID(IDConfig{})
		if err != nil {
			require.False(t, ids)
			refused(t, err)
		} else {
			refused(t, id.Bind(ap(a.local)))
			require.Equal(t, StatePoisoned, id.State())
			require.NoError(t, id.Close())
		}
		_, err = Listen(ap(a.local), ListenConfig{})
		refused(t, err)

		for _, d := range []*Dialer{
			{}, {Policy: FollowRoute}, {LocalAddr: ap(a.local)}, {LocalAddr: ap(a.local), Policy: RequireRoute},
			{LocalDevice: dev(device)}, {LocalDevice: netdev},
		} {
			_, err := d.DialAddr(ctx, ap(a.peer))
			refused(t, err)
		}
		refused(t, policy.Decide(host, policy.Request{Src: ap(a.local), Dst: ap(a.peer)}).Err)
		_, err = (&Dialer{}).DialAddr(ctx, ap(a.local[:len(a.local)-1]+"7471"))
		refused(t, err) // an address of this host
	}
	require.Equal(t, calls, resolveCalls.Load(), "the kernel was asked to resolve")
}

// talk sends a message to an address of this host and back.
func talk(t *testing.T, local string, d *Dialer) {
	t.Helper()
	ctx := within(t, time.Minute)
	l := listen(t, local, ListenConfig{})
	go echo(ctx, l)
	c, err := d.DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	require.NoError(t, c.Send(ctx, []byte("there and back")))
	buf := make([]byte, 64)
	n, err := c.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, "there and back", string(buf[:n]))
	require.NoError(t, c.Close())
}
