// Command rb-pingpong sends a message to and fro between queue pairs that it
// connects by hand, as rdma-core's ibv_rc_pingpong, ibv_uc_pingpong,
// ibv_ud_pingpong and ibv_srq_pingpong do; either end may be one of those.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
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
  -d NAME       use this RDMA device
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
	kind
	host     string // the server's; empty: this is it
	addr     netip.Addr
	device   string
	gidIndex int // -1: that of the address
	ibPort   uint8
	port     uint16
	rounds   int
	mtu      ibv.MTU
	qps      int
	sl       uint8
	events   bool
	timeout  time.Duration
	json     bool
}

const (
	maxSize = 1 << 24
	name    = "rb-pingpong"
)

var mtus = map[uint]ibv.MTU{256: ibv.MTU256, 512: ibv.MTU512, 1024: ibv.MTU1024, 2048: ibv.MTU2048, 4096: ibv.MTU4096}

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, name, usage, stdout, stderr)
	}
	r := &result{Outcome: peer.Outcome{Role: "client"}, Size: o.size}
	if o.host == "" {
		r.Role = "server"
	}
	r.Fail(play(ctx, o, r, stderr))
	peer.Print(name, o.json, r, stdout, stderr)
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
	var addr string
	var ibPort, port, mtu, sl uint
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&addr, "b", "", "")
	fs.StringVar(&o.device, "d", "", "")
	fs.IntVar(&o.gidIndex, "g", -1, "")
	fs.UintVar(&ibPort, "i", 1, "")
	fs.UintVar(&port, "p", 18515, "")
	fs.IntVar(&o.size, "s", o.size, "")
	fs.IntVar(&o.rounds, "n", 1000, "")
	fs.UintVar(&mtu, "m", 1024, "")
	fs.IntVar(&o.qps, "q", 16, "")
	fs.UintVar(&sl, "l", 0, "")
	fs.BoolVar(&o.events, "e", false, "")
	fs.DurationVar(&o.timeout, "timeout", 15*time.Second, "")
	fs.BoolVar(&o.json, "json", false, "")
	if err := fs.Parse(program.Split(fs, args)); err != nil {
		return nil, err
	}
	o.host, o.ibPort, o.port, o.sl, o.mtu = fs.Arg(0), uint8(ibPort), uint16(port), uint8(sl), mtus[mtu]
	switch {
	case o.typ == 0:
		return nil, errors.New("what with? rc, uc, ud or srq comes first")
	case fs.NArg() > 1:
		return nil, fmt.Errorf("unexpected %q", fs.Arg(1))
	case ibPort < 1 || ibPort > 255:
		return nil, fmt.Errorf("-i %d: want 1 to 255", ibPort)
	case port < 1 || port > 65535:
		return nil, fmt.Errorf("-p %d: want 1 to 65535", port)
	case o.size < 1 || o.size > maxSize:
		return nil, fmt.Errorf("-s %d: want 1 to %d", o.size, maxSize)
	case o.rounds < 1:
		return nil, fmt.Errorf("-n %d: want 1 or more", o.rounds)
	case o.mtu == 0:
		return nil, fmt.Errorf("-m %d: want 256, 512, 1024, 2048 or 4096", mtu)
	case o.qps < 1 || o.qps >= srqTold:
		return nil, fmt.Errorf("-q %d: want 1 to %d", o.qps, srqTold-1)
	case sl > 15:
		return nil, fmt.Errorf("-l %d: want 0 to 15", sl)
	case o.timeout <= 0:
		return nil, fmt.Errorf("-timeout %v: want more than 0", o.timeout)
	}
	if !o.shared {
		o.qps = 1
	}
	var err error
	if addr != "" {
		if o.addr, err = netip.ParseAddr(addr); err != nil {
			return nil, fmt.Errorf("-b %q is not an address", addr)
		}
	}
	return o, nil
}
