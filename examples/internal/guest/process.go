package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/program"
)

// asProgram makes a test binary behave as its program.
const asProgram = "RAILBIND_TEST_AS_PROGRAM"

// Main is the body of a TestMain: it runs the tests, or the program, where Ours
// has started this binary.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
	}
	os.Exit(m.Run())
}

// Patience bounds what must end by itself; the guest may be slow, and the race
// detector slower.
const Patience = 3 * time.Minute

// Process is a program under test, or its peer.
type Process struct {
	t        *testing.T
	args     string
	cmd      *exec.Cmd // nil for one of Inside
	Out, Err Buffer
	ended    chan struct{}
	code     int
}

// Ours starts the program under test, Theirs another one.
func Ours(t *testing.T, args string) *Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, strings.Fields(args)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return start(t, cmd)
}

// Theirs starts another program.
func Theirs(t *testing.T, program, args string) *Process {
	t.Helper()
	return start(t, exec.Command(program, strings.Fields(args)...))
}

func start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, args: fmt.Sprint(cmd.Args), cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.Out, &p.Err
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		p.code = cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// Inside runs the program under test within this process, which costs less. It
// cannot be signalled.
func Inside(t *testing.T, run program.Run, args string) *Process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{t: t, args: args, ended: make(chan struct{})}
	go func() {
		p.code = run(ctx, strings.Fields(args), &p.Out, &p.Err)
		close(p.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

// Status waits for the end and gives the exit status, -1 for a signal.
func (p *Process) Status() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(Patience):
		p.hung(p.t, "hangs")
	}
	return p.code
}

// hung fails the test for what the program has not done in time.
func (p *Process) hung(t *testing.T, what string) {
	t.Helper()
	p.stacks()
	t.Fatalf("%v %s; it said:\n%s%s", p.args, what, p.Out.String(), p.Err.String())
}

// stacks ends a program that hangs, and has what it said end in where. (A program
// in C has nothing to say, and just ends.)
func (p *Process) stacks() {
	if p.cmd == nil {
		_ = pprof.Lookup("goroutine").WriteTo(&p.Err, 1)
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
}

// WantStatus waits for the end, and wants that status.
func (p *Process) WantStatus(want int) {
	p.t.Helper()
	require.Equal(p.t, want, p.Status(), "%v said:\n%s%s", p.args, p.Out.String(), p.Err.String())
}

// Result is what the program printed as JSON.
func Result[T any](t *testing.T, p *Process) (r T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(p.Out.String()), &r), "%s%s", p.Out.String(), p.Err.String())
	return r
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) { require.NoError(p.t, p.cmd.Process.Signal(s)) }

// Says waits until the process has written s. (A C program holds its stdout back
// until it ends, unless stdbuf starts it.)
func (p *Process) Says(s string) {
	p.t.Helper()
	p.SaysTimes(s, 1)
}

// SaysTimes waits until the process has written s so often.
func (p *Process) SaysTimes(s string, n int) {
	p.t.Helper()
	said := func() bool { return strings.Count(p.Err.String()+p.Out.String(), s) >= n }
	if !within(said, 5*time.Millisecond) {
		p.hung(p.t, fmt.Sprintf("did not say %q", s))
	}
}

// within waits until something holds, and looks every so often.
func within(holds func() bool, every time.Duration) bool {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(every) {
		if holds() {
			return true
		}
	}
	return holds()
}

// Listens waits until the kernel has a listener on the port: of the connection
// manager, or of TCP where that is asked for.
func (p *Process) Listens(t *testing.T, port string, tcp bool) {
	t.Helper()
	cmd := []string{"rdma", "resource", "show", "cm_id"}
	if tcp {
		cmd = []string{"ss", "-Hltn"}
	}
	listens := func() bool {
		out, err := exec.Command(cmd[0], cmd[1:]...).Output()
		return err == nil && strings.Contains(string(out), ":"+port+" ")
	}
	if !within(listens, 20*time.Millisecond) {
		p.hung(t, "never listened")
	}
}

// Buffer is what a process writes while a test reads.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *Buffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *Buffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
