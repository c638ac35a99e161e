// Command rb-pingpong sends a message to and fro between queue pairs that it
// connects by hand, as rdma-core's ibv_rc_pingpong, ibv_uc_pingpong,
// ibv_ud_pingpong and ibv_srq_pingpong do; either end may be one of those.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
	"github.com/railbind/railbind/ibv"
)

const usage = `usage: rb-pingpong rc|uc|ud|srq [flags]         the server
       rb-pingpong rc|uc|ud|srq [flags] HOST    the client, which begins

Sends a message to and fro, and checks it. The ends tell each other their queue
pairs over TCP, without the connection manager. The peer may be rdma-core's
ibv_KIND_pingpong; -s, -n, -m and -q must be the same at both ends, and a C program
needs its GID's index (-g).

  rc            reliable connection
  uc            connection; what is lost is an error after -timeout
  ud            datagrams; the same
  srq           reliable connections (-q) with one shared receive queue

  -b ADDR       use the device, and the GID, that has this address
                (default: the address that the TCP connection has at this end)
  -d, -device NAME
                use this RDMA device
  -g INDEX      use this row of its GID table, instead of that of the address
  -i PORT       use this port of it (default 1)
  -p PORT       of TCP (default 18515)
  -s BYTES      of a message (default 4096, ud 1024)
  -n N          rounds (default 1000)
  -m MTU        of the path: 256 to 4096 bytes (default 1024; ud: the port's)
  -q N          srq: connections (default 16)
  -l SL         service level
  -e            sleep until something arrives, instead of looking for it first
  -timeout D    most time for each wait of the peer that is there (default 15s)
  -json         print the result as JSON

Exit status: 0 all went right; 1 the exchange or the data failed; 2 misuse; 3 no
RDMA here, or a device that cannot; 130 interrupted before the end.
`

// kind is what is played with.
type kind struct {
	typ    ibv.QPType
	shared bool // an SRQ has the receives
	told   int  // queue pairs that the ends tell each other
	head   int  // bytes before a message that arrives
	size   int
}

// A C program with an SRQ always tells of 256, those that it does not have as zeros.
const srqTold = 256

var kinds = map[string]kind{
	"rc":  {typ: ibv.RC, told: 1, size: 4096},
	"uc":  {typ: ibv.UC, told: 1, size: 4096},
	"ud":  {typ: ibv.UD, told: 1, size: 1024, head: ibv.GRHSize},
	"srq": {typ: ibv.RC, told: srqTold, size: 4096, shared: true},
}

type options struct {
	peer.ByHand
	kind
	rounds int
	qps    int
	sl     uint8
	events bool
}

const (
	maxSize = 1 << 24
	name    = "rb-pingpong"
)

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, name, usage, stdout, stderr)
	}
	r := &result{Outcome: peer.Outcome{Role: o.Role()}, Size: o.size}
	r.Fail(play(ctx, o, r, stderr))
	peer.Print(name, o.JSON, r, stdout, stderr)
	return peer.StatusOf(ctx, r.Err())
}

func parse(args []string) (*options, error) {
	o := &options{}
	if len(args) > 0 {
		var ok bool
		if o.kind, ok = kinds[args[0]]; ok {
			args = args[1:]
		}
	}
	var sl uint
	fs := o.Flags(name, "g", 1024, 15*time.Second)
	fs.IntVar(&o.size, "s", o.size, "")
	fs.IntVar(&o.rounds, "n", 1000, "")
	fs.IntVar(&o.qps, "q", 16, "")
	fs.UintVar(&sl, "l", 0, "")
	fs.BoolVar(&o.events, "e", false, "")
	if err := o.Parse(args); err != nil {
		return nil, err
	}
	o.sl = uint8(sl)
	switch {
	case o.typ == 0:
		return nil, errors.New("what with? rc, uc, ud or srq comes first")
	case o.size < 1 || o.size > maxSize:
		return nil, fmt.Errorf("-s %d: want 1 to %d", o.size, maxSize)
	case o.rounds < 1:
		return nil, fmt.Errorf("-n %d: want 1 or more", o.rounds)
	case o.qps < 1 || o.qps >= srqTold:
		return nil, fmt.Errorf("-q %d: want 1 to %d", o.qps, srqTold-1)
	case sl > 15:
		return nil, fmt.Errorf("-l %d: want 0 to 15", sl)
	}
	if !o.shared {
		o.qps = 1
	}
	return o, nil
}
