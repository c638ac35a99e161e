//go:build linux

package cm

import (
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ci/churn"
	"github.com/railbind/railbind/ibv"
)

// TestPairChurn (case 53) makes and closes objects of the kernel, from several
// goroutines: memory, file descriptors and what the kernel holds stay what they
// were. `make churn N=1000000` is the long form.
func TestPairChurn(t *testing.T) {
	needTopo(t, "pair")
	ctx, err := ibv.Open(dev("rxe0"))
	require.NoError(t, err)
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	defer pd.Close()
	cq, err := ctx.CreateCQ(ibv.CQConfig{Size: 8})
	require.NoError(t, err)
	defer cq.Close()
	l := listen(t, home, ListenConfig{})
	ch, err := NewEventChannel()
	require.NoError(t, err)
	defer ch.Close()

	kinds := []churn.Kind{
		{Name: "PD", Make: func() (io.Closer, error) { return ctx.AllocPD() }},
		{Name: "channel", Make: func() (io.Closer, error) { return ctx.NewCompChannel() }},
		{Name: "CQ", Make: func() (io.Closer, error) { return ctx.CreateCQ(ibv.CQConfig{Size: 8}) }},
		{Name: "MR", Make: func() (io.Closer, error) { return pd.AllocMR(4096, ibv.LocalWrite) }},
		{Name: "MR of a slice", Make: func() (io.Closer, error) { return pd.Register(make([]byte, 64), ibv.LocalWrite) }},
		{Name: "QP", Make: func() (io.Closer, error) {
			return pd.CreateQP(ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 4, MaxRecv: 4})
		}},
		{Name: "SRQ", Make: func() (io.Closer, error) { return pd.CreateSRQ(ibv.SRQConfig{MaxRecv: 4}) }},
		{Name: "id", Make: func() (io.Closer, error) { return NewID(IDConfig{}) }},
		{Name: "id, bound", Make: func() (io.Closer, error) {
			id, err := NewID(IDConfig{Channel: ch})
			if err == nil {
				err = id.Bind(ap(home))
			}
			return id, err
		}},
		{Name: "event channel", Make: func() (io.Closer, error) { return NewEventChannel() }},
		{Name: "host", Make: func() (io.Closer, error) { return OpenHost() }},
	}
	if !iwarp() {
		row, err := ctx.FindGID(netip.MustParseAddr("10.1.0.1"))
		require.NoError(t, err)
		kinds = append(kinds,
			churn.Kind{Name: "AH", Make: func() (io.Closer, error) {
				return pd.CreateAH(ibv.AHAttr{Global: true, DGID: row.GID, SGIDIndex: row.Index, HopLimit: 1, Port: 1})
			}},
			churn.Kind{Name: "window", Make: func() (io.Closer, error) { return pd.AllocMW(ibv.MWType2) }})
	}
	var before map[string]int
	n := int(fromEnv("RAILBIND_CHURN_N", 4000))
	churn.Run(t, n, kinds, func() {
		if before == nil {
			before = holdings(t)
		}
		awaitHoldings(t, before)
	})
	// What takes long, less often.
	before = nil
	churn.Run(t, n/200, []churn.Kind{
		{Name: "device", Make: func() (io.Closer, error) { return ibv.Open(dev("rxe0")) }},
		{Name: "connection", Make: func() (io.Closer, error) { return newEnds(t, l) }},
	}, func() {
		if before == nil {
			before = holdings(t)
		}
		awaitHoldings(t, before)
	})
}

// ends are both ends of a connection.
type ends [2]*Conn

func newEnds(t *testing.T, l *Listener) (ends, error) {
	client, server := meet(t, l, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
	return ends{client, server}, nil
}

func (e ends) Close() error { return errors.Join(e[0].Close(), e[1].Close()) }
