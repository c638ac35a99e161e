// Command rails sends messages over several rails at once, each connection bound
// to its own. A rail that fails is left out, its message goes over another one, and
// it takes part again when it can be dialled again. The peer is serve.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rails [-n MESSAGES] LOCAL=PEER:PORT...
for example: rails 10.10.0.1=10.10.0.2:7471 10.10.1.1=10.10.1.2:7471

  -n N   messages in all (default 10000); Ctrl-C ends it before
`

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("rails", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	n := fs.Int("n", 10000, "")
	err := fs.Parse(args)
	var all []*rail
	for _, arg := range fs.Args() {
		local, peer, _ := strings.Cut(arg, "=")
		r := &rail{log: stderr}
		var err2, err3 error
		r.local, err2 = program.Address("LOCAL", local)
		r.peer, err3 = program.AddrPort("PEER", peer)
		err = errors.Join(err, err2, err3)
		all = append(all, r)
	}
	if err == nil && (len(all) == 0 || *n < 1) {
		err = errors.New("want rails, and at least one message")
	}
	if err != nil {
		return program.Explain(err, "rails", usage, stdout, stderr)
	}
	send(ctx, all, *n)
	for _, r := range all {
		fmt.Fprintf(stdout, "%v: %d messages, %d failures\n", r.local, r.sent, r.failures)
	}
	return program.OK
}
