//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// control is where the agent hears: on rail 0, which no fault touches.
const control = "10.10.0.2:7980"

// Agent does in host 2 what host 1 asks for.
type Agent struct {
	mu     sync.Mutex
	server *exec.Cmd
	wrong  bool
}

// agent runs until ctx ends.
func agent(ctx context.Context) error {
	a := new(Agent)
	if err := a.start(); err != nil {
		return err
	}
	defer a.end(syscall.SIGKILL)
	l, err := net.Listen("tcp", control)
	if err != nil {
		return err
	}
	if err := rpc.Register(a); err != nil {
		return err
	}
	go rpc.Accept(l)
	fmt.Println("agent ready")
	<-ctx.Done()
	return nil
}

// start starts a server and returns when it listens.
func (a *Agent) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "serve")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	a.server = cmd
	stands := make(chan struct{}, 16)
	go func() {
		defer close(stands)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == listening {
				select {
				case stands <- struct{}{}:
				default:
				}
				continue
			}
			fmt.Println(lines.Text())
			if strings.Contains(lines.Text(), errWrong.Error()) {
				a.mu.Lock()
				a.wrong = true
				a.mu.Unlock()
			}
		}
	}()
	select {
	case _, ok := <-stands:
		if !ok {
			return errors.New("the server ended")
		}
		return nil
	case <-time.After(time.Minute):
		return errors.New("the server does not listen after a minute")
	}
}

func (a *Agent) end(s syscall.Signal) {
	_ = a.server.Process.Signal(s)
	_ = a.server.Wait()
}

// Kill kills the server; Start starts another.
func (a *Agent) Kill(struct{}, *struct{}) error { a.end(syscall.SIGKILL); return nil }

// Stacks ends the server, and has it say where its goroutines were.
func (a *Agent) Stacks(struct{}, *struct{}) error { a.end(syscall.SIGQUIT); return nil }

// Start starts a server.
func (a *Agent) Start(struct{}, *struct{}) error { return a.start() }

// Relisten makes the server close its listeners and listen anew.
func (a *Agent) Relisten(struct{}, *struct{}) error { return a.server.Process.Signal(syscall.SIGHUP) }

// Wrong tells whether a server has seen wrong bytes.
func (a *Agent) Wrong(_ struct{}, wrong *bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	*wrong = a.wrong
	return nil
}

// Shell runs a command in host 2.
func (a *Agent) Shell(command string, _ *struct{}) error { return shell(command) }

func shell(command string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Holdings are the server's.
func (a *Agent) Holdings(_ struct{}, h *Holdings) (err error) {
	*h, err = holdingsOf(a.server.Process.Pid)
	return err
}
