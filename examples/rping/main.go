// Command rb-rping sends pings over RDMA as rdma-core's rping does, and checks
// every byte that comes back. Its connections are bound where the user says, and
// keep that device.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// Exit statuses.
const (
	statusOK          = 0
	statusFailed      = 1
	statusMisuse      = 2
	statusNoRDMA      = 3
	statusRefused     = 4
	statusInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return statusOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "rb-rping: %v\nrb-rping -h explains\n", err)
		return statusMisuse
	}
	out := &output{options: o, out: stdout, err: stderr}
	if o.server {
		return serve(ctx, o, out)
	}
	r := runClient(ctx, o, out)
	out.result(r)
	return r.status(ctx, o)
}

// status is the exit status of one connection, or of the attempt at it.
func (r *result) status(ctx context.Context, o options) int {
	switch {
	case r.err == nil:
		return statusOK
	case ctx.Err() != nil && errors.Is(r.err, context.Canceled):
		if o.persistent || !o.server && o.count == 0 {
			return statusOK // there was no other end
		}
		return statusInterrupted
	}
	return failure(r.err)
}

// failure tells apart what a script may want to tell apart.
func failure(err error) int {
	var rule *cm.PolicyError
	switch {
	case errors.Is(err, ibv.ErrNoRDMA), errors.Is(err, errors.ErrUnsupported):
		return statusNoRDMA
	case errors.As(err, &rule) && !errors.Is(err, cm.ErrLookup):
		return statusRefused
	}
	return statusFailed
}
