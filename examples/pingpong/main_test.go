package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"rc -policy pin":      `rb-pingpong: unknown flag -policy`,
		"rc -debug":           `rb-pingpong: unknown flag -debug`,
		"rc -device 10.1.0.1": `rb-pingpong: -device "10.1.0.1" is not a name; -b takes an address`,
	})
}

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, name, "", "xrc", "-s 10", "rc a b", "rc -i 0", "rc -p 0", "rc -p 65536", "rc -s 0", "rc -s 16777217", "rc -n 0",
		"rc -m 1000", "srq -q 0", "srq -q 256", "rc -l 16", "rc -timeout 0s", "rc -b eth0", "rc -x")
	guest.WantHelp(t, run, usage)
}

// The long flag that the guide gives for all peers of rdma-core's programs.
func TestDeviceFlag(t *testing.T) {
	for _, args := range []string{"rc -device rxe0", "rc -d rxe0", "rc -drxe0"} {
		o, err := parse(strings.Fields(args))
		require.NoError(t, err)
		require.Equal(t, "rxe0", o.Device)
	}
}

func TestNoRDMA(t *testing.T)     { guest.WantNoRDMA(t, run, "rc", "srq 192.0.2.1") }
func TestBareNoRDMA(t *testing.T) { guest.WantNoRDMA(t, run, "rc", "srq 192.0.2.1") }

// What the ends tell each other, as the C programs write it.
func TestDest(t *testing.T) {
	d := dest{lid: 0x12, qpn: 0x345, psn: 0x6789ab, gid: ibv.GID{10: 0xff, 11: 0xff, 12: 10, 13: 1, 15: 1}}
	const text = "0012:000345:6789ab:00000000000000000000ffff0a010001\x00"
	require.Len(t, text, destLen)
	require.Equal(t, text, string(d.encode()))
	got, err := decode([]byte(text))
	require.NoError(t, err)
	require.Equal(t, d, got)
	for _, bad := range []string{"", "\x00", text[1:], "GET / HTTP/1.1\r\n", strings.Replace(text, ":", ";", 1), "0012:1000000:0:" + text[19:], text[:40], "-012" + text[4:]} {
		_, err := decode([]byte(bad))
		if bad == text[1:] {
			require.NoError(t, err, "C reads any number of digits")
			continue
		}
		require.ErrorIs(t, err, peer.ErrProtocol, "%q", bad)
	}
}

// The exchange with ends that do it right, and with others.
func TestExchange(t *testing.T) {
	d := dest{qpn: 1, gid: ibv.GID{15: 1}}
	for _, c := range []struct {
		name, server, says string // what a server says, and what is said of it
	}{
		{"right", string(d.encode()), ""},
		{"no queue pair", string(dest{}.encode()), "it has 0 queue pairs, this end 1"},
		{"another protocol", strings.Repeat("HTTP/1.1", 10), "does not keep to the protocol"},
		{"half", string(d.encode()[:20]), "unexpected EOF"},
		{"silence", "-", "no answer within 100ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			o, err := parse([]string{"rc", "-timeout", "100ms", "host"})
			require.NoError(t, err)
			if c.says == "" {
				o.Timeout = guest.Patience
			}
			told := make(chan string, 2)
			go func() {
				b := make([]byte, destLen)
				_, _ = io.ReadFull(there, b)
				told <- string(b)
				if c.server == "-" {
					return
				}
				_, _ = io.WriteString(there, c.server)
				n := 0
				if c.says == "" {
					n, _ = there.Read(b)
				} else {
					there.Close()
				}
				told <- string(b[:n])
			}()
			l, err := newLine(here, o)
			require.NoError(t, err)
			var theirs []dest
			err = l.exchange([]dest{d}, func(all []dest) error { theirs = all; return nil })
			require.Equal(t, string(d.encode()), <-told)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []dest{d}, theirs)
			require.Equal(t, done, <-told)
		})
	}
}

// row is the row of a device's GID table that an IPv4 address has.
func row(t *testing.T, device, addr string) string {
	t.Helper()
	ctx, err := ibv.Open(device)
	require.NoError(t, err)
	defer ctx.Close()
	e, err := ctx.LookupGID(ibv.GIDQuery{GID: ibv.GIDOf(netip.MustParseAddr(addr))})
	require.NoError(t, err)
	return strconv.Itoa(e.Index)
}

// Either role, with rdma-core's programs and with itself.
func TestPairPeers(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for i, c := range []struct {
		kind, server, client, addr, device, args string
		size, rounds                             int
	}{
		{"rc", "ours", "theirs", "10.1.0.1", "rxe0", "", 4096, 50},
		{"rc", "theirs", "ours", "10.2.0.1", "rxe1", "-e", 9000, 20},
		{"uc", "ours", "theirs", "10.1.0.1", "rxe0", "", 100, 20},
		{"uc", "theirs", "ours", "10.1.0.1", "rxe0", "", 5000, 20},
		{"ud", "ours", "theirs", "10.1.0.1", "rxe0", "", 1000, 20},
		{"ud", "theirs", "ours", "10.2.0.1", "rxe1", "", 2048, 20},
		{"srq", "ours", "theirs", "10.1.0.1", "rxe0", "-q 4", 4096, 50},
		{"srq", "theirs", "ours", "10.1.0.1", "rxe0", "-q 16 -e", 100, 50},
		{"rc", "ours", "ours", "fd01::1", "rxe0", "-m 4096 -e", 1 << 20, 4},
		{"srq", "ours", "ours", "10.2.0.1", "rxe1", "-q 20", 1, 200},
		{"ud", "ours", "ours", "fd01::1", "rxe0", "", 1, 20},
	} {
		t.Run(fmt.Sprintf("%s: %s %s, %s %s", c.kind, c.server, c.client, c.addr, c.args), func(t *testing.T) {
			start := func(who, host string) *guest.Process {
				args := fmt.Sprintf("-p %d -s %d -n %d %s", 18515+i, c.size, c.rounds, c.args)
				if who == "ours" {
					return guest.Inside(t, run, fmt.Sprintf("%s %s -b %s -json %s", c.kind, args, c.addr, host))
				}
				return guest.Theirs(t, "ibv_"+c.kind+"_pingpong", fmt.Sprintf("%s -c -d %s -g %s %s", args, c.device, row(t, c.device, c.addr), host))
			}
			srv := start(c.server, "")
			srv.Listens(t, strconv.Itoa(18515+i), true)
			cl := start(c.client, c.addr)
			cl.WantStatus(0)
			srv.WantStatus(0)
			for who, p := range map[string]*guest.Process{c.server: srv, c.client: cl} {
				if who != "ours" {
					require.NotContains(t, p.Out.String(), "invalid data")
					continue
				}
				r := guest.Result[result](t, p)
				require.Equal(t, c.rounds, r.Rounds)
				require.Equal(t, c.device, r.Device)
				require.Equal(t, c.addr, r.Remote)
				// (What C's client sends is its own.)
				if c.client == "ours" {
					require.Equal(t, int64(c.rounds*c.size), r.Bytes)
				}
			}
		})
	}
}

// Without a name, it is the device of the address that TCP has.
func TestPairDeviceOfTCP(t *testing.T) {
	guest.NeedTopo(t, "pair")
	srv := guest.Inside(t, run, "rc -n 5")
	srv.Says("listening")
	cl := guest.Inside(t, run, "rc -n 5 -json 10.2.0.1")
	cl.WantStatus(0)
	require.Equal(t, "rxe1", guest.Result[result](t, cl).Device)
	srv.WantStatus(0)
	require.Contains(t, srv.Out.String(), "server: 5 rounds of 4096 bytes in ")
}

func TestPairRefusals(t *testing.T) {
	guest.NeedTopo(t, "pair")
	l, err := net.Listen("tcp", "10.1.0.1:18600")
	require.NoError(t, err)
	defer l.Close()
	for _, c := range []struct{ args, errno, message string }{
		{"rc -p 9", "ECONNREFUSED", ""},
		{"rc -p 18600 -d nosuch", "", "nosuch"},
		{"rc -p 18600 -d rxe1", "", "-b names the address to use on rxe1"},
		{"rc -p 18600 -b 10.3.0.1", "", "10.3.0.1"},
		{"rc -p 18600 -i 2", "EINVAL", "port"},
		{"rc -p 18600 -g 99999", "", "-g a row"},
		{"ud -p 18600 -s 5000", "", "at most 4096 bytes"},
	} {
		t.Run(c.args, func(t *testing.T) {
			p := guest.Inside(t, run, c.args+" -json 10.1.0.1")
			p.WantStatus(peer.Failed)
			r := guest.Result[result](t, p)
			require.Contains(t, r.Message, c.message)
			if c.errno != "" {
				require.Equal(t, c.errno, r.Errno, r.Message)
			}
			require.False(t, r.Connected)
		})
	}
}

// A peer that is killed ends the other end; one that waits can be interrupted.
func TestPairKilledPeer(t *testing.T) {
	guest.NeedTopo(t, "pair")
	srv := guest.Ours(t, "rc -b 10.1.0.1 -n 1000000000")
	srv.Says("listening")
	o, err := parse(strings.Fields("rc -n 1000000000 10.1.0.1"))
	require.NoError(t, err)
	end := &table{options: o}
	require.NoError(t, end.join(t.Context(), &result{}, io.Discard))
	srv.Signal(syscall.SIGKILL)
	srv.Status()
	end.Timeout = 100 * time.Millisecond
	require.ErrorContains(t, newGame(end).play(t.Context()), " of 1000000000 rounds: ")
	require.NoError(t, end.close())

	srv = guest.Ours(t, "rc")
	srv.Says("listening")
	srv.Signal(syscall.SIGINT)
	srv.WantStatus(peer.Interrupted)
}
