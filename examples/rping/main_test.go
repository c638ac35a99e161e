package main

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asProgram makes this test binary behave as the program.
const asProgram = "RB_RPING_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// patience bounds what must end by itself; the guest may be slow.
const patience = time.Minute

// process is a program under test, or rdma-core's rping.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err safeBuffer
	ended    chan struct{}
}

// ours starts rb-rping, theirs rdma-core's rping.
func ours(t *testing.T, args string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, strings.Fields(args)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return start(t, cmd)
}

func theirs(t *testing.T, args string) *process {
	t.Helper()
	return start(t, exec.Command("rping", strings.Fields(args)...))
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.err
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// status waits for the end and gives the exit status, -1 for a signal.
func (p *process) status() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%v hangs; it said:\n%s%s", p.cmd.Args, p.out.String(), p.err.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) wantStatus(want int) {
	p.t.Helper()
	require.Equal(p.t, want, p.status(), "%v said:\n%s%s", p.cmd.Args, p.out.String(), p.err.String())
}

func (p *process) signal(s os.Signal) { require.NoError(p.t, p.cmd.Process.Signal(s)) }

// says waits until the process has written s to stderr.
func (p *process) says(s string) {
	p.t.Helper()
	p.saysTimes(s, 1)
}

func (p *process) saysTimes(s string, n int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Count(p.err.String(), s) >= n }, patience, 5*time.Millisecond,
		"%v said:\n%s%s", p.cmd.Args, p.out.String(), p.err.String())
}

// server starts rb-rping as a server on a free port, and returns where it
// listens.
func server(t *testing.T, addr, args string) (*process, netip.AddrPort) {
	t.Helper()
	p := ours(t, "-s -p 0 -a "+addr+" "+args)
	p.says("listening on ")
	_, rest, _ := strings.Cut(p.err.String(), "listening on ")
	at, _, _ := strings.Cut(rest, ",")
	ap, err := netip.ParseAddrPort(at)
	require.NoError(t, err)
	return p, ap
}

// safeBuffer is a buffer that a process writes while a test reads.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// pingLines is what -v prints for n pings of a size.
func pingLines(prefix string, n, size int) string {
	var b strings.Builder
	data := make([]byte, size)
	for i := range n {
		fill(data, i)
		b.WriteString(prefix + string(text(data)) + "\n")
	}
	return b.String()
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
