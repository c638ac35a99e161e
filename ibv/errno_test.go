//go:build linux && cgo

package ibv

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ci/misuse"
)

// Case 51: whatever way a C function tells of its failure, the errno is in the
// error. Here the kernel refuses everything: the device's descriptor is one of
// /dev/full, which answers a write with ENOSPC and an ioctl with ENOTTY.

// deaf makes the descriptors of files that are so named refuse all; hear ends that.
func deaf(t *testing.T, file string) (hear func()) {
	t.Helper()
	full, err := syscall.Open("/dev/full", syscall.O_RDWR, 0)
	require.NoError(t, err)
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	var fds []int // all of them first: a copy can get the number of one in links
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, file) {
			fd, err := strconv.Atoi(filepath.Base(l))
			require.NoError(t, err)
			fds = append(fds, fd)
		}
	}
	saved := map[int]int{}
	for _, fd := range fds {
		copied, err := syscall.Dup(fd)
		require.NoError(t, err)
		require.NoError(t, syscall.Dup3(full, fd, syscall.O_CLOEXEC))
		saved[fd] = copied
	}
	require.NotEmpty(t, saved)
	return func() {
		for fd, copied := range saved {
			_ = syscall.Dup3(copied, fd, syscall.O_CLOEXEC)
			_ = syscall.Close(copied)
		}
		_ = syscall.Close(full)
	}
}

// elsewhere are functions that this cannot make fail, and why.
var elsewhere = map[string]string{
	"Open": "TestPairErrnos", "Selector.Open": "is Open", "ImportDevice": "TestPairImport", "Context.Close": "closes descriptors", "Context.NextAsyncEvent": "TestPairAsyncWait",
	"CompChannel.Close": "TestPairErrnos", "CQ.Poll": "TestPairOverrun", "CQ.PollEx": "TestPairExtendedCQ", "CQ.Wait": "TestPairOverrun",
	"Devices": "TestWithoutRDMA", "ForkInit": "TestPairForkInit", "ForkSupport": "no error", "QPTypes.Has": "no error",
	"Context.Index": "no error", "NextRKey": "no error", "Rate.Mbps": "no error", "Rate.Mult": "no error", "RateOfMbps": "no error",
	"RateOfMult": "no error", "UDPSourcePort": "no error",
	"Context.AHAttrFromWC": "TestPairUDRefusals", "PD.CreateAHFromWC": "TestPairUDRefusals",
	"DeviceMemory.WriteAt": "TestFakeDeviceMemory", "DeviceMemory.ReadAt": "TestFakeDeviceMemory", "DeviceMemory.ExportDMABuf": "TestFakeDeviceMemory",
	"DeviceMemory.Close": "TestFailedDestroy", "PD.RegisterDM": "TestFakeDeviceMemory", "Context.ImportDM": "no driver has it",
	"ThreadDomain.Close": "TestFakeDomains",
	"QP.CreateFlow":      "no driver has it", "Flow.Close": "no driver has it", "Counters.Attach": "no driver has it", "Counters.Read": "no driver has it", "Counters.Close": "no driver has it",
	"Context.OpenXRCD": "no driver has it", "XRCD.Close": "no driver has it", "XRCD.OpenQP": "no driver has it", "WQ.Modify": "no driver has it", "WQ.NewRecvBatch": "no driver has it",
	"WQ.Close": "no driver has it", "Context.CreateRSSTable": "no driver has it", "RSSTable.CreateQP": "no driver has it", "RSSTable.Close": "no driver has it",
	"RecvBatch.Post": "TestPartialPost", "RecvBatch.PostRange": "TestPartialPost", "QP.PostSend": "TestPartialPost", "SendBatch.Post": "TestPartialPost", "SendBatch.PostRange": "TestPartialPost",
	"QP.PostRecv": "TestPartialPost", "SRQ.PostRecv": "TestPairSRQPartial", "QP.DataInOrder": "no error", "QP.QueryECE": "no error",
	"QP.BindMW": "TestPairWindow1", "Context.LookupGID": "is GIDTable, or reads sysfs", "Context.QueryPKey": "reads sysfs: TestPairErrnos", "Context.PKeyIndex": "reads sysfs: TestPairLookupGID",
	"Context.QueryGID": "reads sysfs: TestPairLookupGID", "Context.QueryGIDOnly": "reads sysfs: TestPairLookupGID", "PD.Advise": "TestPairMemoryKinds", "MR.Reregister": "TestReregister", "Context.Clock": "TestFakeClock",
	"Context.CompCounterCaps": "no driver has it", "Context.CreateCompCounter": "no driver has it", "QP.AttachCompCounter": "TestFakeCompCounter", "CompCounter.Close": "TestNotThere",
	"CompCounter.Read": "TestNotThere", "CompCounter.Set": "TestNotThere", "CompCounter.SetFailed": "TestNotThere", "CompCounter.Add": "TestNotThere", "CompCounter.AddFailed": "TestNotThere",
	"Context.AllocDMAHandle": "no driver has it", "DMAHandle.Close": "no driver has it", "PD.RegisterBufferWith": "TestFakeDMAHandle", "PD.AllocBuffer": "asks no device",
	"Buffer.ExportDMABuf": "asks no device", "Buffer.Close": "asks no device",
	"Context.ResolveL2": "asks no device", "SRQ.Number": "TestPairSRQRefusals",
}

func TestPairErrnoOfEachCall(t *testing.T) {
	needRDMA(t)
	a, _ := newPair(t, endConfig{})
	ud := newEnd(t, endConfig{qp: QPConfig{Type: UD}})
	require.NoError(t, ud.qp.ToInit(ConnectConfig{}))
	newSRQ, err := a.pd.CreateSRQ(SRQConfig{})
	srq := autoClose(t, newSRQ, err)
	newMW, err := a.pd.AllocMW(MWType2)
	mw := autoClose(t, newMW, err)
	own, err := a.ctx.FindGID(addrOf("rxe0"))
	require.NoError(t, err)
	to := AHAttr{Port: 1, Global: true, DGID: own.GID, SGIDIndex: own.Index, HopLimit: 1}
	newAH, err := a.pd.CreateAH(to)
	ah := autoClose(t, newAH, err)
	buf, err := NewBuffer(4096, BufferConfig{})
	autoClose(t, buf, err)
	group := GIDOf(netip.MustParseAddr("239.0.0.7"))
	require.NoError(t, ud.qp.AttachMulticast(group, 0))
	defer func() { require.NoError(t, ud.qp.DetachMulticast(group, 0)) }()
	mem := make([]byte, 4096)
	pd, err := a.ctx.AllocPD()
	autoClose(t, pd, err)
	cq, err := a.ctx.CreateCQ(CQConfig{})
	autoClose(t, cq, err)
	q := QPConfig{SendCQ: a.scq, RecvCQ: a.rcq}
	idle, err := a.pd.CreateQP(q)
	autoClose(t, idle, err)

	calls := map[string]func() error{
		"PD.CreateAH":               func() error { return second(a.pd.CreateAH(to)) },
		"AH.Close":                  ah.Close,
		"Context.NewCompChannel":    func() error { return second(a.ctx.NewCompChannel()) },
		"Context.QueryDevice":       func() error { return second(a.ctx.QueryDevice()) },
		"Context.QueryDeviceEx":     func() error { return second(a.ctx.QueryDeviceEx()) },
		"Context.QueryPort":         func() error { return second(a.ctx.QueryPort(1)) },
		"Context.GIDTable":          func() error { return second(a.ctx.GIDTable()) },
		"Context.PortSpeed":         func() error { return second(a.ctx.PortSpeed(1)) },
		"Context.AllocPD":           func() error { return second(a.ctx.AllocPD()) },
		"Context.ImportPD":          func() error { return second(a.ctx.ImportPD(0)) },
		"PD.ImportMR":               func() error { return second(a.pd.ImportMR(0)) },
		"PD.Close":                  pd.Close,
		"Context.CreateCQ":          func() error { return second(a.ctx.CreateCQ(CQConfig{})) },
		"CQ.Close":                  cq.Close,
		"CQ.Resize":                 func() error { return a.scq.Resize(512) },
		"CQ.Moderate":               func() error { return a.scq.Moderate(1, 0) },
		"Context.AllocDM":           func() error { return second(a.ctx.AllocDM(64, 0)) },
		"PD.Register":               func() error { return second(a.pd.Register(mem, LocalWrite)) },
		"PD.AllocMR":                func() error { return second(a.pd.AllocMR(64, LocalWrite)) },
		"PD.RegisterBuffer":         func() error { return second(a.pd.RegisterBuffer(buf, LocalWrite)) },
		"PD.RegisterMessages":       func() error { return second(a.pd.RegisterMessages(mem)) },
		"PD.RegisterForRead":        func() error { return second(a.pd.RegisterForRead(mem)) },
		"PD.RegisterForWrite":       func() error { return second(a.pd.RegisterForWrite(mem)) },
		"PD.RegisterAt":             func() error { return second(a.pd.RegisterAt(buf.Bytes(), 0, LocalWrite)) },
		"PD.RegisterBufferAt":       func() error { return second(a.pd.RegisterBufferAt(buf, 0, LocalWrite)) },
		"PD.RegisterImplicit":       func() error { return second(a.pd.RegisterImplicit(LocalWrite)) },
		"PD.RegisterDMABuf":         func() error { return second(a.pd.RegisterDMABuf(0, 0, 64, 0, LocalWrite)) },
		"PD.AllocNullMR":            func() error { return second(a.pd.AllocNullMR()) },
		"MR.Close":                  a.mr.Close,
		"PD.AllocMW":                func() error { return second(a.pd.AllocMW(MWType2)) },
		"MW.Close":                  mw.Close,
		"Context.AllocThreadDomain": func() error { return second(a.ctx.AllocThreadDomain()) },
		"PD.Parent":                 func() error { return second(a.pd.Parent(nil)) },
		"PD.CreateQP":               func() error { return second(a.pd.CreateQP(q)) },
		"QP.Close":                  idle.Close,
		"QP.Query":                  func() error { return second(a.qp.Query()) },
		"QP.Modify":                 func() error { return a.qp.Modify(QPAttr{State: QPErr}, AttrState) },
		"QP.ToInit":                 func() error { return idle.ToInit(ConnectConfig{}) },
		"QP.Connect":                func() error { return idle.Connect(ConnectConfig{}) },
		"QP.ToError":                a.qp.ToError,
		"QP.Reset":                  a.qp.Reset,
		"QP.SetRateLimit":           func() error { return a.qp.SetRateLimit(RateLimit{Rate: 1}) },
		"QP.SetECE":                 func() error { return idle.SetECE(ECE{Vendor: 1}) },
		"QP.AttachMulticast":        func() error { return ud.qp.AttachMulticast(group, 0) },
		"QP.DetachMulticast":        func() error { return ud.qp.DetachMulticast(group, 0) },
		"Context.CreateCounters":    func() error { return second(a.ctx.CreateCounters()) },
		"PD.CreateSRQ":              func() error { return second(a.pd.CreateSRQ(SRQConfig{})) },
		"SRQ.Close":                 srq.Close,
		"SRQ.Query":                 func() error { return second(srq.Query()) },
		"SRQ.SetLimit":              func() error { return srq.SetLimit(1) },
		"SRQ.Resize":                func() error { return srq.Resize(64) },
		"PD.CreateWQ":               func() error { return second(a.pd.CreateWQ(a.scq, 1, 1)) },
	}
	for _, name := range misuse.Implementing(t, ".") {
		_, here := calls[name]
		require.True(t, here || elsewhere[name] != "", "%s is made to fail nowhere", name)
	}
	defer deaf(t, "/dev/infiniband/uverbs")()
	for name, call := range calls {
		err := call()
		var c *cgo.Error
		if !errors.As(err, &c) {
			t.Errorf("%s: no failure of C's: %v", name, err)
			continue
		}
		require.ErrorIs(t, err, c.Errno)
		refused := c.Errno == syscall.ENOSPC || c.Errno == syscall.ENOTTY
		if !refused && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: another errno than the kernel's: %v", name, err)
		}
		require.True(t, strings.HasPrefix(c.Op, "ibv_"), c.Op)
		t.Log(name, err)
	}
}
