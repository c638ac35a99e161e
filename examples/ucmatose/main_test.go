package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"-s 10.1.0.1:7471": `rb-ucmatose: -s "10.1.0.1:7471" takes no port: give it with -p`,
		"-server 10.1.0.1": `rb-ucmatose: unknown flag -server`,
		"-b rxe0":          `rb-ucmatose: -b "rxe0" is not an address; -device takes a name`,
	})
}

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "rb-ucmatose",
		"more", "-c 0", "-C -1", "-S -1", "-S ten", "-p 0 -s 10.0.0.2", "-p 65536", "-b eth0", "-b 10.0.0.1 -device rxe0",
		"-policy pin", "-s 10.0.0.2 -policy none", "-timeout 0s", "-a 32", "-t 256", "-c 1000 -C 1000 -S 10000", "-x")
	guest.WantHelp(t, run, usage)
}

func TestNoRDMA(t *testing.T)     { guest.WantNoRDMA(t, run, "", "-s 192.0.2.1", "-device eth0") }
func TestBareNoRDMA(t *testing.T) { guest.WantNoRDMA(t, run, "", "-s 192.0.2.1", "-device eth0") }

// Either role, with rdma-core's program and with itself.
func TestPairPeers(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for i, c := range []struct {
		server, client, addr, args string
		connections, count, size   int
	}{
		{"ours", "theirs", "10.1.0.1", "", 1, 10, 100},
		{"ours", "theirs", "fd01::1", "-c 3 -C 4 -S 9000 -m", 3, 4, 9000},
		{"theirs", "ours", "10.2.0.1", "", 1, 10, 100},
		{"theirs", "ours", "10.1.0.1", "-c 3 -C 4 -S 9000 -m -t 32 -a 15", 3, 4, 9000},
		{"theirs", "ours", "10.1.0.1", "-C 0", 1, 0, 100},
		{"ours", "ours", "10.2.0.1", "-c 8 -C 100 -S 1 -m", 8, 100, 1},
	} {
		t.Run(fmt.Sprintf("%s %s, %s %s", c.server, c.client, c.addr, c.args), func(t *testing.T) {
			start := func(who, args string) *guest.Process {
				args = fmt.Sprintf("%s -b %s -p %d %s", args, c.addr, 7500+i, c.args)
				if who == "ours" {
					return guest.Inside(t, run, args+" -json")
				}
				return guest.Theirs(t, "ucmatose", args)
			}
			srv := start(c.server, "")
			srv.Listens(t, fmt.Sprint(7500+i), false)
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
				require.Equal(t, c.connections, r.Connections)
				require.Equal(t, c.connections*c.count, r.Sent)
				require.Equal(t, c.connections*c.count, r.Received)
				// (A client cannot know what memory C's server has sent.)
				if c.server == "ours" {
					require.Equal(t, int64(c.connections*c.count*c.size), r.Bytes)
				}
			}
		})
	}
}

// A server that is killed ends the client, with a reason.
func TestPairKilledPeer(t *testing.T) {
	guest.NeedTopo(t, "pair")
	srv := guest.Ours(t, "-b 10.1.0.1 -c 2 -timeout 1h") // it waits for a second connection
	srv.Says("listening")
	cl := guest.Inside(t, run, "-s 10.1.0.1 -json -timeout 1h")
	srv.Says("connection from")
	srv.Signal(syscall.SIGKILL)
	cl.WantStatus(peer.Failed)
	r := guest.Result[peer.Traffic](t, cl)
	require.True(t, r.Connected)
	require.Equal(t, "ECONNRESET", r.Errno, r.Message)
}

// One that says nothing is given up.
func TestPairSilentPeer(t *testing.T) {
	guest.NeedTopo(t, "pair")
	srv := guest.Inside(t, run, "-b 10.1.0.1 -c 2 -timeout 1h -p 7499")
	srv.Says("listening")
	o, err := parse(strings.Fields("-s 10.1.0.1 -p 7499 -timeout 1m"))
	require.NoError(t, err)
	e := &end{options: o, r: &peer.Traffic{}}
	require.NoError(t, e.dial(t.Context()))
	e.Timeout = 100 * time.Millisecond
	err = e.ask(t.Context(), 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "message 1 of 10: no answer within 100ms")
	require.NoError(t, e.close())
}

func TestPairRefusals(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		args   string
		status int
		errno  string
	}{
		{"-s 10.1.0.1 -p 9", peer.Failed, "ECONNREFUSED"},
		{"-s 10.2.0.1 -b 10.1.0.1", peer.Refused, "EHOSTUNREACH"},
		{"-s 10.3.0.2 -device nosuch", peer.Refused, "ENODEV"},
		{"-b 10.3.0.1", peer.Refused, "ENODEV"},
	} {
		p := guest.Inside(t, run, c.args+" -json")
		p.WantStatus(c.status)
		require.Equal(t, c.errno, guest.Result[peer.Traffic](t, p).Errno, guest.Result[peer.Traffic](t, p).Message)
	}
	srv := guest.Ours(t, "")
	srv.Says("listening")
	srv.Signal(syscall.SIGINT)
	srv.WantStatus(peer.Interrupted)
}
