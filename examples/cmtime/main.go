// Command rb-cmtime measures what a connection costs, step by step, as
// rdma-core's cmtime does; either may be the other's peer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-cmtime [-b addr | -device name] [-c n] [-sync]
       rb-cmtime -s server [-b addr | -device name] [-c n] [-sync]

With -s it is the client: it makes -c connections, takes each step for all of them
before the next, and tells how long each step took. Without -s it is the server,
which accepts them. The peer may be rdma-core's cmtime.

  -s HOST       client: the server, an address or a name
  -b ADDR       server: listen there (default 0.0.0.0; :: is both families);
                client: bind this address first, as a step of its own
  -p PORT       default 7471
  -c N          client: connections (default 100); server: end after so many
                (default: when interrupted)
  -sync         the ends go by turns over a TCP connection, as cmtime of
                rdma-core 56 does: one connection to warm up, then twice -c,
                which must be the same at both ends. (cmtime's second time is
                without queue pairs; this one's has them.)
  -t TOS        type of service
` + peer.Usage

type options struct {
	peer.Options
	sync bool
}

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-cmtime", usage, stdout, stderr)
	}
	r := &result{Outcome: o.Outcome()}
	if o.Server == "" {
		r.Fail(serve(ctx, o, r, stderr))
	} else {
		r.Fail(measure(ctx, o, r, stderr))
	}
	peer.Print(o.Name, o.JSON, r, stdout, stderr)
	if o.Server == "" && o.Connections == 0 && errors.Is(r.Err(), context.Canceled) {
		return peer.OK // there was no other end
	}
	return peer.StatusOf(ctx, r.Err())
}

const defaultConnections = 100

func parse(args []string) (*options, error) {
	o := &options{}
	fs := o.Flags("rb-cmtime")
	o.ServerFlags(7471)
	fs.IntVar(&o.Connections, "c", 0, "")
	fs.BoolVar(&o.sync, "sync", false, "")
	if err := o.Parse(args); err != nil {
		return nil, err
	}
	if o.Connections < 0 || o.Given("c") && o.Connections == 0 {
		return nil, fmt.Errorf("-c %d: want 1 or more", o.Connections)
	}
	if o.Connections == 0 && (o.Server != "" || o.sync) {
		o.Connections = defaultConnections
	}
	return o, nil
}

// series are how many connections are made, one time after the other. The last
// is what is told.
func (o *options) series() []int {
	if o.sync {
		return []int{1, o.Connections, o.Connections}
	}
	return []int{o.Connections}
}
