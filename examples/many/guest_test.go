package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/ibv"
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

// TestPairManyStuck: clients that send, and take no answers, do not keep the pool
// for themselves.
func TestPairManyStuck(t *testing.T) {
	guest.NeedTopo(t, "pair")
	const server = "10.1.0.1:7475"
	guest.Ours(t, "serve "+server).Says("listening")
	ctx, cancel := context.WithTimeout(t.Context(), guest.Patience)
	defer cancel()
	for range receives / answers {
		var sent *ibv.CQ
		c, err := (&cm.Dialer{Resources: silent(t, &sent)}).Dial(ctx, server)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		for range answers {
			require.NoError(t, c.QP().PostSend(ibv.SendWR{}))
		}
		var wcs [answers]ibv.WC
		for n := 0; n < answers; { // until the server has them
			k, err := sent.Wait(ctx, wcs[:])
			require.NoError(t, err)
			n += k
		}
	}
	guest.Inside(t, run, "-c 1 -n 3 dial 10.1.0.1 "+server).WantStatus(0)
}

// silent is for a connection that receives nothing.
func silent(t *testing.T, sent **ibv.CQ) func(*ibv.Context) (cm.Resources, error) {
	return func(ctx *ibv.Context) (cm.Resources, error) {
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		ch, err := ctx.NewCompChannel()
		require.NoError(t, err)
		cq, err := ctx.CreateCQ(ibv.CQConfig{Size: 2 * answers, Channel: ch})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, errors.Join(cq.Close(), ch.Close(), pd.Close())) })
		*sent = cq
		return cm.Resources{PD: pd, QP: ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: answers, MaxRecv: 1}}, nil
	}
}
