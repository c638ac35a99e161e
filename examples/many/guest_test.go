package main

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/guest"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"serve 10.1.0.1":                   `rb-many: serve "10.1.0.1" is not ADDR:PORT or [ADDR]:PORT`,
		"serve :7474":                      `rb-many: serve ":7474" is not ADDR:PORT or [ADDR]:PORT`,
		"dial rxe0 10.1.0.1:7474":          `rb-many: LOCAL "rxe0" is not an address`,
		"dial -c 0 10.1.0.1 10.1.0.1:7474": `rb-many: -c 0: want 1 or more`,
		"dial 10.1.0.1 10.1.0.1:7474 -n 0": `rb-many: -n 0: want 1 or more`,
		"-c 1 serve 10.1.0.1:7474":         `rb-many: -c and -n are for dial`,
		"dial -policy pin":                 `rb-many: unknown flag -policy`,
		"bogus":                            `rb-many: want serve ADDR:PORT, or dial LOCAL HOST:PORT`,
	})
}

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, name, "", "serve", "serve nowhere", "dial 10.1.0.1", "dial nobody host:1", "-c 0 dial 10.1.0.1 host:1", "-n x serve 10.1.0.1:1")
	guest.WantHelp(t, run, usage)
}

// RAILBIND_CLIENTS says how many.
func TestPairManyClients(t *testing.T) {
	guest.NeedTopo(t, "pair")
	clients := "64"
	if n := os.Getenv("RAILBIND_CLIENTS"); n != "" {
		clients = n
	}
	const server = "10.1.0.1:7474"
	s := guest.Ours(t, "serve "+server)
	s.Says("listening")

	// One that takes no answers, and sends more than its share: it ends, and costs
	// the others nothing.
	c, err := (&cm.Dialer{LocalAddr: netip.MustParseAddrPort("10.1.0.1:0")}).Dial(t.Context(), server)
	require.NoError(t, err)
	for err == nil {
		err = c.Send(t.Context(), make([]byte, 10))
	}
	require.ErrorIs(t, err, cm.ErrDisconnected)
	require.NoError(t, c.Close())

	for range 2 { // the pool is whole after the first
		p := guest.Inside(t, run, "-c "+clients+" -n 20 dial 10.1.0.1 "+server)
		p.WantStatus(0)
		require.Contains(t, p.Out.String(), clients+" clients, ")
	}
}
