// Command rb-many is a server of many clients with one pool of receives: a shared
// receive queue, whose size follows the messages under way and not the clients.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-many serve ADDR:PORT
       rb-many dial [-c CLIENTS] [-n MESSAGES] LOCAL HOST:PORT

The server answers each message with the same one. Its address, and the client's
LOCAL, name the device.

  -c N   clients, each a connection of its own (default 64)
  -n N   messages of each (default 100)

Exit status: 0 all went right, or the server was interrupted; 1 a connection or
the data failed; 2 misuse; 3 no RDMA here; 4 refused by the binding rule; 130 a
client interrupted before the end.
`

const name = "rb-many"

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	clients, messages := fs.Int("c", 64, ""), fs.Int("n", 100, "")
	args, err := program.ParseAll(fs, args)
	var addr netip.AddrPort
	var local netip.Addr
	switch {
	case err != nil:
	case *clients < 1:
		err = fmt.Errorf("-c %d: want 1 or more", *clients)
	case *messages < 1:
		err = fmt.Errorf("-n %d: want 1 or more", *messages)
	case len(args) == 2 && args[0] == "serve":
		if fs.NFlag() > 0 {
			err = errors.New("-c and -n are for dial")
		} else if addr, err = program.AddrPort("serve", args[1]); err == nil {
			if err = serve(ctx, addr, stdout); errors.Is(err, context.Canceled) {
				err = nil // that is how a server ends
			}
			return end(ctx, err, stderr)
		}
	case len(args) == 3 && args[0] == "dial":
		if local, err = program.Address("LOCAL", args[1]); err == nil {
			err = dial(ctx, local, args[2], *clients, *messages)
			if err == nil {
				fmt.Fprintf(stdout, "%d clients, %d answers\n", *clients, *clients**messages)
			}
			return end(ctx, err, stderr)
		}
	default:
		err = errors.New("want serve ADDR:PORT, or dial LOCAL HOST:PORT")
	}
	return program.Explain(err, name, usage, stdout, stderr)
}

// end says what went wrong, and gives the exit status.
func end(ctx context.Context, err error, stderr io.Writer) int {
	status := peer.StatusOf(ctx, err)
	switch {
	case status == peer.Interrupted:
		fmt.Fprintf(stderr, "%s: interrupted\n", name)
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	return status
}
