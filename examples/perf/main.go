// Command rb-perf measures RDMA as perftest does, through railbind: latency,
// bandwidth, message rate and connections per second. It checks the data in a
// run of its own before it times any, and its connections keep the device they
// were bound to.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/program"
	"github.com/railbind/railbind/ibv"
)

// Exit statuses.
const (
	statusOK          = program.OK
	statusFailed      = 1
	statusMisuse      = program.Misuse
	statusNoRDMA      = 3
	statusRefused     = 4
	statusInterrupted = 130
)

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-perf", usage, stdout, stderr)
	}
	out := &output{options: o, out: stdout, err: stderr}
	if o.server() {
		err = serve(ctx, o, out)
	} else {
		err = runClient(ctx, o, out)
	}
	return status(ctx, o, err)
}

// status tells apart what a script may want to tell apart.
func status(ctx context.Context, o options, err error) int {
	var rule *cm.PolicyError
	switch {
	case err == nil:
		return statusOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		if o.server() && o.persistent {
			return statusOK // there was no other end
		}
		return statusInterrupted
	case errors.Is(err, ibv.ErrNoRDMA), errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, errRefused):
		return statusNoRDMA
	case errors.As(err, &rule) && !errors.Is(err, cm.ErrLookup):
		return statusRefused
	}
	return statusFailed
}
