//go:build linux && cgo

package ibv

import (
	"errors"
	"math"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

// over is a call that asks for more than there is: its error is is, and says says.
type over struct {
	name string
	call func() error
	is   error
	says []string
}

func runOver(t *testing.T, calls []over) {
	t.Helper()
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			err := c.call()
			require.ErrorIs(t, err, c.is)
			for _, s := range c.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
}

func does(field string, asked, on int) []string {
	return []string{field + " is " + strconv.Itoa(asked), "does " + strconv.Itoa(on)}
}

// sizes are what no device has: negative, or beyond what C's fields hold.
var sizes = []int{-1, math.MinInt, 1<<30 + 1, math.MaxInt}

// TestPairLimits: an error names each field that is over the device's limit, and
// the limit.
func TestPairLimits(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{qp: QPConfig{MaxInline: 64}})
	can, err := e.ctx.QueryDevice()
	require.NoError(t, err)
	newSRQ, err := e.pd.CreateSRQ(SRQConfig{MaxRecv: 16})
	srq := autoClose(t, newSRQ, err)
	vectors := e.ctx.h.Vectors()
	qp := func(c QPConfig) func() error {
		c.SendCQ, c.RecvCQ = e.scq, e.rcq
		return func() error { return second(e.pd.CreateQP(c)) }
	}
	cq := func(c CQConfig) func() error { return func() error { return second(e.ctx.CreateCQ(c)) } }
	newSrq := func(c SRQConfig) func() error { return func() error { return second(e.pd.CreateSRQ(c)) } }
	ah := func(a AHAttr) func() error { return func() error { return second(e.pd.CreateAH(a)) } }
	toRTS := func(c ConnectConfig) func() error {
		return func() error {
			own, err := e.ctx.FindGID(netip.MustParseAddr("10.1.0.1"))
			if err != nil {
				return err
			}
			c.GIDIndex, c.DestGID = or(c.GIDIndex, own.Index), own.GID
			q := newEnd(t, endConfig{}).qp
			return errors.Join(q.ToInit(ConnectConfig{}), q.Connect(c))
		}
	}
	batch := func(c BatchConfig) func() error { return func() error { return second(e.qp.NewSendBatch(c)) } }
	cap := e.qp.Cap()
	pieces := make([]SGE, 64)
	for i := range pieces {
		pieces[i] = e.mr.SGE(i, 1)
	}
	runOver(t, []over{
		{"MaxSend", qp(QPConfig{MaxSend: can.MaxQPWR + 1}), syscall.EINVAL, does("MaxSend", can.MaxQPWR+1, can.MaxQPWR)},
		{"MaxRecv", qp(QPConfig{MaxRecv: can.MaxQPWR + 1}), syscall.EINVAL, does("MaxRecv", can.MaxQPWR+1, can.MaxQPWR)},
		{"MaxSendSGE", qp(QPConfig{MaxSendSGE: can.MaxSGE + 1}), syscall.EINVAL, does("MaxSendSGE", can.MaxSGE+1, can.MaxSGE)},
		{"MaxRecvSGE", qp(QPConfig{MaxRecvSGE: can.MaxSGE + 1}), syscall.EINVAL, does("MaxRecvSGE", can.MaxSGE+1, can.MaxSGE)},
		{"two of them", qp(QPConfig{MaxSend: can.MaxQPWR + 1, MaxRecvSGE: can.MaxSGE + 1}), syscall.EINVAL,
			append(does("MaxSend", can.MaxQPWR+1, can.MaxQPWR), does("MaxRecvSGE", can.MaxSGE+1, can.MaxSGE)...)},
		{"MaxInline", qp(QPConfig{MaxInline: 4096}), syscall.EINVAL, []string{"MaxInline is 4096"}},
		{"Size", cq(CQConfig{Size: can.MaxCQE + 1}), syscall.EINVAL, does("Size", can.MaxCQE+1, can.MaxCQE)},
		{"Vector", cq(CQConfig{Vector: vectors}), syscall.EINVAL, does("Vector", vectors, vectors-1)},
		{"negative Vector", cq(CQConfig{Vector: -1}), ErrInvalid, []string{"Vector is -1"}},
		{"Spin", cq(CQConfig{Spin: time.Second}), ErrInvalid, []string{"1s", "1ms"}},
		{"Resize", func() error { return e.scq.Resize(can.MaxCQE + 1) }, syscall.EINVAL, does("Size", can.MaxCQE+1, can.MaxCQE)},
		{"Moderate", func() error { return e.scq.Moderate(1<<16, 0) }, ErrInvalid, []string{"65536", "16 bits"}},
		{"SRQ MaxRecv", newSrq(SRQConfig{MaxRecv: can.MaxSRQWR + 1}), syscall.EINVAL, does("MaxRecv", can.MaxSRQWR+1, can.MaxSRQWR)},
		{"SRQ MaxSGE", newSrq(SRQConfig{MaxSGE: can.MaxSRQSGE + 1}), syscall.EINVAL, does("MaxSGE", can.MaxSRQSGE+1, can.MaxSRQSGE)},
		{"SRQ Limit", newSrq(SRQConfig{MaxRecv: 4, Limit: 5}), ErrInvalid, []string{"Limit is 5", "room for 4"}},
		{"SRQ SetLimit", func() error { return srq.SetLimit(srq.Cap().MaxRecv + 1) }, ErrInvalid, []string{"Limit is", "room for " + strconv.Itoa(srq.Cap().MaxRecv)}},
		{"SRQ Resize", func() error { return srq.Resize(can.MaxSRQWR + 1) }, syscall.EINVAL, does("MaxRecv", can.MaxSRQWR+1, can.MaxSRQWR)},
		{"AH port", ah(AHAttr{Port: can.PhysPortCount + 1}), syscall.EINVAL, does("Port", int(can.PhysPortCount)+1, int(can.PhysPortCount))},
		{"AH port 0", ah(AHAttr{}), syscall.EINVAL, []string{"ports count from 1"}},
		{"AH bits", ah(AHAttr{Port: 1, SGIDIndex: 256}), ErrInvalid, []string{"SGIDIndex is 256", "8 bits"}},
		{"MaxRdAtomic", toRTS(ConnectConfig{MaxRdAtomic: can.MaxQPInitReadAtomic + 1}), syscall.EINVAL, does("MaxRdAtomic", can.MaxQPInitReadAtomic+1, can.MaxQPInitReadAtomic)},
		{"MaxDestRdAtomic bits", toRTS(ConnectConfig{MaxDestRdAtomic: 256}), ErrInvalid, []string{"MaxDestRdAtomic is 256", "8 bits"}},
		{"GID index bits", toRTS(ConnectConfig{GIDIndex: 256}), ErrInvalid, []string{"SGIDIndex is 256"}},
		{"port", func() error { return newEnd(t, endConfig{}).qp.ToInit(ConnectConfig{Port: 9}) }, syscall.EINVAL, does("Port", 9, int(can.PhysPortCount))},
		{"batch SGEs", batch(BatchConfig{SGEs: cap.MaxSendSGE + 1}), ErrTooManySGE, []string{strconv.Itoa(cap.MaxSendSGE)}},
		{"batch inline", batch(BatchConfig{Inline: cap.MaxInline + 1}), ErrInlineTooLong, []string{strconv.Itoa(cap.MaxInline)}},
		{"inline", func() error { return e.qp.PostSend(SendWR{Inline: make([]byte, cap.MaxInline+1)}) }, ErrInlineTooLong, []string{strconv.Itoa(cap.MaxInline)}},
		{"SGEs", func() error { return e.qp.PostSend(SendWR{SGEs: pieces[:cap.MaxSendSGE+1]}) }, ErrTooManySGE, []string{strconv.Itoa(cap.MaxSendSGE)}},
		{"receive SGEs", func() error { return e.qp.PostRecv(RecvWR{SGEs: pieces[:cap.MaxRecvSGE+1]}) }, ErrTooManySGE, []string{strconv.Itoa(cap.MaxRecvSGE)}},
		{"ring", func() error { return second(e.ctx.NewCompletionRing(RingConfig{Size: 1<<24 + 1})) }, ErrInvalid, []string{"16777217", "at most 16777216"}},
	})
	for _, n := range sizes {
		runOver(t, []over{
			{"QP", qp(QPConfig{MaxSend: n}), ErrInvalid, []string{"MaxSend"}},
			{"QP receives", qp(QPConfig{MaxRecv: n}), ErrInvalid, []string{"MaxRecv"}},
			{"QP SGEs", qp(QPConfig{MaxSendSGE: n}), ErrInvalid, []string{"MaxSendSGE"}},
			{"QP receive SGEs", qp(QPConfig{MaxRecvSGE: n}), ErrInvalid, []string{"MaxRecvSGE"}},
			{"QP inline", qp(QPConfig{MaxInline: n}), ErrInvalid, []string{"MaxInline"}},
			{"CQ", cq(CQConfig{Size: n}), ErrInvalid, []string{"size"}},
			{"CQ resize", func() error { return e.scq.Resize(n) }, ErrInvalid, []string{"size"}},
			{"SRQ", newSrq(SRQConfig{MaxRecv: n}), ErrInvalid, []string{"MaxRecv"}},
			{"SRQ SGEs", newSrq(SRQConfig{MaxSGE: n}), ErrInvalid, []string{"MaxSGE"}},
			{"SRQ limit", newSrq(SRQConfig{Limit: n}), ErrInvalid, []string{"Limit"}},
			{"SRQ set limit", func() error { return srq.SetLimit(n) }, ErrInvalid, []string{"Limit"}},
			{"SRQ resize", func() error { return srq.Resize(n) }, ErrInvalid, []string{"MaxRecv"}},
			{"WQ", func() error { return second(e.pd.CreateWQ(e.scq, n, 1)) }, ErrInvalid, nil},
			{"batch", batch(BatchConfig{Requests: n}), ErrInvalid, []string{"requests"}},
			{"ring", func() error { return second(e.ctx.NewCompletionRing(RingConfig{Size: n})) }, ErrInvalid, nil},
		})
	}
	for _, n := range []int{-1, 0, math.MinInt} {
		require.ErrorIs(t, second(NewBuffer(n, BufferConfig{})), ErrInvalid)
		require.ErrorIs(t, second(e.pd.AllocMR(n, 0)), ErrInvalid)
	}
	require.ErrorIs(t, second(NewBuffer(math.MaxInt, BufferConfig{})), syscall.ENOMEM)
}

// TestLimits: the same where the device says no to whatever is asked: a fake one.
func TestLimits(t *testing.T) {
	f := newBench(t, benchConfig{inline: 32})
	dev := &f.ctx.limits.dev
	dev.MaxSRQWR, dev.MaxSRQSGE, dev.MaxCQE, dev.MaxMRSize, dev.PhysPortCount = 100, 3, 200, 1<<20, 1
	m := newMR(f.pd, make([]byte, 64), LocalWrite, 1, 2, f.gone, nil)
	defer m.Close()
	no := func(errno syscall.Errno, c QPConfig) func() error {
		return func() error {
			c.SendCQ, c.RecvCQ = f.scq, f.rcq
			return second(NewQP(f.ctx, f.pd, c, func(cgo.PD, *cgo.QPInitAttr) (cgo.QP, error) {
				return cgo.QP{}, &cgo.Error{Op: "ibv_create_qp", Errno: errno}
			}, nil))
		}
	}
	srq := func(c SRQConfig) func() error {
		return func() error {
			return second(NewSRQ(f.ctx, f.pd, c, func(cgo.PD, *cgo.SRQInitAttr) (cgo.SRQ, func() error, error) {
				return cgo.SRQ{}, nil, &cgo.Error{Op: "ibv_create_srq", Errno: syscall.ENOMEM}
			}))
		}
	}
	big := newMR(f.pd, make([]byte, 2<<20), LocalWrite, 3, 4, f.gone, nil)
	defer big.Close()
	f.qp.maxMsg.Store(1 << 20)
	runOver(t, []over{
		{"MaxSend", no(syscall.EINVAL, QPConfig{MaxSend: 1<<16 + 1}), syscall.EINVAL, does("MaxSend", 1<<16+1, 1<<16)},
		{"MaxRecv without memory", no(syscall.ENOMEM, QPConfig{MaxRecv: 1<<16 + 1}), syscall.ENOMEM, does("MaxRecv", 1<<16+1, 1<<16)},
		{"MaxSendSGE", no(syscall.EINVAL, QPConfig{MaxSendSGE: 33}), syscall.EINVAL, does("MaxSendSGE", 33, 32)},
		{"MaxRecvSGE", no(syscall.EINVAL, QPConfig{MaxRecvSGE: 33}), syscall.EINVAL, does("MaxRecvSGE", 33, 32)},
		{"MaxInline", no(syscall.EINVAL, QPConfig{MaxInline: 999}), syscall.EINVAL, []string{"MaxInline is 999"}},
		{"no cause to be seen", no(syscall.EINVAL, QPConfig{}), syscall.EINVAL, []string{"asked for 128 sends", "does 65536 requests, 32 SGEs"}},
		{"nothing to do with limits", no(syscall.EPERM, QPConfig{MaxSend: 1<<16 + 1}), syscall.EPERM, []string{"ibv_create_qp"}},
		{"SRQ", srq(SRQConfig{MaxRecv: 101, MaxSGE: 4}), syscall.ENOMEM, append(does("MaxRecv", 101, 100), does("MaxSGE", 4, 3)...)},
		{"SRQ Limit of the default size", srq(SRQConfig{Limit: 101}), ErrInvalid, []string{"room for 100"}},
		{"region", func() error { return second(f.pd.Register(make([]byte, 1<<20+1), 0)) }, ErrTooLong, []string{"1048577", "at most 1048576"}},
		{"message", func() error { return f.qp.PostSend(SendWR{SGEs: []SGE{big.SGE(0, 1<<20+1)}}) }, ErrTooLong, []string{"1048577", "at most 1048576"}},
		{"inline", func() error { return f.qp.PostSend(SendWR{Inline: make([]byte, 33)}) }, ErrInlineTooLong, []string{"33", "32"}},
	})
}
