//go:build linux && cgo

package ibv

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

// newNewer is a bench where the functions that came after rdma-core 44 are all
// there, or none of them is.
func newNewer(t *testing.T, there bool) *bench {
	b := newBench(t, benchConfig{reset: true})
	b.dev.Attributes(0)
	b.ctx.fakeDereg = fakeverbs.DeregNewer
	t.Cleanup(fakeverbs.Newer(there))
	return b
}

// TestNotThere: what this rdma-core lacks is unsupported, and says which has it.
func TestNotThere(t *testing.T) {
	b := newNewer(t, false)
	buf, err := NewBuffer(4096, BufferConfig{})
	autoClose(t, buf, err)
	n := &CompCounter{node: newNode("counter", nil, b.ctx.node), ctx: b.ctx}
	defer func() { require.NoError(t, n.node.close(func() error { return nil })) }()
	for text, call := range map[string]func() error{
		"ibv_query_comp_cntr_caps: needs rdma-core 65": func() error { return second(b.ctx.CompCounterCaps()) },
		"ibv_create_comp_cntr: needs rdma-core 65":     func() error { return second(b.ctx.CreateCompCounter(CountRequests)) },
		"ibv_destroy_comp_cntr: needs rdma-core 65":    n.Close,
		"ibv_set_comp_cntr: needs rdma-core 65":        func() error { return n.Set(1) },
		"ibv_set_err_comp_cntr: needs rdma-core 65":    func() error { return n.SetFailed(1) },
		"ibv_inc_comp_cntr: needs rdma-core 65":        func() error { return n.Add(1) },
		"ibv_inc_err_comp_cntr: needs rdma-core 65":    func() error { return n.AddFailed(1) },
		"ibv_read_comp_cntr: needs rdma-core 65":       func() error { _, _, err := n.Read(); return err },
		"ibv_qp_attach_comp_cntr: needs rdma-core 65":  func() error { return b.qp.AttachCompCounter(n, CompSend) },
		"ibv_alloc_dmah: needs rdma-core 59":           func() error { return second(b.ctx.AllocDMAHandle(DMAHandleConfig{})) },
		"ibv_reg_mr_ex: needs rdma-core 59":            func() error { return second(b.pd.RegisterBufferWith(buf, nil, LocalWrite)) },
		"ibv_alloc_buf: needs rdma-core 64":            func() error { return second(b.pd.AllocBuffer(4096)) },
	} {
		err := call()
		require.ErrorIs(t, err, errors.ErrUnsupported, text)
		require.ErrorIs(t, err, syscall.ENOSYS, text)
		require.ErrorContains(t, err, text+" or later")
	}
}

// TestFakeCompCounter: both counts are set, added to and read; a counter stays
// until its queue pairs are closed.
func TestFakeCompCounter(t *testing.T) {
	b := newNewer(t, true)
	caps, err := b.ctx.CompCounterCaps()
	require.NoError(t, err)
	require.Equal(t, CompCounterCaps{Max: 1 << 48, Counters: 7, Ops: 0x3f}, caps)
	require.Equal(t, "Send|Recv|Read|RemoteRead|Write|RemoteWrite", caps.Ops.String())
	n, err := b.ctx.CreateCompCounter(CountData)
	require.NoError(t, err)
	require.Equal(t, 1, fakeverbs.AskedNewer().Kind)
	for _, f := range []func(uint64) error{n.Set, n.SetFailed} {
		require.NoError(t, f(1000))
	}
	require.NoError(t, n.Add(20))
	require.NoError(t, n.AddFailed(3))
	ok, failed, err := n.Read()
	require.NoError(t, err)
	require.Equal(t, [2]uint64{1020, 1003}, [2]uint64{ok, failed})

	require.ErrorIs(t, b.qp.AttachCompCounter(n, 0), ErrInvalid)
	require.ErrorIs(t, b.qp.AttachCompCounter(nil, CompSend), ErrClosed)
	require.NoError(t, b.qp.AttachCompCounter(n, CompSend|CompRemoteWrite))
	require.Equal(t, uint32(0x21), fakeverbs.AskedNewer().Ops)
	require.Equal(t, b.qp.Num(), fakeverbs.AskedNewer().QP)
	require.NoError(t, b.qp.AttachCompCounter(n, CompRecv))
	err = b.qp.AttachCompCounter(n, CompRecv)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.ErrorContains(t, err, "Recv")
	other := newBench(t, benchConfig{reset: true})
	require.ErrorIs(t, other.qp.AttachCompCounter(n, CompSend), ErrForeignContext)
	b.qp.Track(QPRTR, 0, 0)
	require.ErrorIs(t, b.qp.AttachCompCounter(n, CompRead), ErrQPState)

	err = n.Close()
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, b.qp.node.name)
	require.NoError(t, b.qp.Close())
	require.NoError(t, n.Close())
	require.NoError(t, n.Close())
	require.ErrorIs(t, n.Add(1), ErrClosed)
	require.ErrorIs(t, second(b.ctx.CreateCompCounter(2)), syscall.EINVAL)
	require.Zero(t, fakeverbs.AskedNewer().Alive)
}

// TestFakeDMAHandle: only what is set of a handle is told, and a region keeps its
// handle.
func TestFakeDMAHandle(t *testing.T) {
	b := newNewer(t, true)
	for _, c := range []struct {
		cfg  DMAHandleConfig
		want cgo.DMAHandleAttr
	}{
		{DMAHandleConfig{CPU: 9, Hint: 9}, cgo.DMAHandleAttr{}},
		{DMAHandleConfig{SetCPU: true}, cgo.DMAHandleAttr{Mask: 1}},
		{DMAHandleConfig{CPU: 5, SetCPU: true, Hint: 3, SetHint: true, Memory: VolatileMemory}, cgo.DMAHandleAttr{Mask: 7, CPU: 5, Hint: 3}},
		{DMAHandleConfig{Memory: PersistentMemory}, cgo.DMAHandleAttr{Mask: 4, Kind: 1}},
	} {
		d, err := b.ctx.AllocDMAHandle(c.cfg)
		require.NoError(t, err)
		require.Equal(t, c.want, fakeverbs.AskedNewer().Handle)
		require.NoError(t, d.Close())
	}
	for _, bad := range []DMAHandleConfig{{CPU: -1, SetCPU: true}, {Hint: 4, SetHint: true}, {Memory: 3}} {
		require.ErrorIs(t, second(b.ctx.AllocDMAHandle(bad)), ErrInvalid)
	}

	d, err := b.ctx.AllocDMAHandle(DMAHandleConfig{})
	require.NoError(t, err)
	plain, err := NewBuffer(4096, BufferConfig{})
	autoClose(t, plain, err)
	m, err := b.pd.RegisterBufferWith(plain, d, RemoteWrite)
	require.NoError(t, err)
	a := fakeverbs.AskedNewer()
	a.Handle = cgo.DMAHandleAttr{}
	require.Equal(t, fakeverbs.Asked{Alive: 2, Mask: 1<<1 | 1<<4, Addr: m.Addr(), Length: 4096, Access: int(RemoteWrite | LocalWrite), WithHandle: true}, a)
	require.ErrorIs(t, d.Close(), ErrBusy)
	require.ErrorIs(t, plain.Close(), ErrBusy)
	require.NoError(t, m.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, second(b.pd.RegisterBufferWith(plain, d, 0)), ErrClosed)
	other := newBench(t, benchConfig{})
	foreign, err := other.ctx.AllocDMAHandle(DMAHandleConfig{})
	autoClose(t, foreign, err)
	require.ErrorIs(t, second(b.pd.RegisterBufferWith(plain, foreign, 0)), ErrForeignContext)
	require.Equal(t, 1, fakeverbs.AskedNewer().Alive)
}

// TestFakeAllocBuffer: memory of the provider's is zeroed, registered by its own
// domain as what it is, and given back once.
func TestFakeAllocBuffer(t *testing.T) {
	b := newNewer(t, true)
	buf, err := b.pd.AllocBuffer(100)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 100), buf.Bytes())
	m, err := b.pd.RegisterBuffer(buf, LocalWrite)
	require.NoError(t, err)
	require.Equal(t, uint64(uintptr(unsafe.Pointer(&buf.Bytes()[0]))), m.Addr())
	a := fakeverbs.AskedNewer()
	require.True(t, a.With)
	require.Equal(t, uint64(1<<5), a.Mask)
	require.ErrorIs(t, buf.Close(), ErrBusy)
	require.NoError(t, m.Close())
	m, err = b.pd.RegisterBufferWith(buf, nil, LocalWrite)
	require.NoError(t, err)
	a = fakeverbs.AskedNewer()
	require.True(t, a.With)
	require.Equal(t, uint64(1<<1|1<<5), a.Mask)
	require.NoError(t, m.Close())
	other := newPD(b.ctx, b.dev.PD(), b.gone)
	require.ErrorIs(t, second(other.RegisterBuffer(buf, 0)), ErrForeignPD)
	require.NoError(t, other.Close())

	require.ErrorIs(t, second(buf.ExportDMABuf()), errors.ErrUnsupported, "ordinary memory")
	file, err := os.Open(os.DevNull)
	autoClose(t, file, err)
	fakeverbs.BuffersAre(int(file.Fd()))
	fd, err := buf.ExportDMABuf()
	require.NoError(t, err)
	require.NoError(t, syscall.Close(fd))
	plain, err := NewBuffer(100, BufferConfig{})
	autoClose(t, plain, err)
	require.ErrorIs(t, second(plain.ExportDMABuf()), errors.ErrUnsupported)

	require.ErrorIs(t, b.pd.Close(), ErrBusy)
	require.NoError(t, buf.Close())
	require.NoError(t, buf.Close())
	require.Nil(t, buf.Bytes())
	require.ErrorIs(t, second(buf.ExportDMABuf()), ErrClosed)
	for _, bad := range []int{0, -1} {
		require.ErrorIs(t, second(b.pd.AllocBuffer(bad)), ErrInvalid)
	}
	require.ErrorIs(t, second(b.pd.AllocBuffer(1<<40)), syscall.ENOMEM)
	require.Zero(t, fakeverbs.AskedNewer().Alive)
}

// TestPairNewer: on a device, and whatever library is here. From rdma-core 64 on a
// buffer comes from the provider, from 59 on a region from ibv_reg_mr_ex; Soft-RoCE
// has neither counters nor DMA handles, and says so.
func TestPairNewer(t *testing.T) {
	a, b := newPair(t, endConfig{})
	since := func(err error) int {
		var c *cgo.Error
		if errors.As(err, &c) && c.Since != 0 {
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.ErrorContains(t, err, "or later")
			return c.Since
		}
		return 0
	}
	for _, err := range []error{second(a.ctx.CompCounterCaps()), second(a.ctx.CreateCompCounter(CountRequests)),
		second(a.ctx.AllocDMAHandle(DMAHandleConfig{}))} {
		t.Log(err)
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}

	used := func(buf *Buffer, register func() (*MR, error)) {
		mr, err := register()
		require.NoError(t, err)
		fill(a.mr.Bytes()[:100], int(mr.LKey()))
		wc := write(t, a, a.mr.SGE(0, 100), mr.Remote(50))
		require.NoError(t, wc.Err())
		requirePattern(t, buf.Bytes()[50:150], int(mr.LKey()))
		require.ErrorIs(t, buf.Close(), ErrBusy)
		require.NoError(t, mr.Close())
	}
	plain, err := NewBuffer(4096, BufferConfig{})
	autoClose(t, plain, err)
	if mr, err := b.pd.RegisterBufferWith(plain, nil, RemoteWrite); since(err) == 0 {
		used(plain, func() (*MR, error) { return mr, err })
	}
	buf, err := b.pd.AllocBuffer(4096)
	if n := since(err); n != 0 {
		require.Equal(t, 64, n)
		return
	}
	autoClose(t, buf, err)
	used(buf, func() (*MR, error) { return b.pd.RegisterBuffer(buf, RemoteWrite) })
	used(buf, func() (*MR, error) { return b.pd.RegisterBufferWith(buf, nil, RemoteWrite) })
	require.ErrorIs(t, second(a.pd.RegisterBuffer(buf, RemoteWrite)), ErrForeignPD)
	require.ErrorIs(t, second(buf.ExportDMABuf()), errors.ErrUnsupported)
}
