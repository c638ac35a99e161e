//go:build linux && cgo

package ibv

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

// found is a Diagnose.
type found []Finding

// of gives the findings of a check about an object.
func (all found) of(check, object string) (out []Finding) {
	for _, f := range all {
		if f.Check == check && f.Object == object {
			out = append(out, f)
		}
	}
	return out
}

// one is the only such finding.
func (all found) one(t *testing.T, check, object string) Finding {
	t.Helper()
	list := all.of(check, object)
	require.Len(t, list, 1, "%s of %s in %v", check, object, all)
	return list[0]
}

// mend gives what is to be done to a shell.
func mend(t *testing.T, f Finding) {
	t.Helper()
	require.NotEmpty(t, f.Do, "%v", f)
	for _, command := range f.Do {
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
	}
}

// TestPairDiagnose: a host that is ready, with what is to be noted of it.
func TestPairDiagnose(t *testing.T) {
	needRDMA(t)
	all := found(Diagnose())
	for _, f := range all {
		require.Less(t, f.Severity, SeverityWarning, "%v", f)
		require.NoError(t, f.Err)
	}
	require.Contains(t, all.one(t, "devices", "kernel").What, "rxe0, rxe1")
	require.Equal(t, SeverityOK, all.one(t, "manager", managerDev).Severity)
	require.Contains(t, all.one(t, "gid", "rxe0/1").What, "10.1.0.1 on a0")
	require.Contains(t, all.one(t, "mtu", "rxe0/1").What, "4096, with 4200 on a0")
	require.Contains(t, all.one(t, "mtu", "rxe1/1").What, "2048 bytes a packet, which the MTU of b0, 2200, leaves")
	require.Contains(t, all.one(t, "namespace", "kernel").What, "shared")
	require.Contains(t, all.one(t, "ipv6", "b0").Do, "ip -6 rule add from fd02::1 lookup "+strconv.Itoa(1000+netdevIndex(t, "b0")))
	for _, lib := range []string{"libibverbs", "librdmacm"} {
		require.Regexp(t, `^rdma-core \d+, /.*/`+lib+`\.so\.`, all.of("libraries", lib)[0].What)
	}
}

func netdevIndex(t *testing.T, name string) int {
	i, err := net.InterfaceByName(name)
	require.NoError(t, err)
	return i.Index
}

// TestPairDiagnoseNamespace: from another network namespace, without an address
// that a device has.
func TestPairDiagnoseNamespace(t *testing.T) {
	needRDMA(t)
	var out []Finding
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and ends with the goroutine
		if assert.NoError(t, syscall.Unshare(syscall.CLONE_NEWNET)) {
			out = Diagnose()
		}
	}()
	<-done
	has := func(s Severity, check, object, what string) {
		require.True(t, slices.ContainsFunc(out, func(f Finding) bool {
			return f.Severity == s && f.Check == check && f.Object == object && strings.Contains(f.What, what)
		}), "%s of %s: %s in %v", check, object, what, out)
	}
	has(SeverityError, "gid", "all devices", "none has an address that this network namespace has")
	has(SeverityWarning, "gid", "rxe0/1", "--network host")
	has(SeverityOK, "namespace", "kernel", "another than the host's")
	if thisHost().kernelBefore(7, 0) {
		has(SeverityWarning, "namespace", "rxe0", "carries no data")
	}
}

// TestPairCharDevMissing: a container that was given one device of two.
func TestPairCharDevMissing(t *testing.T) {
	if !privateChild(t) {
		return
	}
	var st syscall.Stat_t
	keep := filepath.Join(devDir, thisHost().charDev("rxe0"))
	require.NoError(t, syscall.Stat(keep, &st))
	require.NoError(t, syscall.Mount("none", devDir, "tmpfs", 0, ""))
	require.NoError(t, syscall.Mknod(keep, syscall.S_IFCHR|0o600, int(st.Rdev)))

	all := found(Diagnose())
	require.NoError(t, all.one(t, "device", "rxe0").Err)
	lost := all.one(t, "device", "rxe1")
	require.ErrorIs(t, lost.Err, ErrDeviceNotAccessible)
	require.Equal(t, SeverityWarning, lost.Severity)
	require.Contains(t, lost.What, "character device missing")
	require.Contains(t, all.one(t, "devices", "kernel").What, "rxe1")

	usable, err := Open("rxe0")
	autoClose(t, usable, err)
	_, err = Open("rxe1")
	require.ErrorIs(t, err, ErrDeviceNotAccessible)
	require.ErrorContains(t, err, "--device=/dev/infiniband/"+thisHost().charDev("rxe1"))
	_, err = Selector{Netdev: "b0"}.Find()
	require.ErrorIs(t, err, ErrNoDevice)
	require.ErrorContains(t, err, "not looked into: ibv: diagnose device on rxe1: RDMA device not accessible")

	manager := all.one(t, "manager", managerDev)
	require.ErrorIs(t, manager.Err, ErrDeviceNotAccessible)
	require.ErrorIs(t, manager.Err, os.ErrNotExist)
	mend(t, manager)
	mend(t, lost)
	all = Diagnose()
	require.Equal(t, SeverityOK, all.one(t, "manager", managerDev).Severity)
	require.Equal(t, SeverityOK, all.one(t, "device", "rxe1").Severity)
}

// TestPairProviderMissing: the kernel has devices, rdma-core no provider for them.
func TestPairProviderMissing(t *testing.T) {
	if !privateChild(t) {
		return
	}
	file, _ := thisHost().library("libibverbs")
	require.NoError(t, syscall.Mount("none", filepath.Join(filepath.Dir(file), "libibverbs"), "tmpfs", 0, ""))
	list, err := Devices()
	require.NoError(t, err)
	require.Empty(t, list)
	all := found(Diagnose())
	for _, name := range []string{"rxe0", "rxe1"} {
		f := all.one(t, "device", name)
		require.ErrorIs(t, f.Err, ErrNoProvider)
		require.Contains(t, f.Do[0], "ibverbs-providers")
	}
	_, err = Open("rxe0")
	require.ErrorIs(t, err, ErrNoProvider)
}

// TestPairDiagnoseUser: an ordinary user whose memory is limited, and whose device
// is not for him.
func TestPairDiagnoseUser(t *testing.T) {
	const variable = "RAILBIND_TEST_USER"
	if os.Getenv(variable) != "" {
		all := found(Diagnose())
		memlock := all.one(t, "memlock", "this process")
		require.Equal(t, SeverityError, memlock.Severity)
		require.Contains(t, memlock.What, "64 KiB")
		f := all.one(t, "device", "rxe1")
		require.ErrorIs(t, f.Err, ErrDeviceNotAccessible)
		require.ErrorIs(t, f.Err, syscall.EACCES)
		require.Equal(t, []string{"chmod 666 /dev/infiniband/" + thisHost().charDev("rxe1")}, f.Do)
		require.Equal(t, SeverityOK, all.one(t, "device", "rxe0").Severity)
		return
	}
	needRDMA(t)
	dev := filepath.Join(devDir, thisHost().charDev("rxe1"))
	st, err := os.Stat(dev)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dev, 0o600))
	defer func() { require.NoError(t, os.Chmod(dev, st.Mode().Perm())) }()
	cmd := exec.Command("sh", "-c", "ulimit -l 64; exec "+os.Args[0]+" -test.run=^"+t.Name()+"$ -test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

// TestFieldDiagnose: two rails in one subnet, a leaking VRF; each is mended by
// what is said.
func TestFieldDiagnose(t *testing.T) {
	needRDMA(t)
	rails := []string{"dummy0", "dummy1"}
	all := found(Diagnose())
	for _, name := range rails {
		f := all.one(t, "shared-subnet", name)
		require.Equal(t, SeverityWarning, f.Severity)
		require.Contains(t, f.What, "shares 10.9.0.0/24 with dummy")
		mend(t, f)
		mend(t, all.one(t, "ipv6", name))
	}
	require.Empty(t, all.of("shared-subnet", "ve0"))
	require.Empty(t, all.of("vrf", "red"))

	mend(t, Finding{Do: []string{"ip link add red up type vrf table 77", "ip link set dummy7 master red"}})
	defer mend(t, Finding{Do: []string{"ip link delete red"}})
	all = Diagnose()
	for _, name := range rails {
		require.Equal(t, SeverityOK, all.one(t, "shared-subnet", name).Severity)
		require.Empty(t, all.of("ipv6", name))
	}
	leaks := all.of("vrf", "red")
	require.Len(t, leaks, 2)
	for _, f := range leaks {
		require.Equal(t, SeverityWarning, f.Severity)
		mend(t, f)
	}
	for _, f := range found(Diagnose()).of("vrf", "red") {
		require.Equal(t, SeverityOK, f.Severity, "%v", f)
	}
}

// TestNoneDiagnose: the modules and no device, until one is made as it is said.
func TestNoneDiagnose(t *testing.T) {
	needGuest(t)
	mend(t, Finding{Do: []string{"ip link add d0 up type dummy", "ip address add 10.9.0.1/24 dev d0"}})
	defer mend(t, Finding{Do: []string{"rdma link delete rxe0", "ip link delete d0"}})
	f := found(Diagnose()).one(t, "devices", "kernel")
	require.ErrorIs(t, f.Err, ErrNoRDMA)
	require.Contains(t, f.Do, "rdma link add rxe0 type rxe netdev d0")
	mend(t, f)
	require.Eventually(t, func() bool {
		f := found(Diagnose()).of("device", "rxe0")
		return len(f) == 1 && f[0].Severity == SeverityOK
	}, 30*time.Second, 50*time.Millisecond)
}

// TestBareDiagnose: no modules.
func TestBareDiagnose(t *testing.T) {
	needGuest(t)
	all := found(Diagnose())
	for _, module := range []string{"ib_core", "ib_uverbs", "rdma_ucm"} {
		f := all.one(t, "modules", module)
		require.ErrorIs(t, f.Err, ErrNoRDMA)
		require.Equal(t, []string{"modprobe " + module}, f.Do)
	}
	require.ErrorIs(t, all.one(t, "devices", "kernel").Err, ErrNoRDMA)
}

// TestExclusiveDiagnose: in the namespace that has the devices, and in another.
func TestExclusiveDiagnose(t *testing.T) {
	if os.Getenv("RAILBIND_TEST_CHILD") != "" {
		all := found(Diagnose())
		f := all.one(t, "devices", "kernel")
		require.ErrorIs(t, f.Err, ErrNoRDMA)
		require.Contains(t, f.What, "rdma dev set NAME netns")
		require.Contains(t, all.one(t, "namespace", "kernel").What, "this one is another")
		return
	}
	needGuest(t)
	all := found(Diagnose())
	require.Equal(t, SeverityOK, all.one(t, "device", "rxe0").Severity)
	require.Contains(t, all.one(t, "namespace", "kernel").What, "exclusive")
	cmd := exec.Command("ip", "netns", "exec", "other", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "RAILBIND_TEST_CHILD=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

func needGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("RAILBIND_GUEST") == "" {
		t.Skip("needs the guest")
	}
}
