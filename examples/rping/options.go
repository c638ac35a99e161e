package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-rping -s [-vVd] [-P] [-S size] [-a addr | -device name] [-p port]
       rb-rping -c [-vVd] [-S size] [-C count] [-I addr | -device name] -a addr [-p port]

Sends pings over RDMA and checks each byte that comes back. It speaks the
protocol of rdma-core's rping, with it or with itself, in either role.

  -s            server
  -c            client
  -a ADDR       server: address to listen on (default 0.0.0.0; :: is both
                families); client: the server, an address or a name
  -p PORT       default 7174
  -I ADDR       client: bind this address first; the connection keeps its device
  -device NAME  bind the fitting address of this RDMA or network device
  -policy P     client: auto (default: pin where -I or -device is given, follow
                otherwise), pin, route or follow
  -C COUNT      client: number of pings (default 0: until interrupted)
  -S SIZE       client: bytes of a ping, 16 to 65536 (default 64); server: the
                longest ping it takes (default 65536)
  -P            server: serve clients until interrupted, many at once
  -v            print the data of each ping
  -V=false      server: do not check that the pings hold rping's pattern (the
                client always checks)
  -d            say each step
  -timeout D    most time for connecting, and for each round (default 15s)
  -json         print the result as JSON, one object per connection

Letters can be joined, as in -cvVC 10. Progress goes to stderr, results and the
data of -v to stdout.

Exit status: 0 all pings came back right (or it was interrupted where it had no
other end); 1 the connection or the data failed; 2 misuse; 3 no RDMA here;
4 refused by the binding rule; 130 interrupted before the end.
`

type options struct {
	server     bool
	addr       string
	port       uint16
	source     netip.Addr
	device     string
	policy     cm.Policy
	count      int
	size       int
	persistent bool
	verbose    bool
	verify     bool
	debug      bool
	timeout    time.Duration
	json       bool
}

func parse(args []string) (options, error) {
	var o options
	var client bool
	var source string
	var port uint
	fs := flag.NewFlagSet("rb-rping", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&o.server, "s", false, "")
	fs.BoolVar(&client, "c", false, "")
	fs.StringVar(&o.addr, "a", "", "")
	fs.UintVar(&port, "p", 7174, "")
	fs.StringVar(&source, "I", "", "")
	fs.StringVar(&o.device, "device", "", "")
	fs.TextVar(&o.policy, "policy", cm.Auto, "")
	fs.IntVar(&o.count, "C", 0, "")
	fs.IntVar(&o.size, "S", 0, "")
	fs.BoolVar(&o.persistent, "P", false, "")
	fs.BoolVar(&o.verbose, "v", false, "")
	fs.BoolVar(&o.verify, "V", true, "")
	fs.BoolVar(&o.debug, "d", false, "")
	fs.DurationVar(&o.timeout, "timeout", 15*time.Second, "")
	fs.BoolVar(&o.json, "json", false, "")
	if err := program.Parse(fs, args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected %q", fs.Arg(0))
	case o.server == client:
		return o, errors.New("give -s for the server or -c for the client")
	case port == 0 && client || port > 65535:
		return o, fmt.Errorf("-p %d: want 1 to 65535", port)
	case o.count < 0:
		return o, fmt.Errorf("-C %d: want 0 or more", o.count)
	case given["S"] && (o.size < minSize || o.size > maxSize):
		return o, fmt.Errorf("-S %d: want %d to %d", o.size, minSize, maxSize)
	case o.timeout <= 0:
		return o, fmt.Errorf("-timeout %v: want more than 0", o.timeout)
	}
	o.port = uint16(port)
	if err := o.check(given, source); err != nil {
		return o, err
	}
	if o.size == 0 {
		o.size = defaultSize
		if o.server {
			o.size = maxSize
		}
	}
	return o, nil
}

// check holds the flags of one role against the other's.
func (o *options) check(given map[string]bool, source string) (err error) {
	if o.source, err = program.Local("-I", source, o.device); err != nil {
		return err
	}
	if err := program.NoPort("-a", o.addr); err != nil {
		return err
	}
	if o.server {
		for _, f := range []string{"I", "C", "policy"} {
			if given[f] {
				return fmt.Errorf("-%s is the client's", f)
			}
		}
		if o.device != "" && o.addr != "" && !o.wildcard() {
			return errors.New("give -a or -device, not both")
		}
		if o.addr == "" {
			o.addr = "0.0.0.0"
		}
		if _, err := program.Address("-a", o.addr); err != nil {
			return fmt.Errorf("%w; -device takes a name", err)
		}
		return nil
	}
	switch {
	case o.persistent:
		return errors.New("-P is the server's")
	case o.addr == "":
		return errors.New("-a: the client needs the server's address")
	}
	return nil
}

// wildcard reports whether the server's address is one of all.
func (o *options) wildcard() bool {
	a, err := netip.ParseAddr(o.addr)
	return err == nil && a.IsUnspecified()
}
