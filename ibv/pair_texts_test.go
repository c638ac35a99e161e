//go:build linux && cgo

package ibv

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// An empty row of the GID table is named, with what finds the right one.
func TestPairEmptyGIDRow(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	cfg := ConnectConfig{GIDIndex: 99, DestGID: GIDOf(addrOf("rxe0")), DestQPNum: e.qp.Num()}
	require.NoError(t, e.qp.ToInit(cfg))
	err := e.qp.Connect(cfg)
	require.ErrorIs(t, err, syscall.ENODATA)
	const says = "GIDIndex is 99, and port 1 of rxe0 has no GID in that row: FindGID gives the row of an address, GIDTable lists all"
	require.ErrorContains(t, err, says)

	_, err = e.pd.CreateAH(AHAttr{Port: 1, Global: true, DGID: cfg.DestGID, SGIDIndex: 99, HopLimit: 64})
	require.ErrorContains(t, err, says)
}

// What the peer's Access forbids is not the request's fault, and says so. (Soft-RoCE
// answers as to a malformed request.)
func TestPairAccessOfQueuePair(t *testing.T) {
	needRDMA(t)
	for name, send := range map[string]func(a, b *end) SendWR{
		"READ": func(a, b *end) SendWR { return SendWR{Op: OpRead, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}} },
		"WRITE": func(a, b *end) SendWR {
			return SendWR{Op: OpWrite, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newEnd(t, endConfig{}), newEnd(t, endConfig{})
			own, err := a.ctx.FindGID(addrOf("rxe0"))
			require.NoError(t, err)
			for _, s := range [][2]*end{{a, b}, {b, a}} {
				cfg := ConnectConfig{GIDIndex: own.Index, DestGID: GIDOf(addrOf("rxe0")), DestQPNum: s[1].qp.Num()}
				require.NoError(t, s[0].qp.ToInit(cfg))
				require.NoError(t, s[0].qp.Connect(cfg))
			}
			require.NoError(t, a.qp.PostSend(send(a, b)))
			err = waitErr(t, a.scq)
			require.ErrorIs(t, err, WCRemInvReqErr)
			require.ErrorContains(t, err, "or its queue pair's Access does not allow it (ConnectConfig.Access)")
		})
	}
}
