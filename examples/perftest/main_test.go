package main

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"send-lat -policy pin 10.1.0.1":     `rb-perftest: -policy is the connection manager's, which needs -R`,
		"send-lat -R -policy pin":           `rb-perftest: -policy is the client's, which needs HOST`,
		"send-lat -R -policy none 10.1.0.1": `rb-perftest: invalid value "none" for flag -policy: policy "none" is unknown; use auto, pin, route or follow`,
		"send-lat -policyx pin":             `rb-perftest: unknown flag -policyx`,
		"send-lat -bind 10.1.0.1":           `rb-perftest: unknown flag -bind`,
		"send-lat -device 10.1.0.1":         `rb-perftest: -device "10.1.0.1" is not a name; -b takes an address`,
		"send-lat 10.1.0.1:18515":           `rb-perftest: HOST "10.1.0.1:18515" takes no port: give it with -p`,
		"send-lat -b rxe0":                  `rb-perftest: -b "rxe0" is not an address; -device takes a name`,
	})
}

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, name, "", "send", "send-rate", "lat", "send-lat a b", "send-lat -i 0", "send-lat -s 0", "send-lat -s 16777217",
		"send-lat -n 0", "send-lat -t 2", "send-bw -t 0", "atomic-lat -s 16", "send-lat -m 1000", "send-lat -R -x 1",
		"send-lat -R -b 10.1.0.1 -d rxe0", "send-lat -timeout 0s", "send-lat -y")
	guest.WantHelp(t, run, usage)
}

func TestNoRDMA(t *testing.T)     { guest.WantNoRDMA(t, run, "send-lat", "read-bw -R 192.0.2.1") }
func TestBareNoRDMA(t *testing.T) { guest.WantNoRDMA(t, run, "send-lat", "read-bw -R 192.0.2.1") }

// The long flags that the guide gives for all peers of rdma-core's programs.
func TestLongFlags(t *testing.T) {
	o, err := parse(strings.Fields("send-lat -R -device rxe0 -policy pin -p18600 10.1.0.1"))
	require.NoError(t, err)
	require.Equal(t, "rxe0", o.Device)
	require.Equal(t, cm.PinBound, o.policy)
	require.Equal(t, uint16(18600), o.Port)
	d := (&end{options: o}).dialer()
	require.Equal(t, cm.PinBound, d.Policy)
	require.Equal(t, "rxe0", d.LocalDevice)
	o, err = parse(strings.Fields("send-lat -drxe0"))
	require.NoError(t, err)
	require.Equal(t, "rxe0", o.Device)
}

// The keys as perftest writes them, in both forms.
func TestKeys(t *testing.T) {
	k := keys{lid: 0x12, reads: 16, qpn: 0x345, psn: 0x6789ab, rkey: 0xcdef, addr: 0x7f0102030405, gid: ibv.GID{10: 0xff, 11: 0xff, 12: 10, 13: 1, 15: 1}}
	const text = "0012:0010:000345:6789ab:0000cdef:00007f0102030405:" +
		"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:01:00:01:00000000:\x00"
	require.Len(t, text, textGIDLen)
	require.Equal(t, text, string(k.text(true)))
	got, err := parseText([]byte(text))
	require.NoError(t, err)
	require.Equal(t, k, got)

	got, err = parseBinary(k.binary())
	require.NoError(t, err)
	require.Equal(t, k, got)
	require.Equal(t, "00000012"+"00000010"+"00000345"+"006789ab"+"0000cdef"+"00000000"+"00007f0102030405"+
		"00000000000000000000ffff0a010001"+"0000000000000000", hex.EncodeToString(k.binary()))

	k.gid = ibv.GID{}
	require.Len(t, k.text(false), textLen)
	got, err = parseText(k.text(false))
	require.NoError(t, err)
	require.Equal(t, k, got)

	for _, bad := range []string{"", "\x00", "HTTP/1.1 400 Bad Request", text[:40], strings.Replace(text, "ff", "fg", 1), "1" + text,
		strings.Replace(text, "0a:", "00a:", 1)} {
		_, err := parseText([]byte(bad))
		require.ErrorIs(t, err, peer.ErrProtocol, "%q", bad)
	}
	_, err = parseBinary(k.binary()[:40])
	require.ErrorIs(t, err, peer.ErrProtocol)
}

// What the peer says first is taken with care.
func TestAgree(t *testing.T) {
	for _, c := range []struct {
		says []string
		want agreement
		err  string
	}{
		{[]string{"6.06", "\x00\x01\x00\x00", "\x00\x00\x00\x80", "3\x00"}, agreement{65536, 128, ibv.MTU1024}, ""},
		{[]string{"5.70", "\x00\x00\x10\x00", "\x00\x00\x00\x40", "9\x00"}, agreement{4096, 64, ibv.MTU4096}, ""},
		{[]string{"5.33"}, agreement{}, "want perftest 5.70 or newer"},
		{[]string{"GET / HTTP/1.1"}, agreement{}, "want perftest 5.70 or newer"},
		{[]string{"6.06", "\xff\xff\xff\xff"}, agreement{}, "a buffer of"},
	} {
		a := agreement{cycle: 4096, line: 64, mtu: ibv.MTU4096}
		err := a.agree(func(ours []byte) ([]byte, error) {
			b := make([]byte, len(ours))
			copy(b, c.says[0])
			c.says = c.says[1:]
			return b, nil
		})
		if c.err != "" {
			require.ErrorIs(t, err, peer.ErrProtocol)
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, a)
	}
}

// glibc's first numbers after srand(1) are known: 1804289383, 846930886, ...
func TestCRand(t *testing.T) {
	require.Equal(t, []byte{1804289383 & 0xff, 846930886 & 0xff, 1681692777 & 0xff, 1714636915 & 0xff, 1957747793 & 0xff}, cRand(1, 5))
	require.Equal(t, cRand(1, 5), cRand(0, 5))
	require.NotEqual(t, cRand(1, 5), cRand(2, 5))
}

// Data that is known is held to; what is not known from the beginning is let be.
func TestContent(t *testing.T) {
	o, err := parse(strings.Fields("send-bw -s 100 -n 50"))
	require.NoError(t, err)
	e := &end{options: o, agreement: agreement{cycle: 4096, line: 64}}
	image := peer.Pattern(2 * e.span())
	require.NoError(t, e.there.take(e, e.at(0), image[e.at(0):][:100]))
	require.NoError(t, e.there.take(e, e.at(33), image[e.at(33):][:100]))
	require.Equal(t, int64(200), e.there.bytes)
	require.ErrorIs(t, e.there.take(e, e.at(1), image[e.at(2):][:100]), peer.ErrMismatch)

	var other content
	require.NoError(t, other.take(e, 0, []byte("something else")))
	require.NoError(t, other.take(e, 0, []byte("something new!")))
	require.Zero(t, other.bytes)
}

// row is the row of a device's GID table that an address has.
func row(t *testing.T, device, addr string) string {
	t.Helper()
	ctx, err := ibv.Open(device)
	require.NoError(t, err)
	defer ctx.Close()
	e, err := ctx.LookupGID(ibv.GIDQuery{GID: ibv.GIDOf(netip.MustParseAddr(addr))})
	require.NoError(t, err)
	return strconv.Itoa(e.Index)
}

// Each test in either role with perftest, with and without the connection manager.
func TestPairPerftest(t *testing.T) {
	guest.NeedTopo(t, "pair")
	const addr, device = "10.1.0.1", "rxe0"
	port := 18700
	for _, c := range []struct {
		test    string
		size, n int
	}{
		{"send-lat", 64, 20}, {"send-bw", 1000, 200}, {"write-lat", 64, 20}, {"write-bw", 1000, 50},
		{"read-lat", 64, 20}, {"read-bw", 5000, 50}, {"atomic-lat", 8, 20}, {"atomic-bw", 8, 100},
	} {
		for _, how := range []string{"", "-R"} {
			for _, who := range [][2]string{{"ours", "theirs"}, {"theirs", "ours"}} {
				port++
				t.Run(fmt.Sprintf("%s %s: %s %s", c.test, how, who[0], who[1]), func(t *testing.T) {
					start := func(who, host string) *guest.Process {
						args := fmt.Sprintf("-p %d -n %d %s", port, c.n, how)
						if !strings.HasPrefix(c.test, "atomic") {
							args += fmt.Sprintf(" -s %d", c.size)
						}
						if who == "ours" {
							return guest.Inside(t, run, fmt.Sprintf("%s %s -b %s -json %s", c.test, args, addr, host))
						}
						if how == "" {
							args += " -x " + row(t, device, addr)
						}
						return guest.Theirs(t, "ib_"+strings.ReplaceAll(c.test, "-", "_"), fmt.Sprintf("-F -d %s %s %s", device, args, host))
					}
					srv := start(who[0], "")
					srv.Listens(t, strconv.Itoa(port), how == "")
					cl := start(who[1], addr)
					for i, p := range []*guest.Process{srv, cl} {
						p.WantStatus(0)
						if who[i] != "ours" {
							continue
						}
						r, role := guest.Result[result](t, p), []string{"server", "client"}[i]
						require.Equal(t, role, r.Role)
						require.Equal(t, device, r.Device)
						require.Equal(t, c.n, r.Messages)
						require.Equal(t, verified(c.test, role, c.size, c.n), r.Bytes)
					}
				})
			}
		}
	}
}

// verified is how many bytes come to an end that it can know.
func verified(test, role string, size, n int) int64 {
	places := min(n, 4096/1024) // of 1000 bytes each, rounded up to cache lines
	switch {
	case test == "write-lat":
		size-- // the last one counts
	case test == "write-bw" && role == "server":
		n = places
	case test == "atomic-bw" && role == "server":
		n = 64
	case test == "atomic-lat" && role == "server":
		n = 1
	case strings.HasSuffix(test, "bw") && (role == "client") != (test == "read-bw" || test == "atomic-bw"), test == "read-lat" && role == "server":
		return 0
	}
	return int64(size * n)
}

// A server or client that does not run the same test, or as often, is told so.
func TestPairMismatch(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for i, c := range []struct{ server, client, says string }{
		{"write-bw -n 10", "write-bw -n 20", "the client has 20 messages"},
		{"send-bw -s 100 -n 10", "send-bw -s 90 -n 10", "-s must be the same at both ends"},
	} {
		port := fmt.Sprint(18800 + i)
		srv := guest.Inside(t, run, c.server+" -b 10.1.0.1 -json -p "+port)
		srv.Says("listening")
		cl := guest.Inside(t, run, c.client+" -b 10.1.0.1 -json -p "+port+" 10.1.0.1")
		srv.WantStatus(peer.Failed)
		require.Contains(t, guest.Result[result](t, srv).Message, c.says)
		cl.WantStatus(peer.Failed)
	}
}
