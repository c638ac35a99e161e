//go:build linux && cgo

package ibv

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// write writes the first n bytes of a's region to a place of b's.
func write(t *testing.T, a *end, from SGE, to Remote) WC {
	t.Helper()
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpWrite, SGEs: []SGE{from}, Remote: to}))
	return wait(t, a.scq, 1)[0]
}

// TestPairRegisterAt: the device and the peer know memory by other addresses than
// the process does, from 0 on or anywhere.
func TestPairRegisterAt(t *testing.T) {
	a, b := newPair(t, endConfig{})
	newBuf, err := NewBuffer(8192, BufferConfig{})
	buf := autoClose(t, newBuf, err)
	page := uint64(os.Getpagesize())
	for i, iova := range []uint64{0, page, 1 << 40} {
		for _, access := range []Access{RemoteWrite, RemoteWrite | RelaxedOrdering} {
			mr, err := b.pd.RegisterBufferAt(buf, iova, access)
			require.NoError(t, err)
			require.Equal(t, iova, mr.Addr())
			require.Equal(t, access|LocalWrite, mr.Access())
			fill(a.mr.Bytes()[:100], i)
			to, err := mr.RemoteBuffer(1000, 100)
			require.NoError(t, err)
			require.Equal(t, iova+1000, to.Addr)
			wc := write(t, a, a.mr.SGE(0, 100), Remote{to.Addr, to.RKey})
			require.NoError(t, wc.Err())
			requirePattern(t, buf.Bytes()[1000:1100], i)

			// As local memory it goes by the same addresses.
			require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{mr.SGE(4000, 100)}}))
			require.NoError(t, a.qp.PostSend(SendWR{Op: OpSend, SGEs: []SGE{a.mr.SGE(0, 100)}}))
			waitOK(t, a.scq, 1)
			waitOK(t, b.rcq, 1)
			requirePattern(t, buf.Bytes()[4000:4100], i)
			require.NoError(t, mr.Close())
		}
	}
	_, err = b.pd.RegisterBufferAt(buf, 12, LocalWrite)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "12 bytes into a page, the memory 0")
	_, err = b.pd.RegisterBufferAt(buf, -page, LocalWrite)
	require.ErrorIs(t, err, ErrInvalid)

	heap := make([]byte, 3*page)
	at := heap[page-uint64(uintptr(unsafe.Pointer(&heap[0])))%page:][:page]
	mr, err := b.pd.RegisterAt(at, 0, RemoteWrite)
	zero := autoClose(t, mr, err)
	fill(a.mr.Bytes()[:64], 9)
	wc := write(t, a, a.mr.SGE(0, 64), zero.Remote(0))
	require.NoError(t, wc.Err())
	requirePattern(t, at[:64], 9)
	wc = write(t, a, a.mr.SGE(0, 64), zero.Remote(int(page)-63))
	require.ErrorIs(t, wc.Err(), WCRemAccessErr)
}

// TestPairMemoryKinds: what no software device offers is unsupported, and says so.
func TestPairMemoryKinds(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	for name, call := range map[string]func() error{
		"null MR":       func() error { return second(e.pd.AllocNullMR()) },
		"device memory": func() error { return second(e.ctx.AllocDM(4096, 0)) },
		"thread domain": func() error { return second(e.ctx.AllocThreadDomain()) },
		"parent domain": func() error { return second(e.pd.Parent(nil)) },
		"dma-buf":       func() error { return second(e.pd.RegisterDMABuf(0, 0, 4096, 0, LocalWrite)) },
		"rereg":         func() error { return second(e.mr.Reregister(Change{Access: LocalWrite, SetAccess: true})) },
	} {
		require.ErrorIs(t, call(), errors.ErrUnsupported, name)
	}
	require.Len(t, e.mr.Bytes(), 64<<10, "what could not be changed is as it was")

}

// TestPairOnDemand: memory that is not pinned, and the whole address space, where
// the device can (rxe of kernels from 6.15 on); elsewhere it is unsupported.
func TestPairOnDemand(t *testing.T) {
	a, b := newPair(t, endConfig{})
	x, err := b.ctx.QueryDeviceEx()
	require.NoError(t, err)
	newBuf, err := NewBuffer(1<<20, BufferConfig{})
	buf := autoClose(t, newBuf, err)
	if x.ODP.General&ODPSupport == 0 {
		for name, call := range map[string]func() error{
			"on demand": func() error { return second(b.pd.RegisterBuffer(buf, LocalWrite|OnDemand)) },
			"implicit":  func() error { return second(b.pd.RegisterImplicit(LocalWrite)) },
			"huge":      func() error { return second(b.pd.RegisterBuffer(buf, HugeTLB)) },
			"advice":    func() error { return b.pd.Advise(PrefetchWrite, true, b.mr.SGE(0, 4096)) },
		} {
			require.ErrorIs(t, call(), errors.ErrUnsupported, name)
		}
		return
	}
	t.Logf("on-demand paging: %+v", x.ODP)
	mr, err := b.pd.RegisterBuffer(buf, LocalWrite|RemoteWrite|RemoteRead|OnDemand)
	odp := autoClose(t, mr, err)
	if err := b.pd.Advise(PrefetchWrite, true, odp.SGE(0, 1<<19)); err != nil {
		require.ErrorIs(t, err, errors.ErrUnsupported) // an old rdma-core
	}
	fill(a.mr.Bytes(), 4)
	for _, at := range []int{0, 1<<20 - a.mr.Len()} { // prefetched, and not
		wc := write(t, a, a.mr.SGE(0, a.mr.Len()), odp.Remote(at))
		require.NoError(t, wc.Err())
		requirePattern(t, buf.Bytes()[at:at+a.mr.Len()], 4)
	}

	if x.ODP.General&ODPImplicit == 0 {
		require.ErrorIs(t, second(b.pd.RegisterImplicit(LocalWrite)), errors.ErrUnsupported)
		return
	}
	all, err := b.pd.RegisterImplicit(LocalWrite)
	space := autoClose(t, all, err)
	require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{space.SGEOf(buf.Bytes()[7:107])}}))
	fill(a.mr.Bytes()[:100], 5)
	require.NoError(t, a.qp.PostSend(SendWR{Op: OpSend, SGEs: []SGE{a.mr.SGE(0, 100)}}))
	waitOK(t, a.scq, 1)
	waitOK(t, b.rcq, 1)
	requirePattern(t, buf.Bytes()[7:107], 5)
}

// TestPairWindowAlloc: memory windows of both types, as many as the device has.
func TestPairWindowAlloc(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	for _, typ := range []MWType{MWType1, MWType2} {
		w, err := e.pd.AllocMW(typ)
		require.NoError(t, err)
		require.Equal(t, typ, w.Type())
		require.NotZero(t, w.RKey())
		require.Equal(t, w.RKey()&^0xff, NextRKey(w.RKey())&^0xff)
		require.ErrorIs(t, e.pd.Close(), ErrBusy)
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
	}
	require.ErrorIs(t, second(e.pd.AllocMW(3)), ErrInvalid)
}

// TestPairMRLimit: more than the device's limit is named in the error.
func TestPairMRLimit(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	lim, err := e.ctx.known()
	require.NoError(t, err)
	lim.dev.MaxMRSize = 1 << 20
	_, err = e.pd.AllocMR(1<<20+1, LocalWrite)
	require.ErrorIs(t, err, ErrTooLong)
	require.ErrorContains(t, err, "1048577 bytes, a region of this device has at most 1048576")
	_, err = e.pd.AllocMR(1<<20, Access(1<<15))
	require.ErrorIs(t, err, syscall.EINVAL)
}
