// Command rb-doctor says whether this host is ready for RDMA, and what mends what
// is not: ibv.Diagnose, printed.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/railbind/railbind/examples/internal/program"
	"github.com/railbind/railbind/ibv"
)

const usage = `usage: rb-doctor [-q] [-json]

Says whether RDMA is ready to be used here, by this process: kernel modules,
devices, rdma-core, permissions, limits, namespaces, addresses, MTU. Below each
finding that is not ok stand the commands that mend it, for root. Nothing is
changed.

  -q       print what is not ok only
  -json    print a JSON object
  -schema  print the JSON schema of that object

Exit status: 0 ready: no finding is an error; 1 not ready; 2 misuse.
`

// Exit statuses.
const (
	statusReady    = program.OK
	statusNotReady = 1
)

// schema describes what -json prints.
//
//go:embed schema.json
var schema string

// report is what -json prints.
type report struct {
	Ready    bool          `json:"ready"`
	Findings []ibv.Finding `json:"findings"`
}

func main() { program.Main(run) }

func run(_ context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("rb-doctor", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	quiet := fs.Bool("q", false, "")
	asJSON := fs.Bool("json", false, "")
	asSchema := fs.Bool("schema", false, "")
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("it takes no arguments: %q", fs.Args())
	}
	if err != nil {
		return program.Explain(err, "rb-doctor", usage, stdout, stderr)
	}
	if *asSchema {
		fmt.Fprint(stdout, schema)
		return statusReady
	}
	r := diagnose(*quiet)
	if *asJSON {
		err = r.printJSON(stdout)
	} else {
		err = r.print(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "rb-doctor: %v\n", err)
		return statusNotReady
	}
	if !r.Ready {
		return statusNotReady
	}
	return statusReady
}

func diagnose(quiet bool) report {
	r := report{Ready: true, Findings: []ibv.Finding{}}
	for _, f := range ibv.Diagnose() {
		r.Ready = r.Ready && f.Severity < ibv.SeverityError
		if !quiet || f.Severity > ibv.SeverityOK {
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}

func (r report) printJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(t, "%v\t%s\t%s\t%s\n", f.Severity, f.Check, f.Object, f.What)
		for _, command := range f.Do {
			fmt.Fprintf(t, "\tdo\t\t%s\n", command)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	verdict := "ready"
	if !r.Ready {
		verdict = "not ready"
	}
	_, err = fmt.Fprintf(w, "%s is %s\n", host, verdict)
	return err
}
