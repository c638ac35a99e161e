//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// agent is PID 1 of a guest.
type agent struct {
	link  *frameWriter
	in    io.Reader
	procs procs
	env   []string
}

// runAgent boots the guest, serves the driver, and never returns.
func runAgent() {
	if err := serve(); err != nil {
		// The link may not stand; the driver also looks for this on the console.
		fmt.Fprintf(os.Stderr, "railbind: %v\n", err)
	}
	syscall.Sync()
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
	select {}
}

func serve() error {
	for _, m := range []struct{ dir, fs string }{{"/dev", "devtmpfs"}, {"/proc", "proc"}, {"/sys", "sysfs"}} {
		if err := mount(m.fs, m.dir, m.fs, 0, ""); err != nil {
			return err
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	path, err := findPort()
	if err != nil {
		return err
	}
	port, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	a := &agent{link: &frameWriter{w: port}, in: port}
	a.procs.reap()
	if err := a.serve(); err != nil {
		return a.link.send(kindFailed, []byte(err.Error()))
	}
	return nil
}

func (a *agent) serve() error {
	var s setup
	if err := a.expect(kindSetup, &s); err != nil {
		return err
	}
	if err := switchRoot(s); err != nil {
		return err
	}
	a.env = commandEnv(s)
	if err := a.topology(s); err != nil {
		return err
	}
	if err := a.link.send(kindReady, nil); err != nil {
		return err
	}
	var r run
	if err := a.expect(kindRun, &r); err != nil {
		return err
	}
	return a.command(r)
}

func (a *agent) expect(want kind, v any) error {
	k, payload, err := readFrame(a.in)
	if err != nil {
		return err
	}
	if k != want {
		return fmt.Errorf("frame %q came instead of %q", k, want)
	}
	return json.Unmarshal(payload, v)
}

func mount(source, target, fs string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, fs, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", fs, target, err)
	}
	return nil
}

func loadModules() error {
	order, err := os.ReadFile("/modules/order")
	if err != nil {
		return err
	}
	for name := range strings.Lines(string(order)) {
		name = strings.TrimSpace(name)
		image, err := os.ReadFile("/" + name)
		if err != nil {
			return err
		}
		params, _ := syscall.BytePtrFromString("")
		_, _, errno := syscall.Syscall(syscall.SYS_INIT_MODULE,
			uintptr(unsafe.Pointer(&image[0])), uintptr(len(image)), uintptr(unsafe.Pointer(params)))
		if errno != 0 && errno != syscall.EEXIST {
			return fmt.Errorf("load %s: %w", name, errno)
		}
	}
	return nil
}

// findPort waits for the link: its driver announces ports a little later.
func findPort() (string, error) {
	for range 500 {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			text, _ := os.ReadFile(n)
			if strings.TrimSpace(string(text)) == linkName {
				return "/dev/" + filepath.Base(filepath.Dir(n)), nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", errors.New("no virtio-serial port after 5 s")
}

// switchRoot makes this machine's files the guest's: read-only below, what the
// guest writes in memory above.
func switchRoot(s setup) error {
	const p9 = "trans=virtio,version=9p2000.L,msize=512000,access=any"
	if err := mount("root", "/host", "9p", syscall.MS_RDONLY, p9+",cache=loose"); err != nil {
		return err
	}
	if err := mount("tmpfs", "/rw", "tmpfs", 0, "size=75%"); err != nil {
		return err
	}
	if s.UserRoot == "" {
		if err := overlay("/host", "/new"); err != nil {
			return err
		}
	} else if err := userSpaceOf(s); err != nil {
		return err
	}
	// modprobe looks for the kernel's modules here.
	modules := filepath.Join("/new/lib/modules", filepath.Base(s.Modules))
	if err := os.MkdirAll(modules, 0o755); err != nil {
		return err
	}
	if err := mount("/host"+s.Modules, modules, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	for _, d := range []string{"/dev", "/proc", "/sys"} {
		if err := os.MkdirAll("/new"+d, 0o755); err != nil {
			return err
		}
		if err := mount(d, "/new"+d, "", syscall.MS_MOVE, ""); err != nil {
			return err
		}
	}
	if err := os.Chdir("/new"); err != nil {
		return err
	}
	if err := mount(".", "/", "", syscall.MS_MOVE, ""); err != nil {
		return err
	}
	if err := syscall.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	_ = os.Remove("/.dockerenv") // the guest is no container, though this machine may be one

	for _, m := range []struct{ dir, fs, data string }{
		{"/dev/pts", "devpts", "mode=620,ptmxmode=666"},
		{"/dev/shm", "tmpfs", "mode=1777"},
		{"/run", "tmpfs", "mode=755"},
		{"/sys/kernel/debug", "debugfs", ""},
		{"/sys/fs/cgroup", "cgroup2", ""},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := mount(m.fs, m.dir, m.fs, 0, m.data); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	if s.OutDir != "" {
		if err := os.MkdirAll(s.OutDir, 0o755); err != nil {
			return err
		}
		if err := mount("out", s.OutDir, "9p", 0, p9+",cache=mmap"); err != nil {
			return err
		}
	}
	if err := syscall.Sethostname(fmt.Appendf(nil, "host%d", s.Host)); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	// The sanitizers' runtimes want less randomness than newer kernels have.
	_ = os.WriteFile("/proc/sys/vm/mmap_rnd_bits", []byte("28"), 0)
	for resource, limit := range map[int]uint64{
		syscall.RLIMIT_NOFILE: 1 << 17,
		rlimitMemlock:         1<<64 - 1,
		syscall.RLIMIT_CORE:   0,
	} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("setrlimit %d: %w", resource, err)
		}
	}
	return nil
}

// overlay mounts a folder with a layer in memory above it.
func overlay(lower, target string) error {
	above := filepath.Join("/rw", lower)
	for _, d := range []string{"upper", "work"} {
		if err := os.MkdirAll(filepath.Join(above, d), 0o755); err != nil {
			return err
		}
	}
	return mount("overlay", target, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%[2]s/work", lower, above))
}

// userSpaceOf makes the guest's files those of another suite, and of this
// machine's the checkout only. Libraries of two suites would not run together:
// each set wants its own libc.
func userSpaceOf(s setup) error {
	// A name of our choice, for overlay's options have no good way to quote.
	if err := mount("/host"+s.UserRoot, "/user", "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if err := overlay("/user", "/new"); err != nil {
		return err
	}
	if err := overlay("/host", "/files"); err != nil {
		return err
	}
	if err := os.MkdirAll("/new"+s.Root, 0o755); err != nil {
		return err
	}
	return mount("/files"+s.Root, "/new"+s.Root, "", syscall.MS_BIND, "")
}

const rlimitMemlock = 8 // Linux's RLIMIT_MEMLOCK, which package syscall lacks

func commandEnv(s setup) []string {
	path := filepath.Join(s.Root, "bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"
	// For our own look-up of the command.
	_ = os.Setenv("PATH", path)
	env := []string{"PATH=" + path, "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", `PS1=\h:\w\$ `}
	env = append(env, s.Env...)
	return append(env,
		"RAILBIND_GUEST=1",
		"RAILBIND_TOPO="+s.Topo,
		fmt.Sprintf("RAILBIND_HOST=%d", s.Host),
		"RAILBIND_TRANSPORT="+s.Transport,
		"RAILBIND_KERNEL="+filepath.Base(s.Modules))
}

// topology runs the topology's script; what it prints goes to the driver's log.
func (a *agent) topology(s setup) error {
	script := filepath.Join(s.Root, "ci/topo", s.Topo)
	p, err := a.start([]string{"/bin/sh", script}, nil, stream{a.link, kindLog}, stream{a.link, kindLog})
	if err != nil {
		return err
	}
	if e := p.wait(); e.Code != 0 {
		return fmt.Errorf("ci/topo/%s failed with status %d", s.Topo, e.Code)
	}
	p.drain()
	return nil
}

func (a *agent) command(r run) error {
	if err := os.Chdir(r.Dir); err != nil {
		return err
	}
	if r.Stdin {
		return a.interactive(r)
	}
	p, err := a.start(r.Argv, nil, stream{a.link, kindStdout}, stream{a.link, kindStderr})
	if err != nil {
		return a.notStarted(r.Argv[0], err)
	}
	go a.feed(p, nil, nil)
	return a.finish(p, r)
}

// notStarted reports what a shell would say of such a command.
func (a *agent) notStarted(name string, err error) error {
	code := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		code = 127
	}
	if err := a.link.send(kindStderr, fmt.Appendf(nil, "ci/guest: %s: %v\n", name, err)); err != nil {
		return err
	}
	return a.link.sendJSON(kindExit, exit{Code: code})
}

// finish waits for the command, ends what it left behind, so that its output
// ends too, and reports its status after the last byte.
func (a *agent) finish(p *proc, r run) error {
	if r.Ready != "" {
		if err := a.untilReady(p, r); err != nil {
			return err
		}
	}
	if err := a.link.send(kindStarted, nil); err != nil {
		return err
	}
	e := p.wait()
	_ = syscall.Kill(-1, syscall.SIGKILL)
	p.drain()
	syscall.Sync()
	return a.link.sendJSON(kindExit, e)
}

// untilReady polls; the driver's timeout bounds it.
func (a *agent) untilReady(p *proc, r run) error {
	for {
		check, err := a.start([]string{"/bin/sh", "-c", r.Ready}, nil, io.Discard, io.Discard)
		if err != nil {
			return err
		}
		if check.wait().Code == 0 {
			return nil
		}
		select {
		case <-p.done: // ended, so it is as ready as it will be
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// proc is a started child.
type proc struct {
	pid    int
	done   chan struct{} // closed when it ended, after status was set
	status syscall.WaitStatus
	copies sync.WaitGroup
}

func (p *proc) wait() exit {
	<-p.done
	if p.status.Signaled() {
		return exit{Code: 128 + int(p.status.Signal()), Signal: p.status.Signal().String()}
	}
	return exit{Code: p.status.ExitStatus()}
}

// drain waits for the rest of the output, but not for ever: a process stuck in
// the kernel keeps its end of the pipe open.
func (p *proc) drain() {
	done := make(chan struct{})
	go func() { p.copies.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
	}
}

// start runs a program in the agent's working folder with a stream for each
// of its outputs; a nil stdin is an empty one.
func (a *agent) start(argv []string, stdin *os.File, stdout, stderr io.Writer) (*proc, error) {
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		stdin = null
	}
	p := &proc{done: make(chan struct{})}
	files := []*os.File{stdin}
	for _, w := range []io.Writer{stdout, stderr} {
		r, pipe, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		files = append(files, pipe)
		p.copies.Go(func() {
			defer r.Close()
			_, _ = io.Copy(w, r)
		})
	}
	return p, a.exec(p, argv, files, &syscall.SysProcAttr{Setsid: true})
}

func (a *agent) exec(p *proc, argv []string, files []*os.File, sys *syscall.SysProcAttr) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	var fds []uintptr
	for _, f := range files {
		fds = append(fds, f.Fd())
	}
	return a.procs.start(p, path, argv, &syscall.ProcAttr{Env: a.env, Files: fds, Sys: sys})
}

// procs collects every child of PID 1, the orphans that become its children
// included.
type procs struct {
	mu      sync.Mutex
	running map[int]*proc
}

func (ps *procs) start(p *proc, path string, argv []string, attr *syscall.ProcAttr) error {
	// Under the lock, so that a child cannot be collected before it is known.
	ps.mu.Lock()
	defer ps.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return err
	}
	if ps.running == nil {
		ps.running = map[int]*proc{}
	}
	p.pid = pid
	ps.running[pid] = p
	return nil
}

func (ps *procs) reap() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			ps.collect()
		}
	}()
}

func (ps *procs) collect() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if p, ok := ps.running[pid]; ok {
			delete(ps.running, pid)
			p.status = status
			close(p.done)
		}
	}
}
