//go:build linux && cgo

package ibv

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPairWindow2: a window of type 2 is bound, used, invalidated here, bound
// anew, and invalidated by the peer's SEND; then its key is worth nothing.
func TestPairWindow2(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxInline: 32, MaxSend: 16, MaxRecv: 16}})
	mr, err := a.pd.AllocMR(8192, LocalWrite|MWBind)
	mr = autoClose(t, mr, err)
	w, err := a.pd.AllocMW(MWType2)
	require.NoError(t, err)
	show := Bind{MR: mr, Offset: 4096, Length: 64, Access: RemoteWrite | RemoteRead}
	first := w.RKey()

	require.NoError(t, a.qp.PostSend(SendWR{ID: 1, Op: OpBindMW, MW: w, Bind: show}))
	require.Equal(t, NextRKey(first), w.RKey(), "as posted")
	require.ErrorIs(t, w.Close(), ErrBusy)
	require.ErrorIs(t, mr.Close(), ErrBusy)
	wc := waitOK(t, a.scq, 1)[0]
	require.Equal(t, WCBindMW, wc.Opcode())
	at := Remote{Addr: mr.Addr() + 4096, RKey: w.RKey()}
	require.NoError(t, b.qp.PostSend(SendWR{Op: OpWrite, Remote: at, Inline: []byte("through the window")}))
	waitOK(t, b.scq, 1)
	require.Equal(t, "through the window", string(mr.Bytes()[4096:4096+18]))

	require.NoError(t, a.qp.PostSend(SendWR{Op: OpLocalInv, RKey: w.RKey()}))
	wc = waitOK(t, a.scq, 1)[0]
	require.Equal(t, WCLocalInv, wc.Opcode())
	show.RKey = first&^0xff | 0x77
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpBindMW, MW: w, Bind: show}))
	waitOK(t, a.scq, 1)
	require.Equal(t, show.RKey, w.RKey())
	at.RKey = w.RKey()
	require.NoError(t, b.qp.PostSend(SendWR{Op: OpRead, Remote: at, SGEs: []SGE{b.mr.SGE(0, 18)}}))
	waitOK(t, b.scq, 1)
	require.Equal(t, "through the window", string(b.mr.Bytes()[:18]))

	require.NoError(t, a.qp.PostRecv(RecvWR{SGEs: []SGE{a.mr.SGE(0, 64)}}))
	require.NoError(t, b.qp.PostSend(SendWR{Op: OpSendInv, RKey: w.RKey(), Inline: []byte("done")}))
	waitOK(t, b.scq, 1)
	wc = waitOK(t, a.rcq, 1)[0]
	key, ok := wc.Invalidated()
	require.True(t, ok)
	require.Equal(t, w.RKey(), key)
	require.Equal(t, "done", string(a.mr.Bytes()[:4]))

	require.NoError(t, b.qp.PostSend(SendWR{Op: OpWrite, Remote: at, Inline: []byte("too late")}))
	require.ErrorIs(t, wait(t, b.scq, 1)[0].err(), WCRemAccessErr)
	require.NoError(t, w.Close())
}

func (w WC) err() error { return w.Err() }

// TestPairWindow1: a window of type 1 is bound by a call of the queue pair's.
func TestPairWindow1(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxInline: 32}})
	mr, err := a.pd.AllocMR(4096, LocalWrite|MWBind)
	mr = autoClose(t, mr, err)
	w, err := a.pd.AllocMW(MWType1)
	w = autoClose(t, w, err)
	for _, offset := range []int{0, 1024} {
		old := w.RKey()
		require.NoError(t, a.qp.BindMW(7, 0, w, Bind{MR: mr, Offset: offset, Length: 64, Access: RemoteWrite}))
		wc := waitOK(t, a.scq, 1)[0]
		require.Equal(t, uint64(7), wc.ID())
		require.Equal(t, WCBindMW, wc.Opcode())
		require.NotEqual(t, old, w.RKey())
		require.NoError(t, b.qp.PostSend(SendWR{Op: OpWrite, Inline: []byte("hello"),
			Remote: Remote{Addr: mr.Addr() + uint64(offset), RKey: w.RKey()}}))
		waitOK(t, b.scq, 1)
		require.Equal(t, "hello", string(mr.Bytes()[offset:offset+5]))
	}

	two, err := a.pd.AllocMW(MWType2)
	two = autoClose(t, two, err)
	require.ErrorIs(t, a.qp.BindMW(0, 0, two, Bind{MR: mr, Length: 8}), ErrInvalid)
	require.ErrorIs(t, a.qp.PostSend(SendWR{Op: OpBindMW, MW: w, Bind: Bind{MR: mr, Length: 8}}), ErrInvalid)
	require.ErrorIs(t, a.qp.PostSend(SendWR{Op: OpBindMW, MW: nil}), ErrClosed)
	require.ErrorIs(t, a.qp.PostSend(SendWR{Op: OpBindMW, MW: two, Bind: Bind{MR: mr, Length: 4097}}), ErrOutOfRange)
	require.ErrorIs(t, a.qp.PostSend(SendWR{Op: OpBindMW, MW: two, Bind: Bind{MR: a.mr, Length: 8}}), ErrAccess, "no MWBind")
	require.ErrorIs(t, a.qp.PostSend(SendWR{Op: OpBindMW, MW: two, Bind: Bind{Length: 8}}), ErrClosed)
}

// TestPairInline: every operation that carries inline data does, and not a byte
// more than was granted.
func TestPairInline(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{MaxInline: 64}})
	most := a.qp.Cap().MaxInline
	require.GreaterOrEqual(t, most, 64)
	data := make([]byte, most)
	fill(data, 9)
	for _, op := range []Opcode{OpSend, OpSendImm, OpWrite, OpWriteImm} {
		require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, most)}}))
		clear(b.mr.Bytes()[:most])
		require.NoError(t, a.qp.PostSend(SendWR{Op: op, Imm: 0xa0b0c0d0, Inline: data, Remote: b.mr.Remote(0)}), op)
		waitOK(t, a.scq, 1)
		if op != OpWrite {
			wc := waitOK(t, b.rcq, 1)[0]
			imm, ok := wc.Imm()
			require.Equal(t, op != OpSend, ok)
			if ok {
				require.Equal(t, uint32(0xa0b0c0d0), imm)
			}
		}
		requirePattern(t, b.mr.Bytes()[:most], 9)
		require.ErrorIs(t, a.qp.PostSend(SendWR{Op: op, Inline: make([]byte, most+1)}), ErrInlineTooLong)
	}
	require.ErrorIs(t, a.qp.PostSend(SendWR{Op: OpRead, Inline: data}), ErrInvalid)
	require.ErrorIs(t, a.qp.PostSend(SendWR{Inline: data, SGEs: []SGE{a.mr.SGE(0, 1)}}), ErrInvalid)
}

// TestPairUC: an unreliable connection sends and writes, and has no READ and no
// atomics, which is said beforehand; a message without a receive is lost.
func TestPairUC(t *testing.T) {
	a, b := newPair(t, endConfig{qp: QPConfig{Type: UC, MaxInline: 32}})
	require.Equal(t, UC, a.qp.Type())
	require.Contains(t, a.qp.node.name, "UC QP")
	require.NoError(t, a.qp.PostSend(SendWR{Inline: []byte("lost")}))
	waitOK(t, a.scq, 1)
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 4096)}}))
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpSendImm, Imm: 5, SGEs: []SGE{a.mr.SGE(0, 3000)}}))
	waitOK(t, a.scq, 1)
	require.Equal(t, 3000, waitOK(t, b.rcq, 1)[0].len())
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, Remote: b.mr.Remote(8000), Inline: []byte("written")}))
	waitOK(t, a.scq, 1)
	require.NoError(t, b.qp.PostRecv(RecvWR{}))
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpWriteImm, Imm: 6, Remote: b.mr.Remote(0), Inline: []byte("x")}))
	waitOK(t, a.scq, 1)
	waitOK(t, b.rcq, 1)
	require.Equal(t, "written", string(b.mr.Bytes()[8000:8007]))
	for _, op := range []Opcode{OpRead, OpCompareSwap, OpFetchAdd} {
		err := a.qp.PostSend(SendWR{Op: op, Remote: b.mr.Remote(0), SGEs: []SGE{a.mr.SGE(0, 8)}})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "UC has no")
	}
	attr, err := a.qp.Query()
	require.NoError(t, err)
	require.Equal(t, QPRTS, attr.State)
}
