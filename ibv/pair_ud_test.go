//go:build linux && cgo

package ibv

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const testQKey = 0x11111111

// newUD makes a UD end that is ready to send, and its address handle to the peer's device.
func newUD(t testing.TB, device, peer string) (*end, *AH) {
	t.Helper()
	e := newEnd(t, endConfig{device: device, qp: QPConfig{Type: UD, MaxSend: 16, MaxRecv: 16, MaxInline: 64}})
	require.NoError(t, e.qp.ToInit(ConnectConfig{QKey: testQKey}))
	require.NoError(t, e.qp.Connect(ConnectConfig{PSN: 7}))
	require.Equal(t, QPRTS, e.qp.State())
	own, err := e.ctx.FindGID(addrOf(device))
	require.NoError(t, err)
	ah, err := e.pd.CreateAH(AHAttr{Global: true, DGID: GIDOf(addrOf(peer)), SGIDIndex: own.Index, Port: 1, HopLimit: 64})
	return e, autoClose(t, ah, err)
}

// TestPairUD sends datagrams, answers the sender by what came with them, and
// keeps an address handle open while a request uses it.
func TestPairUD(t *testing.T) {
	needRDMA(t)
	a, ah := newUD(t, "rxe0", "rxe0")
	b, _ := newUD(t, "rxe0", "rxe0")
	to := Dest{AH: ah, QPNum: b.qp.Num(), QKey: testQKey}

	fill(a.mr.Bytes()[:1000], 3)
	require.NoError(t, b.qp.PostRecv(RecvWR{ID: 5, SGEs: []SGE{b.mr.SGE(0, GRHSize+1000)}}))
	require.NoError(t, b.qp.PostRecv(RecvWR{ID: 6, SGEs: []SGE{b.mr.SGE(4096, GRHSize+8)}}))
	require.NoError(t, a.qp.PostSend(SendWR{ID: 9, Op: OpSendImm, Imm: 0x01020304, Dest: to, SGEs: []SGE{a.mr.SGE(0, 1000)}}))
	require.NoError(t, a.qp.PostSend(SendWR{ID: 10, Inline: []byte("datagram"), Dest: to}))
	require.ErrorIs(t, ah.Close(), ErrBusy)
	waitOK(t, a.scq, 2)
	wcs := waitOK(t, b.rcq, 2)
	require.Equal(t, uint64(5), wcs[0].ID())
	require.Equal(t, GRHSize+1000, wcs[0].Len())
	require.Equal(t, a.qp.Num(), wcs[0].SrcQP())
	require.True(t, wcs[0].GRH())
	imm, ok := wcs[0].Imm()
	require.True(t, ok)
	require.Equal(t, uint32(0x01020304), imm)
	requirePattern(t, b.mr.Bytes()[GRHSize:GRHSize+1000], 3)
	require.Equal(t, "datagram", string(b.mr.Bytes()[4096+GRHSize:4096+GRHSize+8]))

	attr, err := b.ctx.AHAttrFromWC(wcs[0], b.mr.Bytes(), 1)
	require.NoError(t, err)
	require.Equal(t, GIDOf(addrOf("rxe0")), attr.DGID)
	require.True(t, attr.Global)
	for _, make := range []func() (*AH, error){
		func() (*AH, error) { return b.pd.CreateAHFromWC(wcs[0], b.mr.Bytes(), 1) },
		func() (*AH, error) { return b.pd.CreateAH(attr) },
	} {
		back, err := make()
		back = autoClose(t, back, err)
		require.NoError(t, a.qp.PostRecv(RecvWR{SGEs: []SGE{a.mr.SGE(8192, GRHSize+64)}}))
		require.NoError(t, b.qp.PostSend(SendWR{Inline: []byte("answer"), Dest: Dest{AH: back, QPNum: wcs[0].SrcQP(), QKey: testQKey}}))
		waitOK(t, b.scq, 1)
		require.Equal(t, GRHSize+6, waitOK(t, a.rcq, 1)[0].len())
		require.Equal(t, "answer", string(a.mr.Bytes()[8192+GRHSize:8192+GRHSize+6]))
	}

	got, err := b.qp.Query()
	require.NoError(t, err)
	require.Equal(t, uint32(testQKey), got.QKey)

	// A datagram with another key is dropped without a word.
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 2048)}}))
	wrong := to
	wrong.QKey++
	require.NoError(t, a.qp.PostSend(SendWR{Inline: []byte("lost"), Dest: wrong}))
	require.NoError(t, a.qp.PostSend(SendWR{Inline: []byte("found"), Dest: to}))
	waitOK(t, a.scq, 2)
	require.Equal(t, GRHSize+5, waitOK(t, b.rcq, 1)[0].len())

	require.NoError(t, ah.Close())
	require.ErrorIs(t, a.qp.PostSend(SendWR{Dest: to}), ErrClosed)
}

func (w WC) len() int { return w.Len() }

// TestPairUDRefusals: what a UD queue pair cannot do is said before the device is asked.
func TestPairUDRefusals(t *testing.T) {
	needRDMA(t)
	e, ah := newUD(t, "rxe0", "rxe0")
	to := Dest{AH: ah, QPNum: e.qp.Num(), QKey: testQKey}
	sge := []SGE{e.mr.SGE(0, 8)}
	for _, op := range []Opcode{OpWrite, OpWriteImm, OpRead, OpCompareSwap, OpFetchAdd} {
		require.ErrorIs(t, e.qp.PostSend(SendWR{Op: op, Dest: to, SGEs: sge}), errors.ErrUnsupported, op)
		require.ErrorIs(t, e.ctx.Can(UD, op), errors.ErrUnsupported, op)
		require.NoError(t, e.ctx.Can(RC, op))
	}
	require.NoError(t, e.ctx.Can(UD, OpSendImm))
	p, err := e.ctx.QueryPort(1)
	require.NoError(t, err)
	require.ErrorIs(t, e.qp.PostSend(SendWR{Dest: to, SGEs: []SGE{e.mr.SGE(0, p.ActiveMTU.Bytes()+1)}}), ErrTooLong)

	b, err := e.qp.NewSendBatch(BatchConfig{})
	require.NoError(t, err)
	require.NoError(t, b.Send(0, sge...))
	_, err = b.Post()
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "no destination")
	require.ErrorIs(t, b.SetDest(0, Dest{}), ErrClosed)
	require.ErrorIs(t, b.SetDest(0, Dest{AH: ah, QPNum: 1 << 24}), ErrInvalid)
	require.ErrorIs(t, b.SetDest(1, to), ErrInvalid)

	_, err = e.pd.CreateAH(AHAttr{Port: 1})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "no destination")
	_, err = e.pd.CreateAH(AHAttr{SGIDIndex: 256})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = e.ctx.AHAttrFromWC(WC{}, nil, 1)
	require.ErrorIs(t, err, ErrInvalid)

	rc := newEnd(t, endConfig{})
	b, err = rc.qp.NewSendBatch(BatchConfig{})
	require.NoError(t, err)
	require.ErrorIs(t, b.SetDest(0, to), ErrInvalid, "one destination")
	require.ErrorIs(t, rc.qp.AttachMulticast(GID{0xff}, 0), ErrInvalid)
	require.ErrorIs(t, e.qp.AttachMulticast(GID{1}, 0), ErrInvalid)
	own, err := rc.ctx.FindGID(addrOf("rxe0"))
	require.NoError(t, err)
	other, err := rc.pd.CreateAH(AHAttr{Global: true, DGID: GIDOf(addrOf("rxe0")), SGIDIndex: own.Index, Port: 1})
	other = autoClose(t, other, err)
	require.ErrorIs(t, e.qp.PostSend(SendWR{Dest: Dest{AH: other}}), ErrForeignPD)
}

// TestPairMulticast: a group can be attached to once and sent to. (Soft-RoCE does
// not loop groups back, so that what arrives is package cm's to test, on two hosts.)
func TestPairMulticast(t *testing.T) {
	needRDMA(t)
	a, _ := newUD(t, "rxe0", "rxe0")
	b, _ := newUD(t, "rxe0", "rxe0")
	group := GID{0xff, 0x0e, 15: 0x42}
	own, err := a.ctx.FindGID(addrOf("rxe0"))
	require.NoError(t, err)
	ah, err := a.pd.CreateAH(AHAttr{Global: true, DGID: group, SGIDIndex: own.Index, Port: 1, HopLimit: 1})
	ah = autoClose(t, ah, err)

	require.NoError(t, b.qp.AttachMulticast(group, 0))
	require.NoError(t, a.qp.PostSend(SendWR{Inline: []byte("to all"), Dest: Dest{AH: ah, QPNum: MulticastQPNum, QKey: testQKey}}))
	waitOK(t, a.scq, 1)
	require.NoError(t, b.qp.DetachMulticast(group, 0))
	require.Error(t, b.qp.DetachMulticast(group, 0))
}
