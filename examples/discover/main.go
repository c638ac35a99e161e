// Command discover finds services without a name server: a question goes to a
// multicast group, and each member that offers something answers who has asked.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/netip"
	"time"

	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: discover offer LOCAL TEXT     (such as kv=10.1.0.1:7473)
       discover [-wait D] [-n N] find LOCAL

LOCAL is an address of this host, and names the device that is asked on.

  -wait D   how long to wait for answers (default 1s)
  -n N      end after so many (default: wait for more)
`

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("discover", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	wait := fs.Duration("wait", time.Second, "")
	most := fs.Int("n", 0, "")
	err := fs.Parse(args)
	args = fs.Args()
	var do func(context.Context, *node) error
	switch {
	case err != nil:
	case len(args) == 3 && args[0] == "offer" && len(args[2]) <= size-1:
		do = func(ctx context.Context, n *node) error { return n.offer(ctx, args[2], stdout) }
	case len(args) == 2 && args[0] == "find" && *wait > 0 && *most >= 0:
		do = func(ctx context.Context, n *node) error {
			ctx, cancel := context.WithTimeout(ctx, *wait)
			defer cancel()
			return n.find(ctx, *most, stdout)
		}
	default:
		err = errors.New("want offer or find, and what goes with it")
	}
	var local netip.Addr
	if err == nil {
		local, err = program.Address("LOCAL", args[1])
	}
	if err != nil {
		return program.Explain(err, "discover", usage, stdout, stderr)
	}
	return program.End(ctx, withNode(ctx, local, do), "discover", stderr)
}
