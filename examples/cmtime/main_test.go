package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "rb-cmtime", "more", "-c 0", "-c -1", "-p 65536", "-b eth0", "-policy pin", "-s 10.0.0.2 -t 256", "-C 1")
	guest.WantHelp(t, run, usage)
}

func TestNoRDMA(t *testing.T)     { guest.WantNoRDMA(t, run, "", "-s 192.0.2.1", "-device eth0") }
func TestBareNoRDMA(t *testing.T) { guest.WantNoRDMA(t, run, "", "-s 192.0.2.1", "-device eth0") }

func TestStep(t *testing.T) {
	ms := func(n ...int) (d []time.Duration) {
		for _, n := range n {
			d = append(d, time.Duration(n)*time.Millisecond)
		}
		return d
	}
	require.Equal(t, step{"x", 9000, 3000, 6000, 1000}, newStep("x", 9*time.Millisecond, ms(2, 6, 1)))
	require.Equal(t, step{"x", 9000, 0, 0, 0}, newStep("x", 9*time.Millisecond, nil))
}

// An end that does not go by turns is told from one that does.
func TestTurns(t *testing.T) {
	for says, want := range map[string]string{"\x0c": "", "\x0e": "it says 14 instead of 12", "": "EOF", "-": "no answer within 100ms"} {
		here, there := net.Pipe()
		turns, err := newTurns(t.Context(), here, 100*time.Millisecond, nil)
		require.NoError(t, err)
		go func() {
			b := make([]byte, 1)
			_, _ = there.Read(b)
			if says == "" {
				there.Close()
			} else if says != "-" {
				_, _ = there.Write([]byte(says))
			}
		}()
		if want == "" {
			turns.limit = guest.Patience
			require.NoError(t, turns.ask(t.Context(), connected))
		} else {
			require.ErrorContains(t, turns.ask(t.Context(), connected), want)
		}
		turns.close()
		there.Close()
	}
}

func names(steps []step) (all []string) {
	for _, s := range steps {
		all = append(all, s.Name)
	}
	return all
}

var unbound = strings.Split("create id,resolve address,resolve route,create queue pair,connect,full connect,disconnect,destroy", ",")
var bound = append([]string{"create id", "bind address"}, unbound[1:]...)

// Either role, with rdma-core's program and with itself, with and without turns
// (which the program of rdma-core 44 does not take).
func TestPairPeers(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for i, c := range []struct {
		server, client, addr, args string
		steps                      []string
	}{
		{"ours", "theirs", "10.1.0.1", "", nil},
		{"theirs", "ours", "fd01::1", "", bound},
		{"theirs", "ours", "10.1.0.1", "-policy follow", unbound},
		{"ours", "ours", "10.2.0.1", "-sync", bound},
	} {
		if guest.IWARP() && strings.Contains(c.args, "-sync") {
			continue // iWARP's listener has the TCP port
		}
		t.Run(fmt.Sprintf("%s %s, %s %s", c.server, c.client, c.addr, c.args), func(t *testing.T) {
			const n = 4
			bind := "-b " + c.addr
			start := func(who, args string) *guest.Process {
				if who == "ours" {
					return guest.Inside(t, run, fmt.Sprintf("-p %d -c %d %s -json", 7600+i, n, args))
				}
				return guest.Theirs(t, "cmtime", fmt.Sprintf("-p %d -c %d %s", 7600+i, n, args))
			}
			serverArgs, clientArgs := bind, fmt.Sprintf("-s %s %s", c.addr, c.args)
			if strings.Contains(c.args, "-sync") {
				serverArgs += " -sync"
			}
			if !strings.Contains(c.args, "follow") {
				clientArgs += " " + bind
			}
			srv := start(c.server, serverArgs)
			srv.Listens(t, fmt.Sprint(7600+i), strings.Contains(c.args, "-sync"))
			cl := start(c.client, clientArgs)
			cl.WantStatus(0)
			if c.client == "ours" {
				r := guest.Result[result](t, cl)
				require.True(t, r.Connected)
				require.Equal(t, n, r.Connections)
				require.Equal(t, c.steps, names(r.Steps))
				for _, s := range r.Steps {
					require.LessOrEqual(t, s.Min, s.Avg)
					require.LessOrEqual(t, s.Avg, s.Max)
					require.LessOrEqual(t, s.Max, s.Total)
				}
			} else {
				require.Contains(t, cl.Out.String(), "connect")
			}
			if c.server == "ours" { // C's serves for ever
				srv.WantStatus(0)
				r := guest.Result[result](t, srv)
				require.Equal(t, n, r.Connections)
				require.Equal(t, []string{"accept"}, names(r.Steps))
			}
		})
	}
}

func TestPairRefusals(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		args   string
		status int
		errno  string
	}{
		{"-s 10.1.0.1 -p 9 -c 1", peer.Failed, "ECONNREFUSED"},
		{"-s 10.1.0.1 -p 9 -c 1 -sync", peer.Failed, "ECONNREFUSED"},
		{"-s 10.2.0.1 -b 10.1.0.1 -c 2", peer.Refused, "EHOSTUNREACH"},
		{"-b 10.3.0.1", peer.Refused, "ENODEV"},
	} {
		p := guest.Inside(t, run, c.args+" -json")
		p.WantStatus(c.status)
		require.Equal(t, c.errno, guest.Result[result](t, p).Errno, guest.Result[result](t, p).Message)
	}
	// A server without -c has no other end.
	srv := guest.Ours(t, "-b 10.1.0.1")
	srv.Says("listening")
	cl := guest.Inside(t, run, "-s 10.1.0.1 -c 2")
	cl.WantStatus(peer.OK)
	require.Contains(t, cl.Out.String(), "client: 2 connections, 10.1.0.1:")
	srv.Signal(syscall.SIGINT)
	srv.WantStatus(peer.OK)
	// It may be interrupted before it knows of the second.
	require.Regexp(t, `server: [12] connections, 10\.1\.0\.1:`, srv.Out.String())
}
