//go:build linux && cgo

package ibv

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests named TestPair... need RDMA: they run in the guest's topology "pair",
// with rxe0 on a0 (10.1.0.1) and rxe1 on b0 (10.2.0.1).

// needRDMA skips on a machine without RDMA, and fails in the guest, which has it.
func needRDMA(t testing.TB) {
	t.Helper()
	if os.Getenv("RAILBIND_GUEST") == "" {
		t.Skip("needs the guest: ci/guest -topo pair")
	}
	list, err := Devices()
	require.NoError(t, err)
	require.NotEmpty(t, list)
}

// autoClose closes an object when the test ends, in reverse order of creation.
func autoClose[T interface{ Close() error }](t testing.TB, v T, err error) T {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return v
}

// end is one queue pair on a real device, and everything it stands on.
type end struct {
	ctx *Context
	pd  *PD
	ch  *CompChannel
	scq *CQ
	rcq *CQ
	qp  *QP
	mr  *MR
}

type endConfig struct {
	device string // default rxe0
	qp     QPConfig
	cqSize int
	one    bool // one CQ for both queues
	mr     int  // default 64 KiB
}

const allAccess = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic

func newEnd(t testing.TB, cfg endConfig) *end {
	t.Helper()
	e := new(end)
	c, err := Open(or(cfg.device, "rxe0"))
	e.ctx = autoClose(t, c, err)
	pd, err := e.ctx.AllocPD()
	e.pd = autoClose(t, pd, err)
	ch, err := e.ctx.NewCompChannel()
	e.ch = autoClose(t, ch, err)
	cq, err := e.ctx.CreateCQ(CQConfig{Size: cfg.cqSize, Channel: e.ch})
	e.scq = autoClose(t, cq, err)
	e.rcq = e.scq
	if !cfg.one {
		cq, err = e.ctx.CreateCQ(CQConfig{Size: cfg.cqSize, Channel: e.ch})
		e.rcq = autoClose(t, cq, err)
	}
	mr, err := e.pd.AllocMR(or(cfg.mr, 64<<10), allAccess)
	e.mr = autoClose(t, mr, err)
	e.addQP(t, cfg.qp)
	return e
}

// addQP makes the end's queue pair; it is closed before the region.
func (e *end) addQP(t testing.TB, cfg QPConfig) {
	t.Helper()
	cfg.SendCQ, cfg.RecvCQ = e.scq, e.rcq
	qp, err := e.pd.CreateQP(cfg)
	e.qp = autoClose(t, qp, err)
}

// connect joins two ends by hand: the addresses travel within the process.
func connect(t testing.TB, a, b *end, cfg ConnectConfig) {
	t.Helper()
	connectWith(t, a, b, cfg, cfg)
}

// connectWith is connect where the ends are told different things.
func connectWith(t testing.TB, a, b *end, ofA, ofB ConnectConfig) {
	t.Helper()
	type side struct {
		self, peer *end
		ConnectConfig
	}
	sides := []side{{a, b, ofA}, {b, a, ofB}}
	if a == b {
		sides = sides[:1]
	}
	for _, c := range sides {
		own, err := c.self.ctx.FindGID(addrOf(c.self.ctx.Name()))
		require.NoError(t, err)
		c.Access, c.GIDIndex = allAccess, own.Index
		c.DestGID = GIDOf(addrOf(c.peer.ctx.Name()))
		c.DestQPNum, c.DestPSN, c.PSN = c.peer.qp.Num(), c.peer.qp.Num(), c.self.qp.Num()
		require.NoError(t, c.self.qp.ToInit(c.ConnectConfig))
		require.NoError(t, c.self.qp.Connect(c.ConnectConfig))
	}
}

func addrOf(device string) netip.Addr {
	if device == "rxe1" {
		return netip.MustParseAddr("10.2.0.1")
	}
	return netip.MustParseAddr("10.1.0.1")
}

func newPair(t testing.TB, cfg endConfig) (a, b *end) {
	t.Helper()
	needRDMA(t)
	a, b = newEnd(t, cfg), newEnd(t, cfg)
	connect(t, a, b, ConnectConfig{})
	return a, b
}

// wait takes n completions off a CQ.
func wait(t testing.TB, c *CQ, n int) []WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out := make([]WC, 0, n)
	for len(out) < n {
		wcs := make([]WC, n-len(out))
		k, err := c.Wait(ctx, wcs)
		require.NoError(t, err, "after %d of %d completions", len(out), n)
		out = append(out, wcs[:k]...)
	}
	return out
}

// waitOK is wait for successes only.
func waitOK(t testing.TB, c *CQ, n int) []WC {
	t.Helper()
	out := wait(t, c, n)
	for i := range out {
		require.NoError(t, out[i].Err())
	}
	return out
}

// fill writes a pattern that tells every byte's place, and a seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*13 + 1)
	}
}

func requirePattern(t testing.TB, b []byte, seed int) {
	t.Helper()
	want := make([]byte, len(b))
	fill(want, seed)
	if string(want) != string(b) {
		for i := range b {
			if b[i] != want[i] {
				require.Fail(t, "wrong data", "byte %d of %d is %#x, want %#x", i, len(b), b[i], want[i])
			}
		}
	}
}
