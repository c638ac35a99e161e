package ibv

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

// TestWithoutRDMA runs where it is true: on a machine without RDMA, and in a
// build without cgo or on another system.
func TestWithoutRDMA(t *testing.T) {
	_, err := Devices()
	if err == nil {
		if os.Getenv("RAILBIND_GUEST") == "" {
			t.Skip("this machine has RDMA")
		}
		_, err = Open("no-such-device")
		require.ErrorIs(t, err, ErrNoDevice)
		require.ErrorIs(t, err, syscall.ENODEV)
		require.Contains(t, err.Error(), "rxe0")
		return
	}
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, err, syscall.ENOSYS)
	require.Equal(t, cgo.Available, errors.Is(err, ErrNoRDMA))
	_, err = Open("rxe0")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Equal(t, cgo.Available, errors.Is(err, ErrNoRDMA))
	if cgo.Available {
		require.Contains(t, err.Error(), "modprobe")
	} else {
		require.EqualError(t, err, "ibv: open device on rxe0: ibv_open_device: "+cgo.NotBuilt())
	}
}

// TestErrnos: each sentinel matches the errno of its meaning, whatever wraps it.
func TestErrnos(t *testing.T) {
	for err, errno := range map[error]syscall.Errno{
		ErrClosed: syscall.EBADF, ErrBusy: syscall.EBUSY, ErrBorrowed: syscall.EPERM, ErrInvalid: syscall.EINVAL,
		ErrNoDevice: syscall.ENODEV, ErrDeviceNotAccessible: syscall.EACCES, ErrDeviceRemoved: syscall.ENODEV,
		ErrForeignContext: syscall.EXDEV, ErrForeignPD: syscall.EXDEV, ErrMemlock: syscall.ENOMEM,
		ErrAccess: syscall.EACCES, ErrOutOfRange: syscall.EFAULT, ErrQPState: syscall.EINVAL,
		ErrReadDepthZero: syscall.EINVAL, ErrQueueFull: syscall.ENOMEM, ErrTooLong: syscall.EMSGSIZE,
		ErrInlineTooLong: syscall.EMSGSIZE, ErrTooManySGE: syscall.EINVAL, ErrNoChannel: syscall.EINVAL,
		ErrCQFailed: syscall.EIO, ErrExhausted: syscall.EAGAIN,
	} {
		wrapped := error(&Error{Op: "test", Object: "rxe0", Kind: err, Err: syscall.ENXIO, Hint: "do so"})
		require.ErrorIs(t, wrapped, err)
		require.ErrorIs(t, wrapped, errno, "%v", err)
		require.ErrorIs(t, wrapped, syscall.ENXIO)
		require.NotErrorIs(t, wrapped, syscall.EISDIR)
		for _, part := range []string{"ibv: test on rxe0", err.Error(), "(do so)"} {
			require.Contains(t, wrapped.Error(), part)
		}
	}
	none := &cgo.Error{Op: "ibv_create", Errno: syscall.EAGAIN}
	for _, exhausted := range []error{ // also where the hint is looked for elsewhere
		fail("allocate PD", "rxe0", none),
		new(Context).cqError("create CQ", "rxe0", none),
		new(SRQConfig).explain("create SRQ", "rxe0", new(DeviceAttr), none),
		createError("create QP", "rxe0", new(cgo.QPInitAttr), new(limits), none),
		openError("rxe0", none),
	} {
		require.ErrorIs(t, exhausted, ErrExhausted)
		require.Contains(t, exhausted.Error(), "rdma.max")
	}
	removed := fail("create CQ", "rxe0", &cgo.Error{Op: "ibv_create_cq", Errno: syscall.ENODEV})
	require.ErrorIs(t, removed, ErrDeviceRemoved)
	require.Contains(t, removed.Error(), "ibv_create_cq")
}

// TestCompletionErrors: each status is an error of its own.
func TestCompletionErrors(t *testing.T) {
	for s := WCLocLenErr; s <= WCTMRndvIncomplete; s++ {
		w := WC{cgo.WC{ID: 7, Status: uint32(s), VendorErr: 0x42, QPNum: 99, Opcode: cgo.OpcodeRecv, ByteLen: 5, Flags: 2}}
		require.False(t, w.OK())
		err := w.Err()
		require.ErrorIs(t, err, s)
		require.NotErrorIs(t, err, WCSuccess)
		var wce *WCError
		require.ErrorAs(t, err, &wce)
		require.Equal(t, WCError{Status: s, VendorErr: 0x42, QPNum: 99, ID: 7, Queue: RecvQueue}, *wce)
		require.NotContains(t, s.String(), "WCStatus(", "%d has no text", s)
		for _, part := range []string{"0x7", "QP 99", "receive queue", s.String(), "0x42"} {
			require.Contains(t, err.Error(), part)
		}
		// All else is undefined in an error.
		require.Equal(t, WCInvalid, w.Opcode())
		require.Zero(t, w.Len())
		_, ok := w.Imm()
		require.False(t, ok)
	}
	ok := WC{cgo.WC{Opcode: 129, ByteLen: 5, Flags: 2, Imm: [4]byte{1, 2, 3, 4}}}
	require.NoError(t, ok.Err())
	require.Equal(t, WCRecvWithImm, ok.Opcode())
	require.Equal(t, 5, ok.Len())
	imm, has := ok.Imm()
	require.True(t, has)
	require.Equal(t, uint32(0x01020304), imm)
	require.Equal(t, RecvQueue, ok.Queue())
}

// TestUnknownValues: what the kernel may say tomorrow prints as a number.
func TestUnknownValues(t *testing.T) {
	for _, c := range []struct {
		v    interface{ String() string }
		want string
	}{
		{WCStatus(99), "WCStatus(99)"}, {WCOpcode(77), "WCOpcode(77)"}, {QPState(9), "QPState(9)"},
		{PortState(9), "PortState(9)"}, {MTU(9), "MTU(9)"}, {MTU(0), "MTU(0)"}, {MTU4096, "4096"}, {GIDType(9), "GIDType(9)"},
		{LinkLayer(9), "LinkLayer(9)"}, {NodeType(99), "NodeType(99)"}, {Transport(99), "Transport(99)"},
		{AtomicCap(9), "AtomicCap(9)"}, {Opcode(99), "Opcode(99)"}, {Queue(9), "Queue(9)"},
		{Access(0), "LocalRead"}, {LocalWrite | RemoteRead, "LocalWrite|RemoteRead"}, {Access(1 << 12), "0x1000"},
		{AttrState | AttrPort, "State, Port"}, {AttrMask(1 << 30), "0x40000000"},
		{GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, "::ffff:10.0.0.1"},
	} {
		require.Equal(t, c.want, c.v.String())
	}
	require.Equal(t, "10.0.0.1", GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}.Addr().String())
	require.Equal(t, LocalWrite|RemoteWrite, RemoteWrite.full())
	require.Equal(t, LocalWrite|RemoteAtomic, RemoteAtomic.full())
	require.Equal(t, RemoteRead, RemoteRead.full())
	require.Equal(t, OnDemand|HugeTLB, HugeTLB.full())
}

// TestExplain: what is wrong with a transition that the device refused.
func TestExplain(t *testing.T) {
	toRTR := AttrState | AttrAH | AttrPathMTU | AttrDestQPNum | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer
	good := QPAttr{State: QPRTR, PathMTU: MTU1024, AH: AHAttr{Port: 1}}
	for _, c := range []struct {
		from QPState
		attr QPAttr
		mask AttrMask
		want string
	}{
		{QPReset, QPAttr{State: QPRTS}, AttrState, "no transition RESET -> RTS; from RESET one gets to RESET, INIT"},
		{QPReset, QPAttr{State: QPInit, Port: 1}, AttrState | AttrPort, "RESET -> INIT lacks Access, PKeyIndex"},
		{QPInit, good, toRTR &^ AttrRQPSN, "INIT -> RTR lacks RQPSN"},
		{QPInit, good, toRTR | AttrSQPSN, "INIT -> RTR does not take SQPSN"},
		{QPInit, good, toRTR&^AttrAH | AttrTimeout, "INIT -> RTR lacks AH and does not take Timeout"},
		{QPInit, QPAttr{State: QPRTR, PathMTU: 9, DestQPNum: 1 << 24}, toRTR,
			"INIT -> RTR: AH.Port is 0, ports count from 1, PathMTU is MTU(9), DestQPNum 0x1000000 has more than 24 bits"},
		{QPInit, good, toRTR, "has the attributes it needs"},
		{QPRTS, QPAttr{State: QPErr}, AttrState | AttrPort, "RTS -> ERR does not take Port"},
		{QPRTS, QPAttr{}, AttrPort, "RTS -> RTS does not take Port"},
		{QPErr, QPAttr{State: QPRTS}, AttrState, "from ERR one gets to RESET, ERR"},
	} {
		require.Contains(t, explain(RC, c.from, c.attr, c.mask), c.want)
	}
}

// TestMemlockError says who may lock how much, and how to raise it.
func TestMemlockError(t *testing.T) {
	err := error(&MemlockError{Object: "PD on rxe0", Asked: 1 << 20, Pinned: 4096, Limit: 65536,
		Err: &cgo.Error{Op: "ibv_reg_mr", Errno: syscall.ENOMEM}})
	require.ErrorIs(t, err, ErrMemlock)
	require.ErrorIs(t, err, syscall.ENOMEM)
	for _, part := range []string{"PD on rxe0", "65536", "4096", "1048576", "ulimit -l", "LimitMEMLOCK", "--ulimit memlock=-1", "CAP_IPC_LOCK"} {
		require.True(t, strings.Contains(err.Error(), part), part)
	}
}
