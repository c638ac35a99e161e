//go:build linux && guest

package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These boot real guests: go test -tags guest ./ci/vm

type result struct {
	stdout, stderr string
	status         int
}

// guestCommand marks its processes and its temporary files as this test's.
func guestCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "ci/guest"), args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), mark(t), "TMPDIR="+t.TempDir())
	t.Cleanup(func() { left(t, cmd) })
	return cmd
}

func mark(t *testing.T) string {
	return fmt.Sprintf("RAILBIND_TEST=%d-%s", os.Getpid(), t.Name())
}

// left fails the test for every process and file of its own that stays behind.
func left(t *testing.T, cmd *exec.Cmd) {
	deadline := time.Now().Add(10 * time.Second)
	for len(marked(t)) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	for _, p := range marked(t) {
		t.Errorf("still running: %s", p)
	}
	for _, kv := range cmd.Env {
		dir, ok := strings.CutPrefix(kv, "TMPDIR=")
		if !ok || !strings.Contains(dir, "Test") {
			continue
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) > 0 {
			t.Errorf("left in the folder for temporary files: %v %v", files, err)
		}
	}
}

// marked lists running processes with this test's mark in their environment.
func marked(t *testing.T) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(dir + "/environ")
		if bytes.Contains(env, []byte(mark(t)+"\x00")) {
			name, _ := os.ReadFile(dir + "/comm")
			found = append(found, dir+" "+string(name))
		}
	}
	return found
}

func guest(t *testing.T, args ...string) result {
	t.Helper()
	cmd := guestCommand(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		name, command string
		want          result
	}{
		{"ok", "echo out; echo err >&2", result{"out\n", "err\n", 0}},
		{"seven", "printf 'no end'; exit 7", result{"no end", "", 7}},
		{"signal", "kill -TERM $$", result{"", "", 143}},
		{"left behind", "sleep 1000 & echo done", result{"done\n", "", 0}},
		{"carriage return", `printf 'a\r\nb\n\000'`, result{"a\r\nb\n\x00", "", 0}},
		{"input is empty", "cat", result{"", "", 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := guest(t, "-topo", "bare", "--", "sh", "-c", c.command); got != c.want {
				t.Fatalf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
	for name, want := range map[string]int{"no-such-program": 127, "./go.mod": 126} {
		t.Run(name, func(t *testing.T) {
			got := guest(t, "-topo", "bare", "--", name)
			if got.status != want || !strings.Contains(got.stderr, name) {
				t.Fatalf("got %+v, want status %d", got, want)
			}
		})
	}
}

func TestOutputIsExact(t *testing.T) {
	got := guest(t, "-topo", "bare", "--", "sh", "-c", "head -c 20000000 /dev/urandom | tee /dev/shm/x; sha256sum </dev/shm/x >&2")
	want := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(got.stdout)))
	if got.status != 0 || got.stderr != want || len(got.stdout) != 20000000 {
		t.Fatalf("%d bytes, stderr %q, want %q", len(got.stdout), got.stderr, want)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("GODEBUG", "a b=1")
	t.Setenv("SECRET", "no")
	got := guest(t, "-topo", "none", "--", "sh", "-c", `
		pwd
		echo "$RAILBIND_GUEST $RAILBIND_TOPO $RAILBIND_HOST $RAILBIND_TRANSPORT $GODEBUG $SECRET"
		[ "$RAILBIND_KERNEL" = "$(uname -r)" ] || exit 1
		[ "$(ulimit -n)" -ge 65536 ] && [ "$(ulimit -l)" = unlimited ] || exit 2
		for f in /dev/shm /dev/pts/ptmx /sys/kernel/debug/tracing /proc/self/fd /dev/fd/0; do [ -e $f ] || exit 3; done
		touch ci/topo/new /tmp/new && [ -e ci/topo/new ] || exit 4
		for p in rping ucmatose udaddy mckey cmtime ibv_devinfo ib_send_lat ib_write_bw; do command -v $p >/dev/null || exit 5; done
	`)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	want := result{root + "\n1 none 1 rxe a b=1 \n", "", 0}
	if got != want {
		t.Fatalf("got %+v\nwant %+v", got, want)
	}
	if _, err := os.Stat(filepath.Join(root, "ci/topo/new")); err == nil {
		t.Fatal("the guest wrote to this machine")
	}
}

// The files are the suite's, but for the checkout's, and both can be written to.
func TestUserSpace(t *testing.T) {
	for major, suite := range userSpaces {
		got := guest(t, "-rdma-core", major, "-topo", "none", "--", "sh", "-ec", `
			ls /usr/lib/x86_64-linux-gnu/libibverbs.so.1.*.`+major+`.*
			. /etc/os-release
			echo "$VERSION_CODENAME"
			pwd
			touch ci/topo/new /tmp/new
			modprobe -n rdma_rxe
			for p in rping ibv_devinfo ib_send_lat ip rdma ping awk; do command -v $p >/dev/null; done
		`)
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		if got.status != 0 || !strings.HasSuffix(got.stdout, "\n"+root+"\n") || suite != "sid" && !strings.Contains(got.stdout, "\n"+suite+"\n") {
			t.Errorf("%s: %+v", major, got)
		}
	}
	cmd := guestCommand(t, "-rdma-core", "44", "-topo", "bare", "--", "true")
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "start it in the checkout") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOutFolder(t *testing.T) {
	dir := t.TempDir()
	got := guest(t, "-topo", "bare", "-out", dir, "--", "sh", "-c", "echo kept >"+dir+"/file")
	text, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil || string(text) != "kept\n" {
		t.Fatalf("%q, %v, %+v", text, err, got)
	}
}

func TestGuestFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		status int
		text   string
	}{
		{"panic", []string{"-topo", "bare", "--", "sh", "-c", "echo c >/proc/sysrq-trigger"}, 125, "kernel panic: sysrq triggered crash"},
		{"shut down", []string{"-topo", "bare", "--", "sh", "-c", "echo o >/proc/sysrq-trigger; sleep 100"}, 125, "ended without a status"},
		{"hang", []string{"-topo", "bare", "-timeout", "20s", "--", "sh", "-c", "trap 'echo last words >&2; exit 1' QUIT; sleep 1000 & wait"}, 124, "timeout: the end of the command"},
		{"hang that is deaf", []string{"-topo", "bare", "-timeout", "20s", "--", "sh", "-c", "trap '' QUIT; sleep 1000 & wait"}, 124, "timeout: the end of the command"},
		{"no time to boot", []string{"-topo", "bare", "-timeout", "500ms", "--", "true"}, 124, "timeout: booting"},
		{"no memory for QEMU", []string{"-mem", "100000000", "--", "true"}, 125, "QEMU ended"},
		{"misuse", []string{"-hosts", "3", "--", "true"}, 125, "-hosts 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := guest(t, c.args...)
			lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
			last := lines[len(lines)-1]
			if got.status != c.status || !strings.HasPrefix(last, "ci/guest: ") || !strings.Contains(last, c.text) {
				t.Fatalf("status %d, want %d; stderr:\n%s", got.status, c.status, got.stderr)
			}
			if c.name == "hang" && !strings.Contains(got.stderr, "last words\n") {
				t.Errorf("the command was not asked where it hangs: %s", got.stderr)
			}
		})
	}
}

// TestEnded ends ci/guest in the ways that there are, with its command running.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		status int
	}{
		{"SIGINT", syscall.SIGINT, 130},
		{"SIGTERM", syscall.SIGTERM, 143},
		{"SIGKILL", syscall.SIGKILL, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := guestCommand(t, "-hosts", "2", "-topo", "bare", "--", "sh", "-c", "echo running; sleep 1000")
			awaitRunning(t, cmd)
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.status {
				t.Fatalf("status %d, want %d", got, c.status)
			}
		})
	}
	t.Run("parent dies", func(t *testing.T) {
		cmd := guestCommand(t)
		cmd.Path = "/bin/sh"
		cmd.Args = []string{"sh", "-c", "ci/guest -topo bare -- sh -c 'echo running; sleep 1000'; exit 1"}
		awaitRunning(t, cmd)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	})
}

func awaitRunning(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	// A pipe of ours: Wait must not wait for what else holds its end.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "running\n" {
		t.Fatalf("read %q: %v", line, err)
	}
}

func TestTwoAtOnce(t *testing.T) {
	results := make(chan result)
	for range 2 {
		go func() { results <- guest(t, "-topo", "pair", "--", "sh", "-c", "rdma link | wc -l; exit 5") }()
	}
	for range 2 {
		if got := <-results; got.status != 5 || got.stdout != "2\n" {
			t.Fatalf("%+v", got)
		}
	}
}

func TestPair(t *testing.T) {
	got := guest(t, "-topo", "pair", "--", "sh", "-ec", `
		[ "$(cat /proc/sys/net/ipv4/ip_forward)" = 0 ]
		ibv_devinfo | awk '/active_mtu/ {print $2}'
		for a in 10.1.0.1 fd02::1; do
			rping -s -a $a -C 10 >/dev/null 2>&1 & server=$!
			until rdma res show cm_id | grep -q LISTEN; do sleep 0.05; done
			rping -c -a $a -C 10 -v 2>/dev/null | wc -l
			wait $server || true
		done
		# Each peer answers on its own rail only.
		ping -q -c 1 -W 5 10.1.0.2 >/dev/null
		! ping -q -c 1 -W 1 -I a0 10.2.0.2 >/dev/null
	`)
	if got.status != 0 || got.stdout != "4096\n2048\n10\n10\n" {
		t.Fatalf("%+v", got)
	}
}

func TestRails(t *testing.T) {
	got := guest(t, "-topo", "rails",
		"-peer", "rping -s -P -a :: -p 7175 >/dev/null 2>&1 & rping -s -P >/dev/null 2>&1; exit 9",
		"-ready", "rdma res show cm_id | grep LISTEN | grep -q :7174 && rdma res show cm_id | grep LISTEN | grep -q :7175", "--", "sh", "-ec", `
		for a in 10.10.0.2 10.10.1.2; do rping -c -a $a -C 10 -v 2>/dev/null | wc -l; done
		for a in fd10:0::2 fd10:1::2; do rping -c -a $a -p 7175 -C 10 -v 2>/dev/null | wc -l; done
		ip neigh show nud failed
	`)
	if got.status != 0 || got.stdout != "10\n10\n10\n10\n" || !strings.Contains(got.stderr, "peer: exit status 143") {
		t.Fatalf("%+v", got)
	}
}

func TestPeerEndsFirst(t *testing.T) {
	got := guest(t, "-hosts", "2", "-topo", "bare", "-peer", "echo out; printf err >&2; exit 3", "--", "sh", "-c", "sleep 3; exit 4")
	for _, want := range []string{"peer| out\n", "peer| err\n", "peer: exit status 3\n"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in %q", want, got.stderr)
		}
	}
	if got.status != 4 || got.stdout != "" {
		t.Fatalf("%+v", got)
	}
}

func TestField(t *testing.T) {
	got := guest(t, "-topo", "field", "--", "sh", "-c", "rdma link | awk '{print $2, $NF}'; ip -br route get 10.9.0.50 | head -n 1")
	want := "rxe0/1 dummy0\nrxe1/1 dummy1\nrxe7/1 dummy7\nrxe8/1 ve0\n"
	if got.status != 0 || !strings.HasPrefix(got.stdout, want) || !strings.Contains(got.stdout, "dev dummy0") {
		t.Fatalf("%+v", got)
	}
}

func TestShellWithoutTerminal(t *testing.T) {
	cmd := guestCommand(t, "-topo", "bare", "-shell")
	cmd.Stdin = strings.NewReader("hostname\nexit 6\n")
	out, _ := cmd.Output()
	if string(out) != "host1\n" || cmd.ProcessState.ExitCode() != 6 {
		t.Fatalf("%q, %v", out, cmd.ProcessState)
	}
}

// TestSecondBoot holds the promise that a cached guest runs within ten seconds.
// Other work on the machine may spoil a try.
func TestSecondBoot(t *testing.T) {
	guest(t, "-topo", "bare", "--", "true")
	var took []time.Duration
	for range 3 {
		cmd := guestCommand(t, "-topo", "pair", "--", "echo", "running")
		start := time.Now()
		awaitRunning(t, cmd)
		took = append(took, time.Since(start))
		_ = cmd.Wait()
	}
	t.Logf("%v to the running command", took)
	if slices.Min(took) > 10*time.Second {
		t.Errorf("more than 10 s")
	}
}
