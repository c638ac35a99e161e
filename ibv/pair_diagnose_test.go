//go:build linux && cgo

package ibv

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// privateChild runs the test again in a process with a mount table of its own,
// and tells whether this is that process.
func privateChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv("RAILBIND_TEST_CHILD") == t.Name() {
		require.NoError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		return true
	}
	needRDMA(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "RAILBIND_TEST_CHILD="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// TestPairCharDevMissing: a container that was given one device of two.
func TestPairCharDevMissing(t *testing.T) {
	if !privateChild(t) {
		return
	}
	chars := charDevs()
	require.Len(t, chars, 2)
	var st syscall.Stat_t
	keep := filepath.Join(devDir, chars["rxe0"])
	require.NoError(t, syscall.Stat(keep, &st))
	require.NoError(t, syscall.Mount("none", devDir, "tmpfs", 0, ""))
	require.NoError(t, syscall.Mknod(keep, syscall.S_IFCHR|0o600, int(st.Rdev)))

	got, err := Diagnose()
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.NoError(t, got[0].Err)
	require.Equal(t, "rxe1", got[1].Name)
	require.ErrorIs(t, got[1].Err, ErrDeviceNotAccessible)
	require.ErrorContains(t, got[1].Err, "character device missing")

	usable, err := Open("rxe0")
	autoClose(t, usable, err)
	_, err = Open("rxe1")
	require.ErrorIs(t, err, ErrDeviceNotAccessible)
	require.ErrorContains(t, err, "--device="+got[1].CharDev)
	_, err = Selector{Netdev: "b0"}.Find()
	require.ErrorIs(t, err, ErrNoDevice)
	require.ErrorContains(t, err, "not looked into: ibv: diagnose device on rxe1: RDMA device not accessible")
}

// TestPairProviderMissing: the kernel has devices, rdma-core no provider for them.
func TestPairProviderMissing(t *testing.T) {
	if !privateChild(t) {
		return
	}
	require.NoError(t, syscall.Mount("none", "/etc/libibverbs.d", "tmpfs", 0, ""))
	list, err := Devices()
	require.NoError(t, err)
	require.Empty(t, list)
	got, err := Diagnose()
	require.NoError(t, err)
	require.Len(t, got, 2)
	for _, r := range got {
		require.ErrorIs(t, r.Err, ErrNoProvider, "%v", r)
	}
	_, err = Open("rxe0")
	require.ErrorIs(t, err, ErrNoProvider)
}
