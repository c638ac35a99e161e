// Command rb-udaddy asks for a service of datagrams and sends messages to it, as
// rdma-core's udaddy does; either may be the other's peer.
package main

import (
	"context"
	"io"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-udaddy [-b addr | -device name] [-c n] [-C n] [-S bytes]
       rb-udaddy -s server [-b addr | -device name] [-c n] [-C n] [-S bytes]

Without -s it is the server: a service of datagrams, which answers -c clients,
takes -C messages of each and sends as many back. With -s it is the client, which
sends first. The peer may be rdma-core's udaddy; -c, -C and -S must be the same at
both ends. A datagram that is lost stays lost, and is an error after -timeout.

  -s HOST       client: the server, an address or a name
  -b ADDR       server: listen there (default 0.0.0.0; :: is both families);
                client: bind this address first, and keep its device
  -p PORT       default 7174; rdma-core's udaddy knows no other
  -c N          queue pairs, each a client of its own (default 1)
  -C N          messages each way for each (default 10)
  -S BYTES      of a message, at most the device's MTU (default 100)
  -t TOS        client: type of service
` + peer.Usage

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-udaddy", usage, stdout, stderr)
	}
	r := &peer.Traffic{Outcome: o.Outcome(), Size: o.Size}
	e := &end{Options: o, r: r, stderr: stderr}
	r.Fail(e.run(ctx))
	peer.Print(o.Name, o.JSON, r, stdout, stderr)
	return peer.StatusOf(ctx, r.Err())
}

func parse(args []string) (*peer.Options, error) {
	o := &peer.Options{}
	o.Flags("rb-udaddy")
	o.ServerFlags(7174)
	o.MessageFlags()
	return o, o.Parse(args)
}
