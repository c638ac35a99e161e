package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-explain [flags] DST[:PORT]

Says which RDMA device and path a connection to DST would use, and why; or why
it would be refused, and the commands that would mend it. Nothing is connected
and nothing is changed. DST is an address or a host name; of a name, each
address is explained in the order in which a dial tries them.

  -bind LOCAL      bind there first: ADDR[:PORT], or the name of an RDMA device
                   or network device, whose address that fits DST is taken
  -device NAME     the same, for a name only
  -src ADDR[:PORT] give this source when resolving
  -policy P        auto (default), pin, route or follow
  -ps SPACE        port space of the id: tcp (default), connections; or udp,
                   datagrams, which may go to a multicast group as well
  -local-crossing  let pin pass to a local address of another network device
  -on-link-route   refuse where the kernel would only assume that DST is on the
                   bound link
  -resolve         also let the kernel resolve address and route, and compare

  -json            print a JSON object
  -schema          print the JSON schema of that object
  -svg FILE        draw the rails, the host's route and the chosen path as well;
                   - draws to standard output, in place of the text
  -watch           go on, and print again when a route, rule, address, link or
                   RDMA device changed the verdict or what it rests on, until
                   interrupted; with -json an object on each line, with -svg
                   the file is replaced. It keeps the RDMA devices open

An IPv6 address with a port is written [ADDR]:PORT, a link-local one with its
zone, ADDR%NETDEV.

Exit status: 0 accepted (of a name: one of its addresses is); 1 refused; 2
misuse; 3 could not tell: no RDMA here, no such name, the look-ups failed, or
-resolve did not confirm the decision. Of -watch: that of the last report.

Examples:
  rb-explain 10.10.1.2                        which device would it be?
  rb-explain -bind 10.10.1.1 10.10.1.2:7471   would it stay on this rail?
  rb-explain -device mlx5_1 -policy route storage.example -watch
`

// options is the command line, parsed.
type options struct {
	target string         // the destination as given
	name   string         // where that is a host name
	dst    netip.AddrPort // where it is an address; of a name only the port
	bind   netip.AddrPort
	device string // -device, or -bind with a name
	src    netip.AddrPort
	policy policy.Policy
	space  policy.PortSpace

	localCrossing bool
	onLinkRoute   bool
	resolve       bool
	json          bool
	schema        bool
	watch         bool
	svg           string
}

func parse(args []string) (options, error) {
	var o options
	var bind, src string
	fs := flag.NewFlagSet("rb-explain", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&bind, "bind", "", "")
	fs.StringVar(&o.device, "device", "", "")
	fs.StringVar(&src, "src", "", "")
	fs.TextVar(&o.policy, "policy", policy.Auto, "")
	fs.Func("ps", "", func(s string) error {
		for _, o.space = range []policy.PortSpace{policy.PortSpaceTCP, policy.PortSpaceUDP} {
			if s == o.space.String() {
				return nil
			}
		}
		return errors.New("want tcp or udp")
	})
	fs.BoolVar(&o.localCrossing, "local-crossing", false, "")
	fs.BoolVar(&o.onLinkRoute, "on-link-route", false, "")
	fs.BoolVar(&o.resolve, "resolve", false, "")
	fs.BoolVar(&o.json, "json", false, "")
	fs.BoolVar(&o.schema, "schema", false, "")
	fs.BoolVar(&o.watch, "watch", false, "")
	fs.StringVar(&o.svg, "svg", "", "")
	rest, err := program.ParseAll(fs, args)
	if err != nil {
		return o, err
	}
	switch {
	case o.schema && len(rest) == 0:
		return o, nil
	case len(rest) != 1:
		return o, fmt.Errorf("give one destination, not %d", len(rest))
	case o.svg == "-" && (o.json || o.watch):
		return o, errors.New("-svg - has standard output for itself; give a file")
	}
	if bind != "" && o.device != "" {
		return o, errors.New("give -bind or -device, not both")
	}
	if _, err := program.Local("-bind", "", o.device); err != nil {
		return o, err
	}
	o.target = rest[0]
	if o.name, o.dst, err = destination(o.target); err != nil {
		return o, fmt.Errorf("destination: %w", err)
	}
	if src != "" {
		if o.src, err = address(src); err != nil {
			return o, fmt.Errorf("-src: %w", err)
		}
	}
	if bind != "" {
		if o.bind, err = address(bind); err != nil && !likeAddress(bind) {
			o.device, err = bind, nil
		}
		if err != nil {
			return o, fmt.Errorf("-bind: %w", err)
		}
	}
	return o, nil
}

// likeAddress says whether a text can only be meant as an address.
func likeAddress(s string) bool {
	return strings.Trim(s, "0123456789.") == "" || strings.ContainsAny(s, ":[]%")
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

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)

// destination reads an address or a host name, with or without a port.
func destination(s string) (name string, dst netip.AddrPort, err error) {
	if dst, err = address(s); err == nil {
		return "", dst, nil
	}
	name, service, withPort := strings.Cut(s, ":")
	if likeAddress(name) || !hostName.MatchString(name) || strings.Contains(service, ":") {
		return "", dst, fmt.Errorf("%q is not ADDR, ADDR:PORT, [ADDR]:PORT, NAME or NAME:PORT", s)
	}
	if !withPort {
		return name, netip.AddrPort{}, nil
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", dst, fmt.Errorf("port %q: want a number up to 65535", service)
	}
	return name, netip.AddrPortFrom(netip.Addr{}, uint16(port)), nil
}

// lookupName asks Go's resolver, as a dial does; tests replace it.
var lookupName = net.DefaultResolver.LookupNetIP

// destinations returns what a dial would try, in order, and what of a name it
// would leave out because -bind is of the other family.
func (o options) destinations(ctx context.Context) (try []netip.AddrPort, skipped []netip.Addr, err error) {
	if o.name == "" {
		return []netip.AddrPort{o.dst}, nil, nil
	}
	all, err := lookupName(ctx, "ip", o.name)
	if err != nil {
		return nil, nil, err
	}
	var other []netip.AddrPort
	for _, a := range all {
		a = a.Unmap()
		to := netip.AddrPortFrom(a, o.dst.Port())
		if local := o.bind.Addr().Unmap(); local.IsValid() && local.Is4() != a.Is4() {
			other, skipped = append(other, to), append(skipped, a)
		} else {
			try = append(try, to)
		}
	}
	if len(try) == 0 { // they are tried, and refused
		return other, nil, nil
	}
	return try, skipped, nil
}

// words is what was asked.
func (o options) words() string {
	s := o.target
	if o.bind.IsValid() {
		s += ", bound to " + text(o.bind)
	}
	if o.device != "" {
		s += ", bound to " + o.device
	}
	if o.src.IsValid() {
		s += ", from source " + text(o.src)
	}
	s += ", policy " + o.policy.String()
	if o.space != policy.PortSpaceTCP {
		s += ", port space " + o.space.String()
	}
	if o.localCrossing {
		s += ", local crossing allowed"
	}
	if o.onLinkRoute {
		s += ", a route on the link required"
	}
	return s
}

// text leaves out a port of 0.
func text(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
