// Command rb-rping sends pings over RDMA as rdma-core's rping does, and checks
// every byte that comes back. Its connections are bound where the user says, and
// keep that device.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
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
	if (o.persistent || !o.server && o.count == 0) && ctx.Err() != nil && errors.Is(r.Err(), context.Canceled) {
		return peer.OK // there was no other end
	}
	return peer.StatusOf(ctx, r.Err())
}
