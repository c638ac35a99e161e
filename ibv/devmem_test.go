//go:build linux && cgo

package ibv

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

var (
	_ io.ReaderAt = (*DeviceMemory)(nil)
	_ io.WriterAt = (*DeviceMemory)(nil)
)

// newMemoryBench is a bench whose device has memory and domains of its own.
func newMemoryBench(t *testing.T) *bench {
	b := newBench(t, benchConfig{})
	b.dev.Attributes(0)
	b.ctx.fakeDereg, b.ctx.fakeDealloc = b.dev.Dereg, b.dev.DeallocPD
	return b
}

// TestFakeDeviceEx: each extended attribute arrives in its place.
func TestFakeDeviceEx(t *testing.T) {
	b := newMemoryBench(t)
	want := DeviceAttrEx{
		DeviceAttr:      DeviceAttr{MaxQP: 11, PhysPortCount: 2},
		ODP:             ODPCaps{General: ODPSupport, RC: 0x3f, UC: ODPSend | ODPRecv | ODPWrite, UD: ODPSend, XRC: ODPSRQRecv},
		TSO:             TSOCaps{MaxTSO: 1 << 18, QPTypes: 1 << RawPacket},
		RSS:             RSSCaps{QPTypes: 1 << RawPacket, MaxTables: 21, MaxTableSize: 22, HashFields: 0x80000003, HashFunctions: 1},
		PacketPacing:    PacketPacingCaps{Min: 24, Max: 25, QPTypes: 1 << RC},
		TagMatching:     TagMatchingCaps{MaxRendezvousHeader: 26, MaxTags: 27, Flags: 1, MaxOps: 28, MaxSGE: 29},
		CQModeration:    CQModerationCaps{MaxCount: 30, MaxPeriod: 31 * time.Microsecond},
		PCIAtomics:      PCIAtomicCaps{FetchAdd: 1, Swap: 2, CompareSwap: 3},
		RawPacketCaps:   1 << 2,
		CapFlagsEx:      1 << 34,
		MaxWQ:           23,
		MaxDMSize:       1 << 16,
		PhysPortCountEx: 300,
		TimestampMask:   1<<48 - 1,
		CoreClockKHz:    156250,
	}
	got, err := b.ctx.QueryDeviceEx()
	require.NoError(t, err)
	require.Equal(t, want, got)

	// A provider of before device memory leaves the rest alone.
	b.dev.Attributes(fakeverbs.AttrSizeBefore)
	want.MaxDMSize, want.PCIAtomics, want.ODP.XRC, want.PhysPortCountEx = 0, PCIAtomicCaps{}, 0, 0
	got, err = b.ctx.QueryDeviceEx()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestFakeClock: the device's clock is in ticks; a device that has none says so.
func TestFakeClock(t *testing.T) {
	b := newMemoryBench(t)
	_, err := b.ctx.Clock()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	b.dev.SetClock(5_000_000_007)
	now, err := b.ctx.Clock()
	require.NoError(t, err)
	require.Equal(t, uint64(5_000_000_007), now)
}

// TestFakeDeviceMemory: memory of the device is written, read, registered, and
// given back in order.
func TestFakeDeviceMemory(t *testing.T) {
	b := newMemoryBench(t)
	d, err := b.ctx.AllocDM(4096, 64)
	require.NoError(t, err)
	require.Equal(t, 4096, d.Len())
	require.Equal(t, 6, b.dev.DMAlign())
	h, err := d.Handle()
	require.NoError(t, err)
	require.Equal(t, uint32(77), h)

	in, out := make([]byte, 100), make([]byte, 100)
	fill(in, 3)
	n, err := d.WriteAt(in, 3996)
	require.NoError(t, err)
	require.Equal(t, 100, n)
	_, err = d.ReadAt(out, 3996)
	require.NoError(t, err)
	require.Equal(t, in, out)
	n, err = d.ReadAt(nil, 4096)
	require.NoError(t, err)
	require.Zero(t, n)
	for _, off := range []int64{3997, 4097, -1, 1 << 62} {
		_, err = d.WriteAt(in, off)
		require.ErrorIs(t, err, ErrOutOfRange)
		_, err = d.ReadAt(out, off)
		require.ErrorIs(t, err, ErrOutOfRange)
	}

	m, err := b.pd.RegisterDM(d, 1024, 2048, RemoteWrite)
	require.NoError(t, err)
	require.Equal(t, RemoteWrite|LocalWrite|ZeroBased, m.Access())
	require.Equal(t, 2048, m.Len())
	require.Zero(t, m.Addr())
	require.Nil(t, m.Bytes())
	require.ErrorIs(t, d.Close(), ErrBusy)
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(1000, 1048)}}))
	require.ErrorIs(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(1000, 1049)}}), ErrOutOfRange)
	posted := b.fqp.Request(true, 0)
	require.Equal(t, uint64(1000), posted.Addr[0])
	require.Equal(t, m.LKey(), posted.LKey[0])
	require.ErrorIs(t, m.Close(), ErrBusy)
	b.fqp.Complete(true, 1, 0, 0, 8)
	require.Equal(t, 1, must(b.rcq.Poll(make([]WC, 1))))
	require.NoError(t, m.Close())
	require.Zero(t, b.dev.Regions())

	for _, c := range [][2]int{{0, 0}, {0, -1}, {-1, 1}, {4097, 1}, {1, 4096}} {
		require.ErrorIs(t, second(b.pd.RegisterDM(d, c[0], c[1], 0)), ErrOutOfRange, c)
	}
	// Here rdma-core 44; from 62 on the provider is asked, and the fake has none.
	require.Error(t, second(d.ExportDMABuf()))
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, second(d.WriteAt(in, 0)), ErrClosed)

	require.ErrorIs(t, second(b.ctx.AllocDM(0, 0)), ErrInvalid)
	require.ErrorIs(t, second(b.ctx.AllocDM(1, 48)), ErrInvalid)
	_, err = b.ctx.AllocDM(1<<16+1, 0)
	require.ErrorIs(t, err, ErrTooLong)
	require.ErrorContains(t, err, "65537 bytes, an allocation of this device has at most 65536")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestFakeNullMR: any piece of the null region can be named.
func TestFakeNullMR(t *testing.T) {
	b := newMemoryBench(t)
	m, err := b.pd.AllocNullMR()
	require.NoError(t, err)
	require.Nil(t, m.Bytes())
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(1<<40, 1<<19)}}))
	require.Equal(t, uint64(1<<40), b.fqp.Request(true, 0).Addr[0])
	require.NoError(t, b.qp.Close())
	require.NoError(t, m.Close())
	require.Zero(t, b.dev.Regions())
}

// TestFakeDomains: a parent domain is its domain with a thread domain, outlives
// neither, and goes with what its domain has.
func TestFakeDomains(t *testing.T) {
	b := newMemoryBench(t)
	td, err := b.ctx.AllocThreadDomain()
	require.NoError(t, err)
	p, err := b.pd.Parent(td)
	require.NoError(t, err)
	pd, of := b.dev.ParentOf(p.h)
	require.Equal(t, b.pd.h.Pointer(), pd)
	require.Equal(t, td.h.Pointer(), of)
	require.Equal(t, 2, b.dev.Domains())

	require.ErrorIs(t, td.Close(), ErrBusy)
	require.ErrorIs(t, b.pd.Close(), ErrBusy)
	// A region of the domain is used on a queue pair of the parent domain.
	m := b.mr(t, 64, LocalWrite)
	fake := b.dev.NewQP(b.fscq, b.frcq, 33, 16)
	defer fake.Free()
	qp, err := NewQP(b.ctx, p, QPConfig{SendCQ: b.scq, RecvCQ: b.rcq},
		func(pd cgo.PD, _ *cgo.QPInitAttr) (cgo.QP, error) {
			require.Equal(t, p.h, pd)
			return fake.Handle(), nil
		}, b.gone)
	require.NoError(t, err)
	qp.Track(QPRTS, 16, 16)
	require.NoError(t, qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(0, 64)}}))
	require.ErrorIs(t, m.Close(), ErrBusy)
	require.ErrorIs(t, p.Close(), ErrBusy)
	require.NoError(t, qp.Close())

	require.NoError(t, p.Close())
	require.NoError(t, td.Close())
	require.Zero(t, b.dev.Domains())
	plain, err := b.pd.Parent(nil)
	require.NoError(t, err)
	_, of = b.dev.ParentOf(plain.h)
	require.Equal(t, unsafe.Pointer(nil), of)
	require.NoError(t, plain.Close())
	require.ErrorIs(t, second(b.pd.Parent(td)), ErrClosed)
}

// TestFakeAdvise: advice names memory by the region's own addresses.
func TestFakeAdvise(t *testing.T) {
	b := newMemoryBench(t)
	m := b.mr(t, 8192, LocalWrite)
	require.NoError(t, b.pd.Advise(PrefetchWrite, true, m.SGE(0, 1), m.SGE(4096, 100)))
	require.Equal(t, fakeverbs.Advice{Advice: 1, Flags: 1, Ranges: 2,
		Last: cgo.SGE{Addr: m.Addr() + 4096, Length: 100, LKey: m.LKey()}}, b.dev.Advised())
	require.NoError(t, b.pd.Advise(PrefetchRead, false, m.SGE(0, 8192)))
	require.Zero(t, b.dev.Advised().Flags)
	require.ErrorIs(t, b.pd.Advise(PrefetchRead, false), ErrInvalid)
	require.ErrorIs(t, b.pd.Advise(PrefetchRead, false, SGE{}), ErrClosed)
	require.ErrorIs(t, b.pd.Advise(PrefetchRead, false, m.SGE(1, 8192)), ErrOutOfRange)
	require.ErrorIs(t, b.pd.Advise(PrefetchRead, false, m.SGE(-1, 1)), ErrOutOfRange)
	other := newPD(b.ctx, b.dev.PD(), b.gone)
	require.ErrorIs(t, other.Advise(PrefetchRead, false, m.SGE(0, 1)), ErrForeignPD)
	require.NoError(t, other.Close())
}

// TestDemand: on-demand paging is asked for only where the device has it.
func TestDemand(t *testing.T) {
	b := newMemoryBench(t)
	b.dev.SetODP(0)
	err := b.pd.demand("op", OnDemand, false)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, b.pd.demand("op", LocalWrite, false))
	b.dev.SetODP(1)
	require.NoError(t, b.pd.demand("op", OnDemand, false))
	require.ErrorIs(t, second(b.pd.RegisterImplicit(LocalWrite)), errors.ErrUnsupported)
	b.dev.SetODP(3)
	require.NoError(t, b.pd.demand("op", OnDemand, true))
}

// TestReregister: what becomes of a region, by what the provider says of it.
func TestReregister(t *testing.T) {
	b := newMemoryBench(t)
	var flags uint32
	var asked region
	answer := func(code int, err error) {
		b.ctx.fakeRereg = func(f uint32, r region) (uint32, uint32, int, error) {
			flags, asked = f, r
			return 0x51, 0x52, code, err
		}
	}
	freed := 0
	newMR := func() *MR {
		return newMR(b.pd, make([]byte, 64), LocalWrite, 1, 2, b.gone, func() error { freed++; return nil })
	}
	answer(0, nil)

	m := newMR()
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(0, 8)}}))
	require.ErrorIs(t, second(m.Reregister(Change{SetAccess: true})), ErrBusy)
	b.fqp.Complete(true, 1, 0, 0, 8)
	require.Equal(t, 1, must(b.rcq.Poll(make([]WC, 1))))
	require.ErrorIs(t, second(m.Reregister(Change{})), ErrInvalid)

	// Rights alone: the memory goes over.
	next, err := m.Reregister(Change{Access: RemoteWrite, SetAccess: true})
	require.NoError(t, err)
	require.Equal(t, uint32(reregAccess), flags)
	require.Equal(t, RemoteWrite|LocalWrite, next.Access())
	require.Equal(t, [2]uint32{0x51, 0x52}, [2]uint32{next.LKey(), next.RKey()})
	require.Equal(t, asked.mem, next.Bytes())
	require.Zero(t, freed)
	require.Nil(t, m.Bytes())
	require.ErrorIs(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(0, 8)}}), ErrClosed)
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{next.SGE(0, 8)}}))
	b.fqp.Complete(true, 1, 0, 0, 8)
	require.Equal(t, 1, must(b.rcq.Poll(make([]WC, 1))))
	require.ErrorIs(t, second(m.Reregister(Change{SetAccess: true})), ErrClosed)

	// Other memory: the old one is let go.
	buf, err := NewBuffer(100, BufferConfig{})
	require.NoError(t, err)
	m, err = next.Reregister(Change{Buffer: buf})
	require.NoError(t, err)
	require.Equal(t, uint32(reregMemory), flags)
	require.Equal(t, 1, freed)
	require.Equal(t, 100, m.Len())
	require.ErrorIs(t, buf.Close(), ErrBusy)
	// And back to a slice, in another domain.
	other := newPD(b.ctx, b.dev.PD(), b.gone)
	heap := make([]byte, 10)
	next, err = m.Reregister(Change{Bytes: heap, PD: other})
	require.NoError(t, err)
	require.Equal(t, uint32(reregMemory|reregPD), flags)
	require.NoError(t, buf.Close())
	require.ErrorIs(t, other.Close(), ErrBusy)
	require.ErrorIs(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{next.SGE(0, 8)}}), ErrForeignPD)

	// Failures: as it was; half done; gone.
	for _, code := range []int{reregInput, reregForkNew} {
		answer(code, syscall.EINVAL)
		require.ErrorIs(t, second(next.Reregister(Change{SetAccess: true})), syscall.EINVAL)
		require.NotNil(t, next.Bytes())
	}
	answer(-4, syscall.EOPNOTSUPP)
	require.ErrorIs(t, second(next.Reregister(Change{SetAccess: true})), errors.ErrUnsupported)
	require.NotNil(t, next.Bytes())
	answer(reregForkOld, syscall.ENOMEM)
	m, err = next.Reregister(Change{Access: RemoteRead, SetAccess: true})
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Equal(t, RemoteRead, m.Access())
	closed := b.closed
	answer(-4, syscall.EIO)
	require.ErrorIs(t, second(m.Reregister(Change{SetAccess: true})), syscall.EIO)
	require.Nil(t, m.Bytes())
	require.Equal(t, closed+1, b.closed)
	require.NoError(t, m.Close())
	require.NoError(t, other.Close())
}
