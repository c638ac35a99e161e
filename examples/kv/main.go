// Command kv is a key-value store: clients read the server's table by RDMA READ,
// without any work of the server, and write by messages.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"

	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: kv serve [ADDR:PORT]                        (default 0.0.0.0:7473)
       kv [-I ADDR] put HOST:PORT KEY VALUE [KEY VALUE]...
       kv [-I ADDR] get HOST:PORT KEY...

  -I ADDR   bind this local address, and so its device
`

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("kv", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	local := fs.String("I", "", "")
	err := fs.Parse(args)
	var bind netip.Addr
	if err == nil && *local != "" {
		bind, err = program.Address("-I", *local)
	}
	args = fs.Args()
	what := ""
	if len(args) > 0 {
		what = args[0]
	}
	switch {
	case err != nil:
	case what == "serve" && len(args) <= 2:
		address := "0.0.0.0:7473"
		if len(args) == 2 {
			address = args[1]
		}
		var local netip.AddrPort
		if local, err = program.AddrPort("serve", address); err == nil {
			return program.End(ctx, serve(ctx, local, stdout), "kv", stderr)
		}
	case what == "put" && len(args) >= 4 && len(args)%2 == 0:
		return program.End(ctx, withClient(ctx, bind, args[1], func(c *client) error { return c.putAll(ctx, args[2:], stdout) }), "kv", stderr)
	case what == "get" && len(args) >= 3:
		return program.End(ctx, withClient(ctx, bind, args[1], func(c *client) error { return c.getAll(ctx, args[2:], stdout) }), "kv", stderr)
	default:
		err = fmt.Errorf("want serve, put or get, and what goes with it")
	}
	return program.Explain(err, "kv", usage, stdout, stderr)
}
