// Command rb-rping sends pings over RDMA as rdma-core's rping does, and checks
// every byte that comes back. Its connections are bound where the user says, and
// keep that device.
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
		return program.Explain(err, "rb-rping", usage, stdout, stderr)
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
