//go:build linux

// Command vm is the program behind ci/guest: it runs a command in a QEMU guest
// with Soft-RoCE. The same program is the guest's first process, the agent.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Exit statuses that are not the command's own.
const (
	statusTimeout = 124
	statusFailed  = 125
)

// failure is an error with an exit status of its own.
type failure struct {
	status int
	error
}

func main() {
	if os.Getpid() == 1 && os.Args[0] == "/init" {
		runAgent()
	}
	// QEMU is told to die with the thread that started it: this one.
	runtime.LockOSThread()
	status, err := drive(os.Args[1:])
	if err != nil {
		status = statusFailed
		var f failure
		if errors.As(err, &f) {
			status = f.status
		}
		fmt.Fprintf(os.Stderr, "ci/guest: %v\n", err)
	}
	os.Exit(status)
}

func drive(args []string) (int, error) {
	if len(args) == 0 {
		return 0, errors.New("run ci/guest, which starts this program")
	}
	root := args[0]
	topos, err := readTopos(filepath.Join(root, "ci/topo"))
	if err != nil {
		return 0, err
	}
	o, err := parseOptions(args[1:], topos)
	if errors.Is(err, errHelp) {
		fmt.Printf(usage, topoNames(topos))
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	d := &driver{o: o, root: root}
	return d.run()
}
