// Command rb-perftest is a peer of perftest's ib_send_lat, ib_send_bw,
// ib_write_lat, ib_write_bw, ib_read_lat, ib_read_bw, ib_atomic_lat and
// ib_atomic_bw, in either role, with the connection manager (-R) or without. It
// checks the data; to measure, take rb-perf.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-perftest TEST [flags]         the server
       rb-perftest TEST [flags] HOST    the client

Does what perftest's ib_TEST does, and checks the data. The peer may be that
program, of version 5.70 or newer; TEST, -s, -n and -R must be the same at both
ends.

TEST is
  send-lat write-lat      a message there and back
  read-lat atomic-lat     one READ, or FETCH AND ADD, after another
  send-bw write-bw read-bw atomic-bw
                          many under way

  -R            connect with the connection manager
  -b ADDR       use the device, and the GID, that has this address (default: the
                address that the connection with the peer has at this end)
  -d, -device NAME
                use this RDMA device
  -x INDEX      use this row of its GID table, instead of that of the address
  -i PORT       use this port of it (default 1)
  -p PORT       of TCP, or of the connection manager (default 18515)
  -s BYTES      of a message (default 2, bw 65536; atomics have 8)
  -n N          messages (default 1000, write-bw 5000)
  -t N          bw: most messages under way (default 128)
  -m MTU        of the path: 256 to 4096 bytes (default: the port's); not with -R
  -policy P     client, with -R: auto (default: pin where -b or -d is given, follow
                otherwise), pin, route or follow
  -timeout D    most time for each wait of the peer that is there, such as for
                the whole of its run (default 1m)
  -json         print the result as JSON

Messages of 8 bytes or more are compared with what perftest, or rb-perftest, has
in its memory; what is neither does not count as verified.

Exit status: 0 all went right; 1 the connection or the data failed; 2 misuse; 3 no
RDMA here, or a device that cannot; 4 refused by the binding rule; 130 interrupted
before the end.
`

const (
	name    = "rb-perftest"
	maxSize = 1 << 24
	maxIter = 1 << 30
)

type options struct {
	peer.ByHand
	test
	cm     bool
	policy cm.Policy
	size   int
	n      int
	most   int // messages under way
}

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, name, usage, stdout, stderr)
	}
	r := &result{Outcome: peer.Outcome{Role: o.Role(), Policy: o.policy}, Test: o.name, Size: o.size}
	r.Fail(play(ctx, o, r, stderr))
	peer.Print(name, o.JSON, r, stdout, stderr)
	return peer.StatusOf(ctx, r.Err())
}

func parse(args []string) (*options, error) {
	o := &options{}
	if len(args) > 0 {
		var ok bool
		if o.test, ok = testOf(args[0]); ok {
			args = args[1:]
		}
	}
	fs := o.Flags(name, "x", 4096, time.Minute)
	fs.BoolVar(&o.cm, "R", false, "")
	fs.TextVar(&o.policy, "policy", cm.Auto, "")
	fs.IntVar(&o.size, "s", o.test.size, "")
	fs.IntVar(&o.n, "n", o.test.n, "")
	fs.IntVar(&o.most, "t", o.test.most, "")
	if err := o.Parse(args); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case o.name == "":
		return nil, errors.New("which test? send-lat, write-bw and so on comes first")
	case o.atomic() && o.size != 8:
		return nil, fmt.Errorf("-s %d: atomics have 8 bytes", o.size)
	case o.size < 1 || o.size > maxSize:
		return nil, fmt.Errorf("-s %d: want 1 to %d", o.size, maxSize)
	case o.n < 1 || o.n > maxIter:
		return nil, fmt.Errorf("-n %d: want 1 to %d", o.n, maxIter)
	case !o.stream && o.most != 1:
		return nil, fmt.Errorf("-t: %s has one message under way", o.name)
	case o.most < 1 || o.most > 1<<14:
		return nil, fmt.Errorf("-t %d: want 1 to %d", o.most, 1<<14)
	case o.cm && o.GIDIndex >= 0:
		return nil, errors.New("-x: the connection manager finds the GID of the address (-b)")
	case given["policy"] && !o.cm:
		return nil, errors.New("-policy is the connection manager's, which needs -R")
	case given["policy"] && o.Host == "":
		return nil, errors.New("-policy is the client's, which needs HOST")
	case o.cm && o.Addr.IsValid() && o.Device != "":
		return nil, errors.New("give -b or -d, not both")
	}
	o.most = min(o.most, o.n, max(1, (64<<20)/o.size))
	return o, nil
}
