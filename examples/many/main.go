// Command many is a server of many clients with one pool of receives: a shared
// receive queue, whose size follows the messages under way and not the clients.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"

	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: many serve ADDR:PORT
       many [-c CLIENTS] [-n MESSAGES] dial LOCAL HOST:PORT

The server answers each message with the same one. Its address, and the client's
LOCAL, name the device.

  -c N   clients, each a connection of its own (default 64)
  -n N   messages of each (default 100)
`

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("many", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	clients, messages := fs.Int("c", 64, ""), fs.Int("n", 100, "")
	err := fs.Parse(args)
	args = fs.Args()
	var addr netip.AddrPort
	var local netip.Addr
	switch {
	case err != nil:
	case *clients < 1 || *messages < 1:
		err = errors.New("want clients, and messages")
	case len(args) == 2 && args[0] == "serve":
		if addr, err = netip.ParseAddrPort(args[1]); err == nil {
			return program.End(ctx, serve(ctx, addr, stdout), "many", stderr)
		}
	case len(args) == 3 && args[0] == "dial":
		if local, err = netip.ParseAddr(args[1]); err == nil {
			err = dial(ctx, local, args[2], *clients, *messages)
			if err == nil {
				fmt.Fprintf(stdout, "%d clients, %d answers\n", *clients, *clients**messages)
			}
			return program.End(ctx, err, "many", stderr)
		}
	default:
		err = errors.New("want serve or dial, and what goes with it")
	}
	return program.Explain(err, "many", usage, stdout, stderr)
}
