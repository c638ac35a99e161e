// Package program is how the commands of this module start, explain themselves
// and end.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit statuses that the commands share.
const (
	OK     = 0
	Misuse = 2
)

// Run is a command: its exit status for its arguments, without its name. The
// context ends with SIGINT and SIGTERM.
type Run func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// Main runs the command of this process and exits.
func Main(run Run) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Explain ends a command whose arguments could not be parsed: it prints the
// usage that was asked for, or what is wrong.
func Explain(err error, name, usage string, stdout, stderr io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return OK
	}
	text := err.Error()
	if unknown, ok := strings.CutPrefix(text, "flag provided but not defined: "); ok {
		text = "unknown flag " + unknown
	}
	fmt.Fprintf(stderr, "%s: %s\n%s -h explains\n", name, text, name)
	return Misuse
}

// End is the exit status of a command that has run, and says what went wrong.
// That the user interrupted it is nothing wrong.
func End(ctx context.Context, err error, name string, stderr io.Writer) int {
	if err == nil || ctx.Err() != nil {
		return OK
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return 1
}
