//go:build linux && cgo

package ibv

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// child runs the test again in a process of its own, with more in its
// environment and under another user, and tells whether this is that process.
func child(t *testing.T, uid uint32, setup func(), env ...string) bool {
	t.Helper()
	const mark = "RAILBIND_TEST_CHILD=" // names the test
	if os.Getenv("RAILBIND_TEST_CHILD") == t.Name() {
		return true
	}
	needRDMA(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), mark+t.Name()), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if setup != nil {
		setup()
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// TestPairMemlock: a user who may lock 64 KiB learns that from the error.
func TestPairMemlock(t *testing.T) {
	const limit = 64 << 10
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(8, &old))
	defer func() { require.NoError(t, syscall.Setrlimit(8, &old)) }()
	if !child(t, 1000, func() { // the child inherits it
		require.NoError(t, syscall.Setrlimit(8, &syscall.Rlimit{Cur: limit, Max: limit}))
	}) {
		return
	}
	ctx, err := Open("rxe0")
	c := autoClose(t, ctx, err)
	newPD, err := c.AllocPD()
	pd := autoClose(t, newPD, err)
	small, err := pd.AllocMR(limit/2, LocalWrite)
	autoClose(t, small, err)
	_, err = pd.AllocMR(1<<20, LocalWrite)
	require.ErrorIs(t, err, ErrMemlock)
	require.ErrorIs(t, err, syscall.ENOMEM)
	var m *MemlockError
	require.ErrorAs(t, err, &m)
	require.Equal(t, int64(limit), m.Limit)
	require.Equal(t, int64(1<<20), m.Asked)
	require.Equal(t, int64(limit/2), m.Pinned)
	require.ErrorContains(t, err, "ibv_reg_mr")
	// The same page again and again counts each time.
	page := make([]byte, 1)
	var err2 error
	for i := 0; err2 == nil && i < 20; i++ {
		var mr *MR
		if mr, err2 = pd.Register(page, LocalWrite); err2 == nil {
			autoClose(t, mr, nil)
		}
	}
	require.ErrorIs(t, err2, ErrMemlock)
}

// TestPairHugePages: memory on huge pages registers; where fork support is in
// its way, the error says so, and its remedy is one.
func TestPairHugePages(t *testing.T) {
	needRDMA(t)
	const knob = "/proc/sys/vm/nr_hugepages"
	if os.Getenv("RAILBIND_TEST_CHILD") == "" {
		old, err := os.ReadFile(knob)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(knob, []byte("4"), 0))
		defer os.WriteFile(knob, old, 0)
		require.NoError(t, registerHuge(t))
	}
	switch {
	case os.Getenv("RAILBIND_TEST_CHILD") == "":
		child(t, 0, nil, "IBV_FORK_SAFE=1")
		child(t, 0, nil, "IBV_FORK_SAFE=1", "RDMAV_HUGEPAGES_SAFE=1")
	case os.Getenv("RDMAV_HUGEPAGES_SAFE") != "":
		require.NoError(t, registerHuge(t))
	default:
		// rdma-core 44 refuses; later ones leave forks to the kernel.
		if err := registerHuge(t); err != nil {
			require.ErrorIs(t, err, syscall.EINVAL)
			require.ErrorContains(t, err, "RDMAV_HUGEPAGES_SAFE")
		}
	}
}

// registerHuge registers a part of a huge page.
func registerHuge(t *testing.T) error {
	ctx, err := Open("rxe0")
	c := autoClose(t, ctx, err)
	newPD, err := c.AllocPD()
	pd := autoClose(t, newPD, err)
	newBuf, err := NewBuffer(2<<20, BufferConfig{HugePages: true})
	buf := autoClose(t, newBuf, err)
	require.True(t, isHuge(buf.Bytes()))
	mr, err := pd.Register(buf.Bytes()[4096:8192], LocalWrite)
	if err != nil {
		return err
	}
	return mr.Close()
}
