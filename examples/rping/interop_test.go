package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
)

// In the topology `pair` a device talks to itself: rxe0 has 10.1.0.1 and
// fd01::1, rxe1 has 10.2.0.1.
var pairRuns = []struct {
	addr, device, netdev string
	size, count          int
}{
	{"10.1.0.1", "rxe0", "a0", 32, 3},
	{"10.1.0.1", "rxe0", "a0", 64, 100},
	{"10.1.0.1", "rxe0", "a0", 65535, 5},
	{"fd01::1", "rxe0", "a0", 64, 10},
	{"fd01::1", "rxe0", "a0", 65535, 5},
	{"10.2.0.1", "rxe1", "b0", 1000, 10},
}

// cPort is a port that no C rping of this run had before.
var cPort = 7200

// cServer starts rdma-core's server and waits until it listens.
func cServer(t *testing.T, addr, args string) (*guest.Process, netip.AddrPort) {
	t.Helper()
	cPort++
	p := guest.Theirs(t, "rping", fmt.Sprintf("-s -a %s -p %d %s", addr, cPort, args))
	at := netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(cPort))
	p.Listens(t, strconv.Itoa(cPort), false)
	return p, at
}

// oneLine parses the JSON of one connection.
func oneLine(t *testing.T, s string) result {
	t.Helper()
	var r result
	require.NoError(t, json.Unmarshal([]byte(s), &r), "%q", s)
	return r
}

func TestPairClientWithC(t *testing.T) {
	guest.NeedTopo(t, "pair")
	runs := append(pairRuns[:len(pairRuns):len(pairRuns)], pairRuns[0])
	runs[len(runs)-1].size = 16 // C's own client does not go that low
	for _, c := range runs {
		t.Run(fmt.Sprintf("%s/%d bytes", c.addr, c.size), func(t *testing.T) {
			srv, at := cServer(t, c.addr, "-v -S 65535")
			cl := guest.Ours(t, fmt.Sprintf("-cvVC%d -a %s -I %s -p %d -S %d", c.count, c.addr, c.addr, at.Port(), c.size))
			cl.WantStatus(peer.OK)
			lines := pingLines("ping data: ", c.count, c.size)
			require.True(t, strings.HasPrefix(cl.Out.String(), lines))
			require.Contains(t, cl.Out.String()[len(lines):], fmt.Sprintf("client: %d of %d rounds, %d bytes verified, ", c.count, c.count, c.count*c.size))
			require.Contains(t, cl.Out.String(), fmt.Sprintf(" on %s (%s), policy pin", c.device, c.netdev))
			srv.WantStatus(0)
			require.Equal(t, pingLines("server ping data: ", c.count, c.size), srv.Out.String())
		})
	}
}

func TestPairServerWithC(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range pairRuns {
		t.Run(fmt.Sprintf("%s/%d bytes", c.addr, c.size), func(t *testing.T) {
			srv, at := server(t, c.addr, "-v")
			cl := guest.Theirs(t, "rping", fmt.Sprintf("-c -v -V -C %d -a %s -I %s -p %d -S %d", c.count, c.addr, c.addr, at.Port(), c.size))
			cl.WantStatus(0)
			require.Equal(t, pingLines("ping data: ", c.count, c.size), cl.Out.String())
			srv.WantStatus(peer.OK)
			lines := pingLines("server ping data: ", c.count, c.size)
			require.True(t, strings.HasPrefix(srv.Out.String(), lines))
			require.Contains(t, srv.Out.String()[len(lines):], fmt.Sprintf("server: %d rounds, %d bytes verified, ", c.count, c.count*c.size))
		})
	}
}

func TestPairWithItself(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		addr, device, netdev string
		size, count          int
	}{
		{"10.1.0.1", "rxe0", "a0", 16, 20},
		{"fd01::1", "rxe0", "a0", 65536, 20},
		{"10.2.0.1", "rxe1", "b0", 4096, 1},
	} {
		t.Run(fmt.Sprintf("%s/%d bytes", c.addr, c.size), func(t *testing.T) {
			srv, at := server(t, c.addr, "-json")
			cl := guest.Ours(t, fmt.Sprintf("-c -json -C %d -a %s -p %d -S %d", c.count, c.addr, at.Port(), c.size))
			cl.WantStatus(peer.OK)
			srv.WantStatus(peer.OK)
			for _, r := range []result{guest.Result[result](t, cl), guest.Result[result](t, srv)} {
				require.True(t, r.Connected)
				require.Equal(t, c.device, r.Device)
				require.Equal(t, c.netdev, r.Netdev)
				require.Equal(t, c.size, r.Size)
				require.Equal(t, c.count, r.Rounds)
				require.Equal(t, int64(c.count*c.size), r.Bytes)
				require.Empty(t, r.Message)
			}
		})
	}
}

// A device by its RDMA name and by its network device, on either side.
func TestPairDevice(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, device := range []string{"rxe1", "b0"} {
		srv := guest.Ours(t, "-s -p 0 -device "+device)
		srv.Says("listening on 10.2.0.1:")
		require.Contains(t, srv.Err.String(), "rxe1 (b0)")
		_, port, _ := strings.Cut(srv.Err.String(), "10.2.0.1:")
		port, _, _ = strings.Cut(port, ",")
		cl := guest.Ours(t, "-c -json -C 2 -a 10.2.0.1 -device "+device+" -p "+port)
		cl.WantStatus(peer.OK)
		r := guest.Result[result](t, cl)
		require.Equal(t, "rxe1", r.Device)
		require.True(t, strings.HasPrefix(r.Local, "10.2.0.1:"), r.Local)
		srv.WantStatus(peer.OK)
	}
}

// A persistent server serves many clients at once, of both kinds and families,
// and ends in order.
func TestPairPersistent(t *testing.T) {
	guest.NeedTopo(t, "pair")
	srv, at := server(t, "::", "-P -json")
	var clients []*guest.Process
	for i := range 3 {
		a := []string{"10.1.0.1", "fd01::1", "10.2.0.1"}[i%3]
		clients = append(clients,
			guest.Ours(t, fmt.Sprintf("-c -C 50 -S 500 -a %s -p %d", a, at.Port())),
			guest.Theirs(t, "rping", fmt.Sprintf("-c -V -C 50 -S 500 -a %s -p %d", a, at.Port())))
	}
	for _, c := range clients {
		c.WantStatus(0)
	}
	require.Eventually(t, func() bool { return strings.Count(srv.Out.String(), "\n") == len(clients) }, guest.Patience, 5*time.Millisecond)
	for line := range strings.Lines(srv.Out.String()) {
		r := oneLine(t, line)
		require.Equal(t, 50, r.Rounds, line)
		require.Empty(t, r.Message)
	}
	srv.Signal(syscall.SIGINT)
	srv.WantStatus(peer.OK)
}

func TestPairInterrupt(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		count, want int
		signal      syscall.Signal
	}{{0, peer.OK, syscall.SIGINT}, {1 << 30, peer.Interrupted, syscall.SIGINT}, {0, peer.OK, syscall.SIGTERM}} {
		srv, at := server(t, "10.1.0.1", "-json")
		cl := guest.Ours(t, fmt.Sprintf("-c -C %d -a 10.1.0.1 -p %d", c.count, at.Port()))
		cl.Says("established: ")
		cl.Says(" rounds") // progress
		cl.Signal(c.signal)
		cl.WantStatus(c.want)
		require.Contains(t, cl.Out.String(), " bytes verified, ", "the result so far is told")
		require.Contains(t, cl.Err.String(), "interrupted")
		srv.Status() // right or wrong: it depends on where in a round the client was
		r := guest.Result[result](t, srv)
		require.Positive(t, r.Rounds)
	}
	srv, _ := server(t, "10.1.0.1", "")
	srv.Signal(syscall.SIGINT)
	srv.WantStatus(peer.Interrupted)
}

// A peer that is killed ends the other side, within moments and with a reason.
func TestPairKilledPeer(t *testing.T) {
	guest.NeedTopo(t, "pair")
	t.Run("server", func(t *testing.T) {
		for _, kind := range []string{"ours", "theirs"} {
			var srv *guest.Process
			var at netip.AddrPort
			if kind == "ours" {
				srv, at = server(t, "10.1.0.1", "")
			} else {
				srv, at = cServer(t, "10.1.0.1", "")
			}
			cl := guest.Ours(t, fmt.Sprintf("-c -json -a 10.1.0.1 -p %d", at.Port()))
			cl.Says(" rounds")
			srv.Signal(syscall.SIGKILL)
			cl.WantStatus(peer.Failed)
			r := guest.Result[result](t, cl)
			require.Positive(t, r.Rounds)
			require.Equal(t, "ECONNRESET", r.Errno, r.Message)
			require.Contains(t, r.Message, "10.1.0.1")
		}
	})
	t.Run("client", func(t *testing.T) {
		srv, at := server(t, "10.1.0.1", "-P -json")
		to := fmt.Sprintf("-c -a 10.1.0.1 -p %d", at.Port())
		for i, start := range []func() *guest.Process{
			func() *guest.Process { return guest.Ours(t, to) },
			func() *guest.Process { return guest.Theirs(t, "rping", to) },
		} {
			cl := start()
			srv.SaysTimes("established: ", i+1)
			cl.Signal(syscall.SIGKILL)
		}
		require.Eventually(t, func() bool { return strings.Count(srv.Out.String(), "\n") == 2 }, guest.Patience, 5*time.Millisecond)
		// And the server lives on.
		guest.Ours(t, fmt.Sprintf("-c -C 5 -a 10.1.0.1 -p %d", at.Port())).WantStatus(peer.OK)
	})
}

// A peer that stops, without ending, is given up after -timeout.
func TestPairStoppedPeer(t *testing.T) {
	guest.NeedTopo(t, "pair")
	srv, at := server(t, "10.1.0.1", "-timeout 1h")
	cl := guest.Ours(t, fmt.Sprintf("-c -json -timeout 5s -a 10.1.0.1 -p %d", at.Port()))
	cl.Says(" rounds")
	srv.Signal(syscall.SIGSTOP)
	cl.WantStatus(peer.Failed)
	r := guest.Result[result](t, cl)
	require.Positive(t, r.Rounds)
	require.Contains(t, r.Message, "no answer within 5s")
	srv.Signal(syscall.SIGCONT)
}

// What the rule or the peer refuses, with its exit status and its reason.
func TestPairRefusals(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		args         string
		status       int
		error, errno string
	}{
		{"-I 10.1.0.1 -a 10.2.0.1", peer.Refused, "ErrRouteMismatch", "EHOSTUNREACH"},
		{"-I fd01::1 -a fd02::2", peer.Refused, "ErrRouteMismatch", "EHOSTUNREACH"},
		{"-I 10.1.0.1 -policy route -a 10.2.0.2", peer.Refused, "ErrRouteMismatch", "EHOSTUNREACH"},
		{"-I 10.1.0.1 -a 127.0.0.1", peer.Refused, "ErrLoopbackDst", "EADDRNOTAVAIL"},
		{"-I 10.3.0.1 -a 10.3.0.2", peer.Refused, "ErrNotRDMA", "ENODEV"},
		{"-I 10.99.0.1 -a 10.1.0.2", peer.Refused, "ErrNotLocal", "EADDRNOTAVAIL"},
		{"-I 10.1.0.1 -a fd01::1", peer.Refused, "ErrFamilyMismatch", "EAFNOSUPPORT"},
		{"-I 10.1.0.1 -policy follow -a 10.1.0.2", peer.Refused, "ErrSourceConflict", "EINVAL"},
		{"-policy pin -a 10.1.0.2", peer.Refused, "ErrNotBound", "EINVAL"},
		{"-device c0 -a 10.3.0.2", peer.Refused, "ErrNotRDMA", "ENODEV"},
		{"-device nosuch -a 10.1.0.2", peer.Refused, "ErrNotRDMA", "ENODEV"},
		{"-I 10.1.0.1 -a 10.1.0.1 -p 9", peer.Failed, "", "ECONNREFUSED"},
		{"-I 10.1.0.1 -a 10.1.0.77 -timeout 500ms", peer.Failed, "", "ETIMEDOUT"},
	} {
		t.Run(c.args, func(t *testing.T) {
			p := guest.Ours(t, "-c -json -C 1 "+c.args)
			p.WantStatus(c.status)
			r := guest.Result[result](t, p)
			require.Equal(t, c.error, r.Error, r.Message)
			require.Equal(t, c.errno, r.Errno, r.Message)
			require.False(t, r.Connected)
			require.NotEmpty(t, r.Message)
		})
	}
	for args, want := range map[string]string{
		"-s -a 10.3.0.1": "ErrNotRDMA", "-s -a 10.99.0.1": "ErrNotLocal", "-s -device c0": "ErrNotRDMA", "-s -a fe80::1": "ErrScope",
	} {
		p := guest.Ours(t, args+" -json")
		p.WantStatus(peer.Refused)
		require.Equal(t, want, guest.Result[result](t, p).Error)
	}
}
