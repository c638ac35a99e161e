// Command rb-perf measures RDMA as perftest does, through railbind: latency,
// bandwidth, message rate and connections per second. It checks the data in a
// run of its own before it times any, and its connections keep the device they
// were bound to.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
	"github.com/railbind/railbind/ibv"
)

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-perf", usage, stdout, stderr)
	}
	ibv.SetMaxSpinners(2) // the latency of who sleeps is not what is measured
	out := &output{options: o, out: stdout, err: stderr}
	if o.server() {
		err = serve(ctx, o, out)
	} else {
		err = runClient(ctx, o, out)
	}
	return status(ctx, o, err)
}

// status is the exit status of a whole run.
func status(ctx context.Context, o options, err error) int {
	switch {
	case err == nil:
		return peer.OK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		if o.server() && o.persistent {
			return peer.OK // there was no other end
		}
		return peer.Interrupted
	}
	return peer.Status(err)
}
