// Command rb-explain says which RDMA device and path a connection would use, and
// why, or why it would be refused: the library's decision, without connecting.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/examples/internal/program"
)

// Exit statuses.
const (
	statusAccepted = program.OK
	statusRefused  = 1
	statusMisuse   = program.Misuse
	statusUnknown  = 3
)

const usage = `usage: rb-explain [-bind ADDR] [-src ADDR] [-policy auto|pin|route|follow] [-resolve] [-json] DST[:PORT]

Says which RDMA device and path a connection to DST would use, and why; or why
it would be refused, and what to do about it. Nothing is connected.

  -bind ADDR    bind the id first: ADDR[:PORT], or the name of an RDMA device or
                network device, whose address that fits DST is taken
  -src ADDR     give this source when resolving
  -policy P     auto (default), pin, route or follow
  -resolve      also let the kernel resolve address and route, and compare
  -json         print one JSON object

An IPv6 address with a port is written [ADDR]:PORT, a link-local one with its
zone, ADDR%NETDEV.

Exit status: 0 accepted; 1 refused; 2 misuse; 3 could not tell: no RDMA here,
the look-ups failed, or -resolve did not confirm the decision.
`

// options is the command line, parsed.
type options struct {
	bind    netip.AddrPort
	device  string // -bind with a name
	src     netip.AddrPort
	dst     netip.AddrPort
	policy  policy.Policy
	resolve bool
	json    bool
}

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-explain", usage, stdout, stderr)
	}
	r := explain(ctx, o)
	if err := r.print(stdout, o.json); err != nil {
		fmt.Fprintf(stderr, "rb-explain: %v\n", err)
		return statusUnknown
	}
	return r.status()
}

func parse(args []string) (options, error) {
	var o options
	var bind, src string
	fs := flag.NewFlagSet("rb-explain", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&bind, "bind", "", "")
	fs.StringVar(&src, "src", "", "")
	fs.TextVar(&o.policy, "policy", policy.Auto, "")
	fs.BoolVar(&o.resolve, "resolve", false, "")
	fs.BoolVar(&o.json, "json", false, "")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() != 1 {
		return o, fmt.Errorf("give one destination, not %d", fs.NArg())
	}
	var err error
	if o.dst, err = address(fs.Arg(0)); err != nil {
		return o, fmt.Errorf("destination: %w", err)
	}
	if src != "" {
		if o.src, err = address(src); err != nil {
			return o, fmt.Errorf("-src: %w", err)
		}
	}
	if bind != "" {
		if o.bind, err = address(bind); err != nil && strings.Trim(bind, "0123456789.") != "" && !strings.Contains(bind, ":") {
			o.device, err = bind, nil
		}
		if err != nil {
			return o, fmt.Errorf("-bind: %w", err)
		}
	}
	return o, nil
}

// address reads an address with or without a port.
func address(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a, nil
	}
	bare := s
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		bare = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(bare)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not ADDR, ADDR:PORT or [ADDR]:PORT", s)
	}
	return netip.AddrPortFrom(a, 0), nil
}
