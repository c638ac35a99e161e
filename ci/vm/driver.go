//go:build linux

package main

import (
	"bytes"
	"context"
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
)

// bootLimit bounds a guest's way to its agent; pure emulation on a busy
// machine takes a few times the usual five seconds.
const bootLimit = 2 * time.Minute

// boots is how often guests are started at most. A kernel rewrites its own code
// as it starts, and an emulated processor may still meet the breakpoint that it
// puts there meanwhile.
const boots = 4

var errEmulated = errors.New("while it started")

// driver runs the guests of one ci/guest.
type driver struct {
	o     options
	root  string
	start time.Time
}

// host is one running guest.
type host struct {
	d       *driver
	number  int
	qemu    *exec.Cmd
	stopped sync.Once
	link    *frameWriter
	console tail // the kernel's
	errors  tail // QEMU's own
	log     tail // of the set-up
	stdout  io.Writer
	stderr  io.Writer

	ready   chan struct{} // closed when the topology stands
	started chan struct{} // closed when the command runs
	ended   chan struct{} // closed when the command or the guest ended
	exit    exit
	err     error
}

func (d *driver) run() (int, error) {
	d.start = time.Now()
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.o.timeout, failure{statusTimeout,
		fmt.Errorf("timeout: not done within %v; -timeout allows more", d.o.timeout)})
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	watchSignals(interrupt)
	// QEMU's file server keeps files of the guest open.
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}

	status, err := d.guests(ctx)
	for again := 1; errors.Is(err, errEmulated) && again < boots && ctx.Err() == nil; again++ {
		d.say("the kernel died of emulation while it started, as it does now and then; once more")
		status, err = d.guests(ctx)
	}
	var told failure
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.As(err, &told) {
		err = cause // a helper program was killed for it
	}
	return status, err
}

// watchSignals ends the run on a signal, and when the parent is gone: nobody
// is there to end it then. What nohup or a shell's & made us ignore stays so.
func watchSignals(interrupt context.CancelCauseFunc) {
	parent := os.Getppid()
	signals := make(chan os.Signal, 4)
	parentDied := syscall.SIGUSR2
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	gone := failure{statusFailed, errors.New("the parent process is gone; nohup keeps a guest running")}
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, parentDied)
		_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(parentDied), 0)
		if os.Getppid() != parent {
			interrupt(gone)
		}
	}
	go func() {
		for s := range signals {
			switch {
			case s != parentDied:
				interrupt(failure{128 + int(s.(syscall.Signal)), fmt.Errorf("%v: the guest was ended", s)})
			case os.Getppid() != parent: // else only a thread of the parent ended
				interrupt(gone)
			}
		}
	}()
}

func (d *driver) say(text string) { fmt.Fprintln(os.Stderr, "ci/guest: "+text) }

func (d *driver) trace(format string, args ...any) {
	if d.o.verbose {
		d.say(fmt.Sprintf("%5.1f s: ", time.Since(d.start).Seconds()) + fmt.Sprintf(format, args...))
	}
}

// guests boots the hosts, runs the commands, and returns host 1's status.
// Every QEMU is gone when it returns.
func (d *driver) guests(ctx context.Context) (int, error) {
	c, err := openCache()
	if err != nil {
		return 0, err
	}
	k, err := c.kernel(ctx, d.o.kernel, d.say)
	if err != nil {
		return 0, err
	}
	if d.o.transport == "siw" {
		if err := c.siw(ctx, k, suites[d.o.kernel], d.say); err != nil {
			return 0, err
		}
	}
	userRoot := ""
	if d.o.rdmaCore != "" {
		if dir, err := workingDir(); err != nil || dir != d.root && !strings.HasPrefix(dir, d.root+"/") {
			return 0, fmt.Errorf("-rdma-core: start it in the checkout %s, the only folder of this machine that the guest has then", d.root)
		}
		u, err := c.userSpace(ctx, d.o.rdmaCore, d.say)
		if err != nil {
			return 0, err
		}
		d.trace("user space: rdma-core %s, libc %s, of %s", u.RDMACore, u.Libc, u.Suite)
		userRoot = u.root()
	}
	railFiles, err := railPairs(d.o.hosts)
	if err != nil {
		return 0, err
	}
	var hosts []*host
	defer func() {
		for _, h := range hosts {
			h.stop()
		}
	}()
	for n := range d.o.hosts {
		h, err := d.boot(n+1, k, userRoot, railFiles[n])
		if err != nil {
			return 0, err
		}
		hosts = append(hosts, h)
	}

	// A guest that ends before its time ends the run.
	ended := make(chan *host, len(hosts))
	for _, h := range hosts {
		go func() { <-h.ended; ended <- h }()
	}
	await := func(h *host, what string, event <-chan struct{}, limit time.Duration) error {
		for {
			select {
			case <-event:
				return nil
			case <-ctx.Done():
				if errors.Is(ctx.Err(), context.DeadlineExceeded) {
					return h.timedOut(what)
				}
				return context.Cause(ctx)
			case e := <-ended:
				mayDie := d.o.mortal && e.number == 2 && h.isReady()
				if e.err != nil && !mayDie {
					return e.err
				}
				if e.number == 2 {
					d.peerEnded(e)
				}
			case <-time.After(limit):
				return h.failed(fmt.Errorf("%s did not happen within %v", what, limit))
			}
		}
	}
	for _, h := range hosts {
		if err := await(h, "booting and setting its topology up", h.ready, bootLimit); err != nil {
			return 0, err
		}
	}
	if d.o.peer != "" {
		if err := hosts[1].run(run{Argv: []string{"/bin/sh", "-c", d.o.peer}, Ready: d.o.ready}); err != nil {
			return 0, err
		}
		if err := await(hosts[1], "what -ready waits for", hosts[1].started, d.o.timeout); err != nil {
			return 0, err
		}
	}
	restore, err := d.runFirst(hosts[0])
	if err != nil {
		return 0, err
	}
	defer restore()
	if err := await(hosts[0], "the end of the command", hosts[0].ended, d.o.timeout); err != nil {
		return 0, err
	}
	if d.o.peer != "" && hosts[0].err == nil {
		d.endPeer(hosts[1])
	}
	return hosts[0].exit.Code, hosts[0].err
}

// endPeer gives a peer that ends by itself the time to, then asks it to.
func (d *driver) endPeer(h *host) {
	for _, last := range []func(){
		func() { _ = h.link.send(kindSignal, []byte{byte(syscall.SIGTERM)}) },
		func() { d.say("peer: did not end on SIGTERM") },
	} {
		select {
		case <-h.ended:
			d.peerEnded(h)
			return
		case <-time.After(time.Second):
			last()
		}
	}
}

func (d *driver) peerEnded(h *host) {
	switch {
	case h.err != nil:
		d.say(fmt.Sprintf("peer: %v", h.err))
	case h.exit.Signal != "":
		d.say(fmt.Sprintf("peer: exit status %d (%s)", h.exit.Code, h.exit.Signal))
	default:
		d.say(fmt.Sprintf("peer: exit status %d", h.exit.Code))
	}
}

// runFirst starts host 1's command, with this terminal where -shell asks for it.
func (d *driver) runFirst(h *host) (restore func(), err error) {
	restore = func() {}
	r := run{Argv: d.o.command}
	if d.o.shell {
		r.Stdin = true
		if r.TTY = isTerminal(os.Stdin) && isTerminal(os.Stdout); r.TTY {
			r.Size = terminalSize(os.Stdout)
		}
	}
	if err := h.run(r); err != nil {
		return restore, err
	}
	if !r.Stdin {
		return restore, nil
	}
	if r.TTY {
		if undo, ok := makeRaw(os.Stdin); ok {
			restore = undo
		}
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		go func() {
			for range resized {
				_ = h.link.sendJSON(kindResize, terminalSize(os.Stdout))
			}
		}()
	}
	go func() {
		_, _ = io.Copy(stream{h.link, kindStdin}, os.Stdin)
		_ = h.link.send(kindStdin, nil)
	}()
	return restore, nil
}

// railPairs connects two hosts by socket pairs: no ports, so that any number
// of runs fit on a machine.
func railPairs(hosts int) (files [2][]*os.File, err error) {
	if hosts == 1 {
		return files, nil
	}
	for range rails {
		a, b, err := socketPair()
		if err != nil {
			return files, err
		}
		files[0] = append(files[0], a)
		files[1] = append(files[1], b)
	}
	return files, nil
}

func socketPair() (a, b *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// boot starts QEMU and what listens to it.
func (d *driver) boot(number int, k kernel, userRoot string, railFiles []*os.File) (*host, error) {
	initrd, err := initrdFile(k.moduleDir())
	if err != nil {
		return nil, err
	}
	defer initrd.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()

	h := &host{
		d: d, number: number, link: &frameWriter{w: ours},
		stdout: os.Stdout, stderr: os.Stderr,
		ready: make(chan struct{}), started: make(chan struct{}), ended: make(chan struct{}),
	}
	if number == 2 {
		h.stdout = &prefixer{w: os.Stderr, prefix: "peer| "}
		h.stderr = &prefixer{w: os.Stderr, prefix: "peer| "}
	}
	if d.o.verbose {
		h.console.w = &prefixer{w: os.Stderr, prefix: fmt.Sprintf("console %d| ", number)}
		h.log.w = &prefixer{w: os.Stderr, prefix: fmt.Sprintf("set-up %d| ", number)}
	}
	h.qemu = exec.Command("qemu-system-x86_64", qemuArgs(d.o, number, k.image(), usableKVM())...)
	h.qemu.Stdout, h.qemu.Stderr = &h.console, &h.errors
	h.qemu.ExtraFiles = append([]*os.File{theirs, initrd}, railFiles...)
	// Its own process group: Ctrl-C is ours to handle. It dies with us.
	h.qemu.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := h.qemu.Start(); err != nil {
		return nil, fmt.Errorf("QEMU does not start: %w; ci/packages guest installs it", err)
	}
	for _, f := range railFiles {
		f.Close()
	}
	d.trace("host %d: QEMU is process %d, kernel %s", number, h.qemu.Process.Pid, k.Release)
	err = h.link.sendJSON(kindSetup, setup{
		Host: number, Root: d.root, Topo: d.o.topo, Transport: d.o.transport,
		Modules: k.moduleDir(), UserRoot: userRoot, OutDir: d.o.out, Env: guestEnv(os.Environ()),
	})
	go h.listen(ours)
	return h, err
}

// workingDir is the caller's, by the name that it has without symbolic links.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

func (h *host) run(r run) error {
	dir, err := workingDir()
	if err != nil {
		return err
	}
	r.Dir = dir
	return h.link.sendJSON(kindRun, r)
}

// listen handles what the agent sends, until the guest is gone.
func (h *host) listen(link io.Reader) {
	defer close(h.ended)
	for {
		k, payload, err := readFrame(link)
		if err != nil {
			h.err = h.died(err)
			return
		}
		switch k {
		case kindReady:
			h.d.trace("host %d: topology %s stands", h.number, h.d.o.topo)
			close(h.ready)
		case kindStarted:
			h.d.trace("host %d: command started", h.number)
			close(h.started)
		case kindStdout:
			_, err = h.stdout.Write(payload)
		case kindStderr:
			_, err = h.stderr.Write(payload)
		case kindLog:
			_, _ = h.log.Write(payload)
		case kindFailed:
			h.err = h.failed(errors.New(string(payload)))
			return
		case kindExit:
			h.err = json.Unmarshal(payload, &h.exit)
			for _, w := range []io.Writer{h.stdout, h.stderr} {
				if p, ok := w.(*prefixer); ok {
					p.close()
				}
			}
			return
		}
		if err != nil {
			h.err = fmt.Errorf("pass the output on: %w", err)
			return
		}
	}
}

// timedOut lets a running command say where it hangs: Go programs print their
// goroutines on SIGQUIT.
func (h *host) timedOut(what string) error {
	select {
	case <-h.started:
		_ = h.link.send(kindSignal, []byte{byte(syscall.SIGQUIT)})
		select {
		case <-h.ended:
		case <-time.After(5 * time.Second):
		}
	default:
	}
	return failure{statusTimeout, h.failed(fmt.Errorf("timeout: %s did not happen within %v; -timeout allows more", what, h.d.o.timeout))}
}

// died explains a guest whose link broke.
func (h *host) died(link error) error {
	h.stop() // so that all it printed is here
	if msg := strings.TrimSpace(h.errors.String()); msg != "" {
		return fmt.Errorf("host %d: QEMU ended: %s", h.number, msg)
	}
	if cause := diagnose(h.console.String()); cause != "" {
		err := errors.New(cause)
		if !h.isReady() && diedOfEmulation(h.console.String()) {
			err = fmt.Errorf("%s, %w", cause, errEmulated)
		}
		return h.failed(err)
	}
	return h.failed(fmt.Errorf("the guest ended without a status (%w)", link))
}

func (h *host) isReady() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

// failed adds what the guest printed last, unless -v has shown it.
func (h *host) failed(err error) error {
	if h.d.o.verbose {
		return fmt.Errorf("host %d: %w", h.number, err)
	}
	var out bytes.Buffer
	for _, t := range []struct {
		name string
		tail *tail
	}{{"console", &h.console}, {"set-up", &h.log}} {
		if text := excerpt(t.tail.String(), 25); text != "" {
			p := &prefixer{w: &out, prefix: fmt.Sprintf("%s %d| ", t.name, h.number)}
			_, _ = p.Write([]byte(text + "\n"))
		}
	}
	_, _ = os.Stderr.Write(out.Bytes())
	return fmt.Errorf("host %d: %w (-v shows more)", h.number, err)
}

// stop ends QEMU; it may be called again.
func (h *host) stop() {
	h.stopped.Do(func() {
		_ = h.qemu.Process.Kill()
		_ = h.qemu.Wait()
	})
}

// usableKVM tells whether this user may make virtual machines, and the processor
// runs them. (Where it does not, as inside some virtual machines, KVM emulates a
// guest's kernel by instructions, and knows too few of them for Debian's.)
var usableKVM = sync.OnceValue(func() bool {
	if cpu, err := os.ReadFile("/proc/cpuinfo"); err != nil || !hardwareKVM(string(cpu)) {
		return false
	}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	const createVM = 0xAE01 // KVM_CREATE_VM
	fd, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), createVM, 0)
	if errno != 0 {
		return false
	}
	_ = syscall.Close(int(fd))
	return true
})
