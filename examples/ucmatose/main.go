// Command rb-ucmatose makes connections and sends messages over them, as
// rdma-core's ucmatose does; either may be the other's peer.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-ucmatose [-b addr | -device name] [-c n] [-C n] [-S bytes] [-m]
       rb-ucmatose -s server [-b addr | -device name] [-c n] [-C n] [-S bytes] [-m]

Without -s it is the server: it waits for -c connections, then sends -C messages
over each, receives as many from the client, and ends the connections. With -s it
is the client, which receives first and then sends back what it got. The peer may
be rdma-core's ucmatose; -c, -C and -S must be the same at both ends.

  -s HOST       client: the server, an address or a name
  -b ADDR       server: listen there (default 0.0.0.0; :: is both families);
                client: bind this address first; the connections keep its device
  -p PORT       default 7471
  -c N          connections (default 1)
  -C N          messages each way over each (default 10, at least 0)
  -S BYTES      of a message (default 100; 0: no messages)
  -m            move the connections to another event channel before they end
  -t TOS        type of service
  -a TIMEOUT    wait 4.096 us * 2^TIMEOUT for an acknowledgment (1 to 31)
` + peer.Usage

type options struct {
	peer.Options
	migrate bool
	ack     uint
}

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-ucmatose", usage, stdout, stderr)
	}
	r := &peer.Traffic{Outcome: o.Outcome(), Size: o.Size}
	e := &end{options: o, r: r, stderr: stderr}
	r.Fail(e.run(ctx))
	peer.Print(o.Name, o.JSON, r, stdout, stderr)
	return peer.StatusOf(ctx, r.Err())
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := o.Flags("rb-ucmatose")
	o.ServerFlags(7471)
	o.MessageFlags()
	o.flags(fs)
	if err := o.Parse(args); err != nil {
		return nil, err
	}
	if o.ack > 31 {
		return nil, fmt.Errorf("-a %d: want 1 to 31", o.ack)
	}
	return o, nil
}

func (o *options) flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.migrate, "m", false, "")
	fs.UintVar(&o.ack, "a", 0, "")
}

// queues have room for all messages at once: a peer may send them without pause.
func (o *options) queues() cm.QueueConfig {
	return cm.QueueConfig{SendDepth: max(1, o.Count), RecvDepth: max(1, o.Count), MaxMessage: max(1, o.Size)}
}
