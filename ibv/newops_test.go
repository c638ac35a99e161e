//go:build linux && cgo

package ibv

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

// odd makes a queue pair of type t on a device that can do everything, posted to
// in either way.
func (b *bench) odd(t testing.TB, typ QPType, extended bool) *extendable {
	t.Helper()
	l := b.ctx.limits
	l.dev.CapFlags = capMemExtensions | capMemWindow2B | capXRC
	l.flags, l.tso, l.maxMTU = capAtomicWrite|capFlushGlobal, TSOCaps{1 << 18, 1<<UD | 1<<RawPacket}, 4096
	num := 50 + uint32(typ)
	if extended {
		num += 100
	}
	e := &extendable{fake: b.dev.NewQP(b.fscq, b.frcq, num, 16)}
	e.fake.SetType(uint32(typ))
	cfg := QPConfig{Type: typ, SendCQ: b.scq, RecvCQ: b.rcq, MaxSend: 16, MaxRecv: 16, ExtendedPost: extended}
	if typ == UD || typ == RawPacket {
		cfg.MaxTSOHeader = 60
	}
	if typ == XRCSend {
		cfg.RecvCQ = nil
	}
	if extended {
		e.ex = e.fake.Extend()
		cfg.fakeEx = e.ex.Handle()
	}
	var err error
	e.qp, err = NewQP(b.ctx, b.pd, cfg, func(_ cgo.PD, a *cgo.QPInitAttr) (cgo.QP, error) {
		require.Equal(t, uint16(cfg.MaxTSOHeader), a.TSOHeader)
		if extended && typ == RC {
			require.Equal(t, uint64(3<<11), a.SendOps>>11<<11, "FLUSH, ATOMIC WRITE")
		}
		return e.fake.Handle(), nil
	}, b.gone)
	require.NoError(t, err)
	e.qp.Track(QPRTS, 16, 16)
	t.Cleanup(func() {
		require.NoError(t, e.qp.Close())
		e.free()
	})
	return e
}

// TestFakeSegmentation: a TSO carries its header and its segments' size, by either
// way of posting, to where a datagram goes.
func TestFakeSegmentation(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 64<<10, LocalWrite)
	ah := newAH(f.pd, cgo.AH{}, "nowhere", f.gone)
	for _, extended := range []bool{false, true} {
		for _, typ := range []QPType{UD, RawPacket} {
			e := f.odd(t, typ, extended)
			b := sendBatch(t, e.qp, BatchConfig{Inline: 60})
			w := SendWR{Op: OpTSO, Header: []byte("Ethernet, IP and TCP"), MSS: 1460, SGEs: []SGE{m.SGE(0, 60000)}}
			if typ == UD {
				w.Dest = Dest{AH: ah, QPNum: 0x77, QKey: 5}
			}
			require.NoError(t, b.Set(0, w))
			require.NoError(t, second(b.Post()))
			wcs := drain(t, f.scq)
			require.Len(t, wcs, 1)
			require.NoError(t, wcs[0].Err())
			o := e.fake.Odd()
			require.Equal(t, "Ethernet, IP and TCP", string(o.Header))
			require.Equal(t, 1460, o.MSS)
			require.Equal(t, uint32(60000), e.fake.Request(false, 0).Length[0])
			require.NoError(t, e.qp.PostSend(w))
			drain(t, f.scq)

			for _, bad := range []struct {
				header, mss, size int
				err               error
			}{{0, 100, 8, ErrInlineTooLong}, {61, 100, 8, ErrInlineTooLong}, {20, 0, 8, ErrInvalid}, {20, 1 << 16, 8, ErrInvalid}} {
				require.ErrorIs(t, b.SendTSO(0, make([]byte, bad.header), bad.mss, m.SGE(0, bad.size)), bad.err)
				require.ErrorIs(t, second(b.Post()), ErrInvalid, "a request half set is none")
			}
			require.ErrorIs(t, b.SendInline(0, []byte("x")), ErrInlineTooLong, "the queue pair has no room for data inline")
			l := f.ctx.limits
			require.NoError(t, f.ctx.Can(typ, OpTSO))
			l.tso.MaxTSO = 0
			require.ErrorIs(t, f.ctx.Can(typ, OpTSO), errors.ErrUnsupported)
		}
	}
	require.NoError(t, ah.Close())
	_, err := NewQP(f.ctx, f.pd, QPConfig{SendCQ: f.scq, RecvCQ: f.rcq, MaxTSOHeader: 1 << 16}, nil, nil)
	require.ErrorIs(t, err, ErrInvalid)
	b := sendBatch(t, f.qp, BatchConfig{})
	require.ErrorIs(t, b.SendTSO(0, []byte("header"), 100), errors.ErrUnsupported, "RC")
}

// TestFakeOddRequests: what only few devices take arrives whole.
func TestFakeOddRequests(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 4096, LocalWrite|MWBind|RemoteWrite)
	rc := f.odd(t, RC, true)
	odd := func(e *extendable, w SendWR) fakeverbs.Odd {
		t.Helper()
		require.NoError(t, e.qp.PostSend(w))
		require.Len(t, drain(t, f.scq), 1)
		return e.fake.Odd()
	}
	require.NoError(t, f.ctx.Can(RC, OpAtomicWrite))
	o := odd(rc, SendWR{Op: OpAtomicWrite, Remote: Remote{Addr: 0x1000, RKey: 7}, Value: 1<<63 | 5})
	require.Equal(t, fakeverbs.Odd{Header: []byte{}, Word: 1<<63 | 5, Bind: [3]uint64{0x1000}, BindRKey: 7},
		fakeverbs.Odd{Header: []byte{}, Word: o.Word, Bind: o.Bind, BindRKey: o.BindRKey})
	err := rc.qp.PostSend(SendWR{Op: OpAtomicWrite, Remote: Remote{Addr: 0x1004}})
	require.ErrorIs(t, err, ErrInvalid, "not aligned")
	for _, c := range []struct {
		w    SendWR
		want [2]uint8
	}{
		{SendWR{Length: 64, Flush: FlushGlobal}, [2]uint8{1, 0}},
		{SendWR{Length: 1<<32 - 1, Flush: FlushPersistent}, [2]uint8{2, 0}},
		{SendWR{Flush: FlushGlobal | FlushPersistent}, [2]uint8{3, 1}}, // the whole region
	} {
		c.w.Op, c.w.Remote = OpFlush, Remote{Addr: 0x1001, RKey: 7}
		o := odd(rc, c.w)
		require.Equal(t, c.want, o.Flush)
		require.Equal(t, [3]uint64{0x1001, uint64(c.w.Length)}, o.Bind)
		require.Equal(t, uint32(7), o.BindRKey)
	}
	for want, bad := range map[error]SendWR{ErrInvalid: {Length: 1}, ErrTooLong: {Length: 1 << 32, Flush: FlushGlobal}} {
		bad.Op = OpFlush
		require.ErrorIs(t, rc.qp.PostSend(bad), want)
	}
	require.ErrorIs(t, rc.qp.PostSend(SendWR{Op: OpFlush, Flush: FlushGlobal | RemoteWrite}), ErrInvalid)
	require.ErrorIs(t, rc.qp.PostSend(SendWR{Op: OpFlush, Flush: FlushGlobal, Length: -1}), ErrInvalid)

	plain := f.odd(t, RC, false)
	for _, op := range []Opcode{OpAtomicWrite, OpFlush} {
		err = plain.qp.PostSend(SendWR{Op: op})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "ExtendedPost")
		require.ErrorIs(t, f.ctx.Can(UC, op), errors.ErrUnsupported)
	}
	rc.qp.Track(QPRTS, 0, 0)
	require.ErrorIs(t, rc.qp.PostSend(SendWR{Op: OpAtomicWrite}), ErrReadDepthZero)
	require.ErrorIs(t, rc.qp.PostSend(SendWR{Op: OpFlush, Flush: FlushGlobal}), ErrReadDepthZero)
	rc.qp.Track(QPRTS, 1, 1)

	raw := f.dev.NewMW(0x500)
	w := &MW{held: newHeld(newNode("window", nil, f.pd.node), f.pd), h: raw.Handle(), typ: MWType2, destroy: f.gone}
	t.Cleanup(func() { require.NoError(t, w.Close()); raw.Free() })
	o = odd(rc, SendWR{Op: OpBindMW, MW: w, Bind: Bind{MR: m, Offset: 64, Length: 128, Access: RemoteWrite, RKey: 0x501}})
	require.Equal(t, [3]uint64{m.Addr() + 64, 128, uint64(RemoteWrite)}, o.Bind)
	require.Equal(t, uint32(0x501), o.BindRKey)
	require.Equal(t, uint32(0x501), w.RKey())

	ah := newAH(f.pd, cgo.AH{}, "nowhere", f.gone)
	ud := f.odd(t, UD, true)
	o = odd(ud, SendWR{SGEs: []SGE{m.SGE(0, 8)}, Dest: Dest{AH: ah, QPNum: 0x77, QKey: 5}})
	require.Equal(t, [2]uint32{0x77, 5}, o.UD)
	require.NoError(t, ah.Close())

	x := f.odd(t, XRCSend, true)
	b := sendBatch(t, x.qp, BatchConfig{})
	require.NoError(t, b.Send(0, m.SGE(0, 8)))
	require.NoError(t, b.SetSRQ(0, 0x99))
	require.NoError(t, second(b.Post()))
	drain(t, f.scq)
	require.Equal(t, uint32(0x99), x.fake.Odd().SRQ)

	// No builder makes such a request: the post is given up before the device has it.
	b = sendBatch(t, rc.qp, BatchConfig{})
	require.NoError(t, b.Send(0, m.SGE(0, 8)))
	b.wrs[0].Opcode = 11
	n := rc.fake.Posted(false)
	require.ErrorIs(t, second(b.Post()), syscall.EINVAL)
	require.Equal(t, 1, rc.ex.Aborted())
	require.Equal(t, n, rc.fake.Posted(false))
}
