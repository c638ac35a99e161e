// Command rb-mckey joins a multicast group and sends messages to it or takes them
// from it, as rdma-core's mckey does; either may be the other's peer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
)

const usage = `usage: rb-mckey -m group [-b addr | -device name] [-c n] [-C n] [-S bytes]
       rb-mckey -m group -s [-o] [-b addr | -device name] [-c n] [-C n] [-S bytes]

Joins a multicast group and waits for -C messages to it, or with -s sends them.
Start the receivers first. The peers may be rdma-core's mckey; -S must be the same
at all. A datagram that is lost stays lost, and is an error after -timeout.

  -m GROUP      the group: an IPv4 multicast address, on InfiniBand also IPv6
  -s            send
  -o            join for sending only
  -b ADDR       bind this address first: the group is joined on its device.
                Otherwise the route to the group tells the device
  -c N          queue pairs, each a member of its own (default 1)
  -C N          messages (default 10)
  -S BYTES      of a message, at most the device's MTU (default 100)
  -pause D      send: wait before, until the network knows the group (default 3s,
                as mckey; RoCE needs none)
` + peer.Usage

type options struct {
	peer.Options
	group            netip.Addr
	sends, sendsOnly bool
	pause            time.Duration
}

func main() { program.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		return program.Explain(err, "rb-mckey", usage, stdout, stderr)
	}
	r := &peer.Traffic{Outcome: o.Outcome(), Size: o.Size}
	r.Role = "receiver"
	if o.sends {
		r.Role = "sender"
	}
	m := &members{options: o, r: r, stderr: stderr}
	r.Fail(m.run(ctx))
	peer.Print(o.Name, o.JSON, r, stdout, stderr)
	return peer.StatusOf(ctx, r.Err())
}

func parse(args []string) (*options, error) {
	o := &options{}
	var group string
	fs := o.Flags("rb-mckey")
	o.MessageFlags()
	fs.StringVar(&group, "m", "", "")
	fs.BoolVar(&o.sends, "s", false, "")
	fs.BoolVar(&o.sendsOnly, "o", false, "")
	fs.DurationVar(&o.pause, "pause", 3*time.Second, "")
	if err := o.Parse(args); err != nil {
		return nil, err
	}
	a, err := netip.ParseAddr(group)
	switch {
	case group == "":
		return nil, errors.New("-m: which group?")
	case err != nil || !a.IsMulticast():
		return nil, fmt.Errorf("-m %q is no multicast address", group)
	case o.sendsOnly && !o.sends:
		return nil, errors.New("-o is for one that sends (-s)")
	case o.pause < 0:
		return nil, fmt.Errorf("-pause %v: want 0 or more", o.pause)
	}
	o.group = a.Unmap()
	return o, nil
}
