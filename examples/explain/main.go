// Command rb-explain says which RDMA device and path a connection would use, and
// why, or why it would be refused and what mends it: the library's decision,
// without connecting.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	"github.com/railbind/railbind/examples/internal/program"
)

// Exit statuses.
const (
	statusAccepted = program.OK
	statusRefused  = 1
	statusMisuse   = program.Misuse
	statusUnknown  = 3
)

// schema describes what -json prints.
//
//go:embed schema.json
var schema string

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-explain", usage, stdout, stderr)
	}
	if o.schema {
		fmt.Fprint(stdout, schema)
		return statusAccepted
	}
	if o.watch {
		return watch(ctx, o, stdout, stderr)
	}
	r := explain(ctx, o)
	if err := r.write(stdout); err != nil {
		fmt.Fprintf(stderr, "rb-explain: %v\n", err)
		return statusUnknown
	}
	return r.status()
}

// write gives the report in the forms that were asked for.
func (r report) write(stdout io.Writer) error {
	if r.svg == "-" {
		_, err := io.WriteString(stdout, r.picture())
		return err
	}
	if err := r.print(stdout); err != nil {
		return err
	}
	if r.svg != "" {
		return replaceFile(r.svg, r.picture())
	}
	return nil
}
