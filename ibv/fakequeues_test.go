//go:build linux && cgo

package ibv

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

// fakeSRQ makes an SRQ that is not a plain one, on the fake device.
func (b *bench) fakeSRQ(t testing.TB, cfg SRQConfig) *SRQ {
	t.Helper()
	cfg.MaxRecv, cfg.CQ = 8, b.rcq
	s, err := NewSRQ(b.ctx, b.pd, cfg, func(pd cgo.PD, a *cgo.SRQInitAttr) (cgo.SRQ, func() error, error) {
		h, err := pd.CreateSRQEx(a)
		return h, func() error { b.dev.DestroySRQ(h); return nil }, err
	})
	return autoClose(t, s, err)
}

// TestFakeTags: each change of a list of tagged receives arrives whole, and what
// a tagged receive names is held until the SRQ is closed.
func TestFakeTags(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := newMR(f.pd, make([]byte, 4096), LocalWrite, 7, 8, f.gone, nil)
	sees := newMR(f.pd, make([]byte, 64), 0, 9, 10, f.gone, nil)
	s := f.fakeSRQ(t, SRQConfig{MaxTags: 4, MaxTagOps: 2})
	typ, tags := f.dev.SRQType()
	require.Equal(t, [2]uint32{srqTM, 4}, [2]uint32{typ, tags})

	r := TagRecv{ID: 3, Tag: 0xabc, Mask: 0xfff, SGEs: []SGE{m.SGE(64, 128)}}
	h, err := s.AddTag(r, TagUpdate{ID: 1, Signaled: true, Unexpected: 5, Sync: true})
	require.NoError(t, err)
	opcode, op := f.dev.TagOp()
	require.Equal(t, 0, opcode)
	require.Equal(t, cgo.TagOp{ID: 1, Flags: cgo.TagSignaled | cgo.TagSync, Unexpected: 5, RecvID: 3, Tag: 0xabc, Mask: 0xfff,
		Handle: h, SGEs: []cgo.SGE{{Addr: m.Addr() + 64, Length: 128, LKey: 7}}}, op)
	require.Equal(t, uint64(2), s.rec.Left(), "its own completion, and the message's")
	require.ErrorIs(t, m.Close(), ErrBusy)

	require.NoError(t, s.DeleteTag(h, TagUpdate{ID: 2}))
	opcode, op = f.dev.TagOp()
	require.Equal(t, 1, opcode)
	require.Equal(t, h, op.Handle)
	require.NoError(t, s.SyncTags(TagUpdate{Unexpected: 6}))
	opcode, op = f.dev.TagOp()
	require.Equal(t, 2, opcode)
	require.Equal(t, uint32(6), op.Unexpected)

	for err, bad := range map[error]SGE{ErrOutOfRange: m.SGE(4000, 100), ErrAccess: sees.SGE(0, 8), ErrClosed: {}} {
		r.SGEs = []SGE{bad}
		require.ErrorIs(t, second(s.AddTag(r, TagUpdate{})), err)
	}
	f.dev.FailTagOps(syscall.ENOMEM)
	require.ErrorIs(t, s.DeleteTag(h, TagUpdate{Signaled: true}), syscall.ENOMEM)
	require.Equal(t, uint64(2), s.rec.Left())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.SyncTags(TagUpdate{}), ErrClosed)
	require.NoError(t, m.Close())
	require.NoError(t, sees.Close())
	require.Zero(t, f.dev.Alive())
}

// TestFakeXRC: a domain, and an SRQ of it by its number.
func TestFakeXRC(t *testing.T) {
	f := newBench(t, benchConfig{})
	require.Error(t, second(f.ctx.OpenXRCD(nil)), "the device says that it has no XRC")
	f.ctx.limits.dev.CapFlags = capXRC
	x, err := f.ctx.OpenXRCD(nil)
	require.NoError(t, err)
	s := f.fakeSRQ(t, SRQConfig{XRCD: x})
	typ, _ := f.dev.SRQType()
	require.Equal(t, uint32(srqXRC), typ)
	n, err := s.Number()
	require.NoError(t, err)
	require.Equal(t, uint32(0x99), n)
	require.ErrorIs(t, x.Close(), ErrBusy)
	require.ErrorIs(t, s.SyncTags(TagUpdate{}), ErrInvalid, "it matches no tags")
	require.NoError(t, s.Close())
	require.NoError(t, x.Close())
	require.Zero(t, f.dev.Alive())
}

// TestFakeTuning: moderation and rate arrive in their places.
func TestFakeTuning(t *testing.T) {
	f := newBench(t, benchConfig{})
	require.NoError(t, f.scq.Moderate(7, 9*time.Microsecond))
	count, period := f.dev.Moderation()
	require.Equal(t, [2]int{7, 9}, [2]int{count, period})
	require.ErrorIs(t, f.scq.Moderate(1<<16, 0), ErrInvalid)
	require.NoError(t, f.qp.SetRateLimit(RateLimit{Rate: 1000, Burst: 64, Packet: 32}))
	rate, burst, packet := f.dev.RateLimit()
	require.Equal(t, RateLimit{1000, 64, 32}, RateLimit{rate, burst, packet})
}

// TestFakeFlow: a flow arrives as it was described, and holds its counters.
func TestFakeFlow(t *testing.T) {
	f := newBench(t, benchConfig{})
	raw := f.odd(t, RawPacket, false)
	n, err := f.ctx.CreateCounters()
	require.NoError(t, err)
	require.NoError(t, n.Attach(CountBytes, 3))
	what, index := f.dev.Point()
	require.Equal(t, [2]uint32{uint32(CountBytes), 3}, [2]uint32{what, index})
	require.ErrorIs(t, n.Attach(CountBytes, -1), ErrInvalid)

	w, err := raw.qp.CreateFlow(FlowConfig{Priority: 2, Specs: []FlowSpec{
		FlowIPv4(netip.Prefix{}, netip.MustParsePrefix("10.1.0.0/16")), FlowUDP(0, 7471), FlowCount(n)}})
	require.NoError(t, err)
	d := f.dev.Flow()
	head := len(d) - 24 - 16 - 16
	require.Equal(t, uint16(len(d)), binary.NativeEndian.Uint16(d[8:]))
	require.Equal(t, []byte{2, 0, 3, 1}, d[10:14], "priority, specs, port")
	ip, udp := d[head:], d[head+24:]
	require.Equal(t, []byte{0, 0, 0, 0, 10, 1, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0}, ip[8:24])
	require.Equal(t, []byte{7471 >> 8, 7471 & 255}, udp[6:8])
	require.ErrorIs(t, n.Close(), ErrBusy)
	require.ErrorIs(t, second(f.qp.CreateFlow(FlowConfig{})), ErrInvalid, "of an RC queue pair")

	f.dev.SetCount(40)
	v := make([]uint64, 2)
	require.NoError(t, n.Read(v, false))
	require.Equal(t, []uint64{40, 41}, v)
	require.NoError(t, n.Read(v, true))
	require.Equal(t, uint64(1040), v[0])
	require.NoError(t, w.Close())
	require.NoError(t, n.Close())
	require.Zero(t, f.dev.Alive())
}

// TestFakeRSS: receive queues take receives, and a table of them is made.
func TestFakeRSS(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := newMR(f.pd, make([]byte, 4096), LocalWrite, 7, 8, f.gone, nil)
	var wqs []*WQ
	for range 4 {
		w, err := f.pd.CreateWQ(f.rcq, 16, 1)
		require.NoError(t, err)
		require.NoError(t, w.Modify(WQReady))
		wqs = append(wqs, w)
	}
	b, err := wqs[0].NewRecvBatch(BatchConfig{Requests: 3})
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, b.Recv(i, m.SGE(i*64, 64)))
	}
	require.NoError(t, second(b.Post()))
	state, recvs := f.dev.WQ()
	require.Equal(t, uint32(WQReady), state)
	require.Equal(t, 3, recvs)
	require.ErrorIs(t, m.Close(), ErrBusy)
	require.ErrorIs(t, second(f.ctx.CreateRSSTable(wqs[:3]...)), ErrInvalid)
	table, err := f.ctx.CreateRSSTable(wqs...)
	require.NoError(t, err)
	require.Equal(t, fakeverbs.Alive{WQs: 4, Tables: 1}, f.dev.Alive())
	require.ErrorIs(t, wqs[3].Close(), ErrBusy)
	require.NoError(t, table.Close())
	for _, w := range wqs {
		require.NoError(t, w.Close())
	}
	require.NoError(t, m.Close())
	require.Zero(t, f.dev.Alive())
}
