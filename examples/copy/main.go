// Command copy sends files: the sender writes pieces into the receiver's memory
// while the receiver stores those before, and a checksum goes over all.
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

const usage = `usage: copy receive FOLDER [ADDR:PORT]   (default 0.0.0.0:7474)
       copy [-I ADDR] FILE... HOST:PORT

  -I ADDR   bind this local address, and so its device
`

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("copy", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	local := fs.String("I", "", "")
	err := fs.Parse(args)
	var bind netip.Addr
	if err == nil && *local != "" {
		bind, err = program.Address("-I", *local)
	}
	args = fs.Args()
	switch {
	case err != nil:
	case len(args) > 3 && args[0] == "receive", len(args) < 2:
		err = errors.New("want files and where to, or receive and a folder")
	case args[0] == "receive":
		address := "0.0.0.0:7474"
		if len(args) == 3 {
			address = args[2]
		}
		var local netip.AddrPort
		if local, err = program.AddrPort("receive", address); err == nil {
			return program.End(ctx, receive(ctx, args[1], local, stdout), "copy", stderr)
		}
	default:
		last := len(args) - 1
		return program.End(ctx, send(ctx, bind, args[:last], args[last], stdout), "copy", stderr)
	}
	return program.Explain(err, "copy", usage, stdout, stderr)
}

// progress is a bar on one line.
func progress(w io.Writer, name string, done, all int64) {
	const width = 40
	full := width
	if all > 0 {
		full = int(done * width / all)
	}
	fmt.Fprintf(w, "\r%-24s [%-*s] %3d %%", name, width, "########################################"[:full], full*100/width)
	if done == all {
		fmt.Fprintln(w)
	}
}
