//go:build linux && cgo

package ibv

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSiwCan: what iWARP lacks is known beforehand, and the builders say the same.
func TestSiwCan(t *testing.T) {
	c := openSiw(t)
	pd, err := c.AllocPD()
	pd = autoClose(t, pd, err)
	cq, err := c.CreateCQ(CQConfig{})
	cq = autoClose(t, cq, err)
	mr, err := pd.AllocMR(4096, LocalWrite)
	mr = autoClose(t, mr, err)
	qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq})
	qp = autoClose(t, qp, err)
	for _, op := range []Opcode{OpSend, OpWrite, OpRead} {
		require.NoError(t, c.Can(RC, op), op)
	}
	for _, op := range []Opcode{OpSendImm, OpWriteImm, OpCompareSwap, OpFetchAdd, OpBindMW} {
		err := c.Can(0, op)
		require.ErrorIs(t, err, errors.ErrUnsupported, op)
		if op != OpBindMW {
			require.ErrorContains(t, err, "iWARP has no")
			require.ErrorIs(t, qp.PostSend(SendWR{Op: op, SGEs: []SGE{mr.SGE(0, 8)}}), errors.ErrUnsupported, op)
		}
	}
	for _, typ := range []QPType{UC, UD, XRCSend} {
		require.ErrorIs(t, c.Can(typ, OpSend), errors.ErrUnsupported, typ)
	}
	for _, typ := range []QPType{UC, UD} {
		_, err := pd.CreateQP(QPConfig{Type: typ, SendCQ: cq, RecvCQ: cq})
		require.Error(t, err, typ)
	}
	_, err = c.CreateCQ(CQConfig{Extended: true})
	require.ErrorIs(t, err, errors.ErrUnsupported)

	srq, err := pd.CreateSRQ(SRQConfig{MaxRecv: 8})
	srq = autoClose(t, srq, err)
	require.NoError(t, srq.PostRecv(RecvWR{SGEs: []SGE{mr.SGE(0, 8)}}))
	require.ErrorIs(t, mr.Close(), ErrBusy)
	require.NoError(t, srq.Close())
}
