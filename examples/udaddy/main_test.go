package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "rb-udaddy", "more", "-c 0", "-C -1", "-S -1", "-p 65536", "-b eth0", "-policy pin", "-s 10.0.0.2 -t 256", "-m")
	guest.WantHelp(t, run, usage)
}

func TestNoRDMA(t *testing.T)     { guest.WantNoRDMA(t, run, "", "-s 192.0.2.1", "-device eth0") }
func TestBareNoRDMA(t *testing.T) { guest.WantNoRDMA(t, run, "", "-s 192.0.2.1", "-device eth0") }

// Either role, with rdma-core's program and with itself. C's client sends memory
// as it is, and C's server sends the half of the message back.
func TestPairPeers(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		server, client, addr, args string
		connections, count, size   int
		verified                   int // bytes of a message, at the client
	}{
		{"ours", "theirs", "10.1.0.1", "", 1, 10, 100, 0},
		{"ours", "theirs", "fd01::1", "-c 3 -C 4 -S 1000", 3, 4, 1000, 0},
		{"theirs", "ours", "10.2.0.1", "", 1, 10, 100, 100 - ibv.GRHSize},
		{"theirs", "ours", "fd01::1", "-c 3 -C 4 -S 1000 -t 32", 3, 4, 1000, 1000 - ibv.GRHSize},
		{"ours", "ours", "10.2.0.1", "-c 4 -C 50 -S 20", 4, 50, 20, 20},
	} {
		t.Run(fmt.Sprintf("%s %s, %s %s", c.server, c.client, c.addr, c.args), func(t *testing.T) {
			start := func(who, args string) *guest.Process {
				args = fmt.Sprintf("%s -b %s %s", args, c.addr, c.args)
				if who == "ours" {
					return guest.Inside(t, run, args+" -json")
				}
				return guest.Theirs(t, "udaddy", args)
			}
			srv := start(c.server, "")
			srv.Listens(t, "7174", false)
			cl := start(c.client, "-s "+c.addr)
			cl.WantStatus(0)
			srv.WantStatus(0)
			for who, p := range map[string]*guest.Process{c.server: srv, c.client: cl} {
				if who != "ours" {
					require.Contains(t, p.Out.String(), "return status 0")
					continue
				}
				r := guest.Result[peer.Traffic](t, p)
				require.True(t, r.Connected)
				require.Equal(t, c.connections*c.count, r.Sent)
				require.Equal(t, c.connections*c.count, r.Received)
				require.Equal(t, int64(c.connections*c.count*c.verified), r.Bytes)
			}
		})
	}
}

func TestPairRefusals(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		args    string
		status  int
		errno   string
		message string
	}{
		{"-s 10.1.0.1 -p 9", peer.Failed, "ECONNREFUSED", "nobody listens"},
		{"-s 10.1.0.1 -S 5000", peer.Failed, "", "at most 4096 bytes"},
		{"-s 10.2.0.1 -b 10.1.0.1", peer.Refused, "EHOSTUNREACH", "ErrRouteMismatch"},
		{"-b 10.3.0.1", peer.Refused, "ENODEV", ""},
	} {
		p := guest.Inside(t, run, c.args+" -json")
		p.WantStatus(c.status)
		r := guest.Result[peer.Traffic](t, p)
		require.Equal(t, c.errno, r.Errno, r.Message)
		require.Contains(t, r.Message+r.Error, c.message)
	}
}

// A server that does not answer a message is given up.
func TestPairSilentPeer(t *testing.T) {
	guest.NeedTopo(t, "pair")
	srv := guest.Inside(t, run, "-b 10.1.0.1 -c 2 -timeout 1h") // it waits for a second client
	srv.Says("listening")
	o, err := parse(strings.Fields("-s 10.1.0.1"))
	require.NoError(t, err)
	e := &end{Options: o, r: &peer.Traffic{}}
	require.NoError(t, e.connect(t.Context()))
	err = peer.WithLimit(t.Context(), 100*time.Millisecond, func(ctx context.Context) error { return e.ask(ctx, e.nodes[0]) })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "0 of 10 messages")
	require.NoError(t, e.close())
}
