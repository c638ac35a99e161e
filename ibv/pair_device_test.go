//go:build linux && cgo

package ibv

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPairDevices: what the devices say of themselves.
func TestPairDevices(t *testing.T) {
	needRDMA(t)
	list, err := Devices()
	require.NoError(t, err)
	found := map[string]Device{}
	for _, d := range list {
		found[d.Name] = d
	}
	for name, want := range map[string]struct {
		netdev string
		mtu    MTU
	}{"rxe0": {"a0", MTU4096}, "rxe1": {"b0", MTU2048}} {
		d := found[name]
		require.Equal(t, name, d.Name)
		require.Regexp(t, `^uverbs\d+$`, d.CharDev)
		require.GreaterOrEqual(t, d.Index, 0)
		require.NotZero(t, d.GUID)
		require.Equal(t, NodeCA, d.NodeType)
		require.Equal(t, TransportIB, d.Transport)

		ctx, err := Open(name)
		c := autoClose(t, ctx, err)
		require.Equal(t, name, c.Name())
		a, err := c.QueryDevice()
		require.NoError(t, err)
		require.Equal(t, d.GUID, a.NodeGUID)
		require.Equal(t, 32, a.MaxSGE)
		require.Equal(t, 32767, a.MaxCQE)
		require.Equal(t, 128, a.MaxQPReadAtomic)
		require.Equal(t, AtomicHCA, a.AtomicCap)
		require.Equal(t, uint8(1), a.PhysPortCount)

		p, err := c.QueryPort(1)
		require.NoError(t, err)
		require.Equal(t, PortActive, p.State)
		require.Equal(t, want.mtu, p.ActiveMTU)
		require.Equal(t, LinkEthernet, p.LinkLayer)
		require.GreaterOrEqual(t, p.MaxMsgSize, uint32(8<<20))

		nif, err := net.InterfaceByName(want.netdev)
		require.NoError(t, err)
		table, err := c.GIDTable()
		require.NoError(t, err)
		require.NotEmpty(t, table)
		for _, row := range table {
			require.Equal(t, GIDTypeRoCEv2, row.Type)
			require.Equal(t, nif.Index, row.Netdev)
			require.Equal(t, uint8(1), row.Port)
			one, err := c.QueryGID(1, row.Index)
			require.NoError(t, err)
			require.Equal(t, row, one)
		}
		row, err := c.FindGID(addrOf(name))
		require.NoError(t, err)
		require.Equal(t, addrOf(name), row.GID.Addr())
		_, err = Open(name + "\x00")
		require.ErrorIs(t, err, ErrNoDevice, "its name is longer")
		_, err = c.FindGID(netip.MustParseAddr("192.0.2.1"))
		require.ErrorIs(t, err, ErrNoDevice)

		key, err := c.QueryPKey(1, 0)
		require.NoError(t, err)
		require.Equal(t, uint16(0xffff), key)
	}
}

// TestPairAddressMoves: rows of the GID table move; a look-up by address stays
// right.
func TestPairAddressMoves(t *testing.T) {
	needRDMA(t)
	ctx, err := Open("rxe1")
	c := autoClose(t, ctx, err)
	addr := netip.MustParseAddr("10.2.0.77")
	ip := func(args ...string) {
		t.Helper()
		out, err := exec.Command("ip", args...).CombinedOutput()
		require.NoError(t, err, "ip %v: %s", args, out)
	}
	rows := map[int]bool{}
	for _, extra := range []string{"10.2.0.78/24", "10.2.0.79/24"} {
		ip("address", "add", extra, "dev", "b0")
		ip("address", "add", "10.2.0.77/24", "dev", "b0")
		var row GIDEntry
		require.Eventually(t, func() bool { row, err = c.FindGID(addr); return err == nil }, 5e9, 1e6)
		rows[row.Index] = true
		back, err := c.QueryGID(1, row.Index)
		require.NoError(t, err)
		require.Equal(t, addr, back.GID.Addr())
		ip("address", "del", "10.2.0.77/24", "dev", "b0")
		require.Eventually(t, func() bool { _, err = c.FindGID(addr); return errors.Is(err, ErrNoDevice) }, 5e9, 1e6)
	}
	require.Len(t, rows, 2, "the address had the same row twice: the test shows nothing")
	ip("address", "del", "10.2.0.78/24", "dev", "b0")
	ip("address", "del", "10.2.0.79/24", "dev", "b0")
}

// TestPairErrnos forces a failure of each call and looks for the errno that a C
// program would see, whatever way the call returns it.
func TestPairErrnos(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	h := e.ctx.Raw()
	for _, c := range []struct {
		name  string
		call  func() error
		want  syscall.Errno
		under string // the C function's name, in the text
	}{
		{"open", func() error { return second(Open("rxe77")) }, syscall.ENODEV, "ibv_open_device"},
		{"query port", func() error { return second(e.ctx.QueryPort(99)) }, syscall.EINVAL, "ibv_query_port"},
		{"query GID", func() error { return second(e.ctx.QueryGID(1, 60000)) }, syscall.EINVAL, "ibv_query_gid_ex"},
		{"query empty GID row", func() error { return second(e.ctx.QueryGID(1, 200)) }, syscall.ENODATA, "ibv_query_gid_ex"},
		{"query P_Key", func() error { return second(e.ctx.QueryPKey(1, 9999)) }, syscall.ENOENT, "ibv_query_pkey"},
		{"GID table without room", func() error { return second(h.QueryGIDTable(nil)) }, syscall.EINVAL, "ibv_query_gid_table"},
		{"register nothing", func() error { _, _, _, err := e.pd.h.RegMR(4096, 4096, 1); return err }, syscall.EFAULT, "ibv_reg_mr"},
		{"CQ too large", func() error { return second(e.ctx.CreateCQ(CQConfig{Size: 1 << 20})) }, syscall.EINVAL, "ibv_create_cq"},
		{"CQ vector", func() error { return second(e.ctx.CreateCQ(CQConfig{Vector: 999})) }, syscall.EINVAL, "ibv_create_cq"},
		{"QP too large", func() error {
			return second(e.pd.CreateQP(QPConfig{SendCQ: e.scq, RecvCQ: e.rcq, MaxSend: 1 << 29}))
		}, syscall.EINVAL, "ibv_create_qp"},
		{"transition", func() error { return e.qp.Modify(QPAttr{State: QPRTS}, AttrState) }, syscall.EINVAL, "ibv_modify_qp"},
		{"destroy a CQ in use", func() error { return e.scq.h.Destroy() }, syscall.EBUSY, "ibv_destroy_cq"},
		{"free a PD in use", func() error { return e.pd.h.Dealloc() }, syscall.EBUSY, "ibv_dealloc_pd"},
		{"destroy a channel in use", func() error { return e.ch.h.Destroy() }, syscall.EBUSY, "ibv_destroy_comp_channel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.call()
			require.ErrorIs(t, err, c.want)
			require.Contains(t, err.Error(), c.under)
		})
	}
	err := second(e.pd.CreateQP(QPConfig{SendCQ: e.scq, RecvCQ: e.rcq, MaxSendSGE: 99}))
	require.ErrorContains(t, err, "MaxSendSGE is 99, the device does 32")
}

// TestPairForeign: two contexts of one device do not mix.
func TestPairForeign(t *testing.T) {
	needRDMA(t)
	a, b := newEnd(t, endConfig{}), newEnd(t, endConfig{})
	err := second(a.pd.CreateQP(QPConfig{SendCQ: a.scq, RecvCQ: b.rcq}))
	require.ErrorIs(t, err, ErrForeignContext)
	require.ErrorContains(t, err, "rxe0 twice")
	err = second(a.ctx.CreateCQ(CQConfig{Channel: b.ch}))
	require.ErrorIs(t, err, ErrForeignContext)
	require.ErrorIs(t, a.qp.PostRecv(RecvWR{SGEs: []SGE{b.mr.SGE(0, 1)}}), ErrForeignPD)
}

// TestPairCreateClose makes and closes everything from many goroutines.
func TestPairCreateClose(t *testing.T) {
	needRDMA(t)
	ctx, err := Open("rxe0")
	c := autoClose(t, ctx, err)
	var wg sync.WaitGroup
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				if err := createClose(c); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	require.LessOrEqual(t, threads(t), 40)
}

func createClose(c *Context) error {
	pd, err := c.AllocPD()
	if err != nil {
		return err
	}
	ch, err := c.NewCompChannel()
	if err != nil {
		return err
	}
	cq, err := c.CreateCQ(CQConfig{Size: 8, Channel: ch})
	if err != nil {
		return err
	}
	mr, err := pd.Register(make([]byte, 5000), LocalWrite)
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 4, MaxRecv: 4})
	if err != nil {
		return err
	}
	if err := ch.Close(); !errors.Is(err, ErrBusy) {
		return errors.Join(errors.New("a channel in use was closed"), err)
	}
	return errors.Join(qp.Close(), mr.Close(), cq.Close(), ch.Close(), pd.Close())
}
