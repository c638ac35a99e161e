//go:build linux

// Command faults breaks what a host lives on, beneath many connections with
// traffic, and checks what railbind promises then: every operation ends by its
// deadline, completed or with an error; no byte is wrong; nothing leaks; rails
// that have no fault do not notice; and the same process serves again when the
// fault is gone. It runs in two guests: `make faults`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `faults: break a host beneath connections with traffic, and check what is promised then

  faults agent            host 2: keeps a server alive, and does what host 1 asks for
  faults serve            host 2: the server, started by the agent
  faults run [FLAG...]    host 1: the clients and the faults

  -only NAMES     these faults, separated by commas; -list names all
  -hold D         how long each fault lasts (10s)
  -conns N        connections on each rail and address family (4)
  -soak D         draw faults at random until D is over, the connections stay (0: each fault once)
  -seed N         of the soak's drawing (1)
  -list           print the faults
`

// deadline is every operation's. What takes longer than late is a hang.
const (
	deadline = 15 * time.Second
	late     = deadline + 10*time.Second
)

type config struct {
	only  []string
	hold  time.Duration
	conns int
	soak  time.Duration
	seed  int64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	role := ""
	if len(args) > 0 {
		role, args = args[0], args[1:]
	}
	switch role {
	case "agent":
		return agent(ctx)
	case "serve":
		return serve(ctx)
	case "poor":
		return poor(ctx)
	case "run":
		var c config
		fs := flag.NewFlagSet("faults", flag.ExitOnError)
		fs.Usage = func() { fmt.Fprint(os.Stderr, usage) }
		only := fs.String("only", "", "")
		list := fs.Bool("list", false, "")
		fs.DurationVar(&c.hold, "hold", 10*time.Second, "")
		fs.IntVar(&c.conns, "conns", 4, "")
		fs.DurationVar(&c.soak, "soak", 0, "")
		fs.Int64Var(&c.seed, "seed", 1, "")
		_ = fs.Parse(args)
		if *list {
			for _, f := range faults {
				fmt.Printf("%-24s %s\n", f.name, f.what)
			}
			return nil
		}
		if *only != "" {
			c.only = strings.Split(*only, ",")
		}
		return run(ctx, c)
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}
