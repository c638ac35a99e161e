//go:build linux

package cm

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Some tests need a process of their own: one that ends, and lets go of its
// devices. The test binary runs itself, and there TestChild the function named.
const childRole = "CM_TEST_CHILD"

var children = map[string]func(t *testing.T, args []string){
	"removal":              childRemoval,
	"muting":               childMuting,
	"inaccessible":         childInaccessible,
	"few files":            childFewFiles,
	"privileged port":      childPrivilegedPort,
	"ten thousand waiters": childTenThousandWaiters,
}

// child runs a role in a mount namespace of its own; what it logs is t's, and its
// failure too.
func child(t *testing.T, role string, args ...string) {
	t.Helper()
	childAs(t, nil, role, args...)
}

// childAs is child of another user, where one is given.
func childAs(t *testing.T, user *syscall.Credential, role string, args ...string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, "-test.run", "^TestChild$", "-test.v", "-test.timeout", "15m")
	cmd.Env = append(os.Environ(), childRole+"="+strings.Join(append([]string{role}, args...), ","))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Credential: user}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %q: %s", role, args, out)
	for line := range strings.Lines(string(out)) {
		if _, text, ok := strings.Cut(line, "told: "); ok {
			t.Log(strings.TrimSpace(text))
		}
	}
}

func TestChild(t *testing.T) {
	role := os.Getenv(childRole)
	if role == "" {
		t.Skip("a part of other tests")
	}
	args := strings.Split(role, ",")
	children[args[0]](t, args[1:])
}

// rxe9 makes a device of its own on c0, and takes it away at the end. This process
// must not look RDMA devices up meanwhile: it would keep it.
func rxe9(t *testing.T) {
	t.Helper()
	run(t, dev("rdma link add rxe9 type rxe netdev c0"))
	t.Cleanup(func() { run(t, dev("timeout 30 rdma link delete rxe9")) })
	if iwarp() {
		return
	}
	awaitSysfsGID(t, "rxe9", "0000:0000:0000:0000:0000:ffff:0a03:0001")
	awaitSysfsGID(t, "rxe9", "fd03:0000:0000:0000:0000:0000:0000:0001")
}

// awaitSysfsGID is awaitGID without opening a device.
func awaitSysfsGID(t *testing.T, device, gid string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for row := range 32 {
			b, err := os.ReadFile(fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%d", device, row))
			if err == nil && strings.TrimSpace(string(b)) == gid {
				return true
			}
		}
		return false
	}, 20*time.Second, 5*time.Millisecond, "%s has no GID %s", device, gid)
}
