//go:build linux && cgo

package ibv

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cgo/fakeverbs"
)

func sendBatch(t testing.TB, q *QP, cfg BatchConfig) *SendBatch {
	t.Helper()
	b, err := q.NewSendBatch(cfg)
	require.NoError(t, err)
	return b
}

func recvBatch(t testing.TB, q *QP, cfg BatchConfig) *RecvBatch {
	t.Helper()
	b, err := q.NewRecvBatch(cfg)
	require.NoError(t, err)
	return b
}

// TestRequests looks at what each setter makes of a request, in the device's ring.
func TestRequests(t *testing.T) {
	f := newBench(t, benchConfig{inline: 64})
	m := f.mr(t, 4096, LocalWrite)
	remote := Remote{0x1000, 77}
	sge := func(r fakeverbs.Request) fakeverbs.Request {
		r.SGEs, r.Addr[0], r.Length[0], r.LKey[0] = 1, m.Addr()+16, 8, m.LKey()
		return r
	}
	for _, c := range []struct {
		name string
		set  func(*SendBatch) error
		want fakeverbs.Request
	}{
		{"SEND", func(b *SendBatch) error { return b.Send(0, m.SGE(16, 8)) }, sge(fakeverbs.Request{Opcode: 2})},
		{"SEND without data", func(b *SendBatch) error { return b.Send(0) }, fakeverbs.Request{Opcode: 2}},
		{"SEND, empty SGE", func(b *SendBatch) error { return b.Send(0, m.SGE(0, 0), m.SGE(16, 8)) }, sge(fakeverbs.Request{Opcode: 2})},
		{"SEND_IMM", func(b *SendBatch) error { return b.SendImm(0, 0x01020304, m.SGE(16, 8)) },
			sge(fakeverbs.Request{Opcode: 3, Imm: 0x04030201})},
		{"WRITE", func(b *SendBatch) error { return b.Write(0, remote, m.SGE(16, 8)) },
			sge(fakeverbs.Request{Opcode: 0, RemoteAddr: 0x1000, RKey: 77})},
		{"WRITE_IMM", func(b *SendBatch) error { return b.WriteImm(0, remote, 0x01020304, m.SGE(16, 8)) },
			sge(fakeverbs.Request{Opcode: 1, RemoteAddr: 0x1000, RKey: 77, Imm: 0x04030201})},
		{"READ", func(b *SendBatch) error { return b.Read(0, remote, m.SGE(16, 8)) },
			sge(fakeverbs.Request{Opcode: 4, RemoteAddr: 0x1000, RKey: 77})},
		{"COMPARE_SWAP", func(b *SendBatch) error { return b.CompareSwap(0, remote, 5, 6, m.SGE(16, 8)) },
			sge(fakeverbs.Request{Opcode: 5, RemoteAddr: 0x1000, RKey: 5})}, // compare lies where WRITE has its key
		{"FETCH_ADD", func(b *SendBatch) error { return b.FetchAdd(0, remote, 5, m.SGE(16, 8)) },
			sge(fakeverbs.Request{Opcode: 6, RemoteAddr: 0x1000, RKey: 5})},
		{"two SGEs", func(b *SendBatch) error { return b.Send(0, m.SGE(16, 8), m.SGE(100, 1)) },
			fakeverbs.Request{Opcode: 2, SGEs: 2, Addr: [2]uint64{m.Addr() + 16, m.Addr() + 100},
				Length: [2]uint32{8, 1}, LKey: [2]uint32{m.LKey(), m.LKey()}}},
		{"moved", func(b *SendBatch) error {
			return errors.Join(b.Write(0, remote, m.SGE(0, 8)), b.SetOffset(0, 16), func() error { b.SetRemote(0, 0x3000); return nil }())
		}, sge(fakeverbs.Request{Opcode: 0, RemoteAddr: 0x3000, RKey: 77})},
		{"moved and resized", func(b *SendBatch) error {
			return errors.Join(b.Send(0, m.SGE(0, 800)), b.SetLocal(0, 0, 16, 8))
		}, sge(fakeverbs.Request{Opcode: 2})},
		{"other operation", func(b *SendBatch) error {
			return errors.Join(b.SendInline(0, []byte("x")), b.Send(0, m.SGE(16, 8)))
		}, sge(fakeverbs.Request{Opcode: 2})},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sendBatch(t, f.qp, BatchConfig{SGEs: 2, Inline: 64})
			require.NoError(t, c.set(b))
			for flags, want := range map[SendFlags]int{0: 2, Fence: 3, Solicited: 6, Unsignaled: 0, Fence | Unsignaled | Solicited: 5} {
				b.SetFlags(0, flags)
				n, err := b.Post()
				require.NoError(t, err)
				require.Equal(t, 1, n)
				got := f.fqp.Request(false, f.fqp.Posted(false)-1)
				require.Equal(t, want, got.Flags)
				// Of SGEs that a request does not use the ring keeps old values.
				for i := got.SGEs; i < 2; i++ {
					got.Addr[i], got.Length[i], got.LKey[i] = 0, 0, 0
				}
				c.want.Flags = got.Flags
				if c.want.RemoteAddr == 0 {
					got.RemoteAddr, got.RKey = 0, 0
				}
				if c.want.Imm == 0 {
					got.Imm = 0
				}
				require.Equal(t, c.want, got)
				drain(t, f.scq)
			}
			b.SetFlags(0, 0)
			_, err := b.Post()
			require.NoError(t, err)
			drain(t, f.scq)
		})
	}
	t.Run("inline", func(t *testing.T) {
		b := sendBatch(t, f.qp, BatchConfig{Inline: 64})
		require.NoError(t, b.SendInline(0, []byte("hello "), []byte("world")))
		_, err := b.Post()
		require.NoError(t, err)
		got := f.fqp.Request(false, f.fqp.Posted(false)-1)
		require.Equal(t, 1, got.SGEs)
		require.Equal(t, 8|2, got.Flags)
		require.Equal(t, uint32(11), got.Length[0])
		require.Equal(t, "hello world", string(b.inline[:11]))
		drain(t, f.scq)
	})
	t.Run("receive", func(t *testing.T) {
		b := recvBatch(t, f.qp, BatchConfig{Requests: 2, SGEs: 2})
		require.NoError(t, b.Recv(0, m.SGE(0, 8), m.SGE(8, 16)))
		require.NoError(t, b.Recv(1, m.SGE(32, 8)))
		require.NoError(t, b.SetOffset(1, 64))
		n, err := b.Post()
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, 2, f.fqp.Request(true, 0).SGEs)
		require.Equal(t, m.Addr()+64, f.fqp.Request(true, 1).Addr[0])
	})
}

// TestSetRanges sets a field of several requests at once, where all name one region
// and where they do not, and looks at what the device gets.
func TestSetRanges(t *testing.T) {
	f := newBench(t, benchConfig{})
	m, other := f.mr(t, 4096, LocalWrite), f.mr(t, 64, LocalWrite)
	send := sendBatch(t, f.qp, BatchConfig{Requests: 4, SGEs: 2})
	recv := recvBatch(t, f.qp, BatchConfig{Requests: 4, SGEs: 2})
	fill := func(last *MR) {
		for i := range 4 {
			mr := m
			if i == 3 {
				mr = last
			}
			require.NoError(t, send.Send(i, mr.SGE(0, 8), m.SGE(0, 8+i)))
			require.NoError(t, recv.Recv(i, mr.SGE(0, 8), m.SGE(0, 8+i)))
		}
	}
	check := func(ids [4]uint64, addrs ...uint64) {
		t.Helper()
		for _, isRecv := range []bool{false, true} {
			from := f.fqp.Posted(isRecv)
			var err error
			if isRecv {
				_, err = recv.Post()
			} else {
				_, err = send.Post()
			}
			require.NoError(t, err)
			for i := range 4 {
				r := f.fqp.Request(isRecv, from+i)
				require.Equal(t, addrs[i], r.Addr[0])
				require.Equal(t, m.Addr(), r.Addr[1], "the second SGE stays")
			}
			f.fqp.Complete(isRecv, 4, 0, 0, 8)
			var got [4]uint64
			for i, wc := range append(drain(t, f.scq), drain(t, f.rcq)...) {
				got[i] = wc.ID()
			}
			require.Equal(t, ids, got)
		}
	}
	both := func(want error, from, n, offset, stride int) {
		t.Helper()
		require.Equal(t, want, send.SetOffsets(from, n, offset, stride))
		require.Equal(t, want, recv.SetOffsets(from, n, offset, stride))
	}
	send.SetIDs(1, 3, 40)
	recv.SetIDs(1, 3, 40)
	ids := [4]uint64{0, 40, 41, 42}
	a := m.Addr()

	fill(m)
	both(nil, 0, 4, 64, 128)
	check(ids, a+64, a+192, a+320, a+448)
	both(nil, 1, 2, 4088, -1024)
	check(ids, a+64, a+4088, a+3064, a+448)
	both(nil, 2, 0, -1, 0)
	for _, bad := range [][4]int{{0, 4, 4000, 32}, {0, 4, -8, 8}, {0, 4, 16, -8}, {0, 4, 0, math.MaxInt}, {0, 3, 0, math.MaxInt/2 + 1},
		{0, 1, math.MaxInt, 0}, {2, 3, 0, 0}, {-1, 1, 0, 0}, {0, -1, 0, 0}, {0, 5, 0, 0}} {
		both(ErrOutOfRange, bad[0], bad[1], bad[2], bad[3])
	}
	check(ids, a+64, a+4088, a+3064, a+448)

	// The last request names a smaller region now.
	fill(other)
	both(nil, 0, 4, 0, 16)
	check(ids, a, a+16, a+32, other.Addr()+48)
	both(ErrOutOfRange, 0, 4, 0, 32)
	check(ids, a, a+16, a+32, other.Addr()+48)
	require.Panics(t, func() { send.SetIDs(3, 2, 0) })
	require.Panics(t, func() { recv.SetIDs(-1, 2, 0) })

	// Without an SGE there is nothing to move.
	require.NoError(t, send.Send(0))
	require.Equal(t, ErrOutOfRange, send.SetOffsets(0, 4, 0, 16))
}

// drain polls until nothing is left and returns what there was.
func drain(t testing.TB, c *CQ) (out []WC) {
	t.Helper()
	var wcs [8]WC
	for {
		n, err := c.Poll(wcs[:])
		require.NoError(t, err)
		if n == 0 {
			return out
		}
		out = append(out, wcs[:n]...)
	}
}

// TestRefusedRequests: what would leave its region, its message or its batch
// never reaches the device.
func TestRefusedRequests(t *testing.T) {
	f := newBench(t, benchConfig{inline: 64})
	m := f.mr(t, 4096, LocalWrite)
	ro := f.mr(t, 64, 0)
	big := f.mr(t, 2<<20, LocalWrite)
	r := Remote{0x1000, 1}
	other := newPD(f.ctx, f.dev.PD(), f.gone)
	foreign := newMR(other, make([]byte, 64), LocalWrite, 1, 2, f.gone, nil)
	gone := newMR(f.pd, make([]byte, 64), LocalWrite, 1, 2, f.gone, nil)
	require.NoError(t, gone.Close())
	t.Cleanup(func() {
		require.NoError(t, foreign.Close())
		require.NoError(t, other.Close())
	})
	for _, c := range []struct {
		name string
		set  func(*SendBatch) error
		want error
	}{
		{"past the end", func(b *SendBatch) error { return b.Send(0, m.SGE(4090, 7)) }, ErrOutOfRange},
		{"offset past the end", func(b *SendBatch) error { return b.Send(0, m.SGE(4097, 1)) }, ErrOutOfRange},
		{"negative offset", func(b *SendBatch) error { return b.Send(0, m.SGE(-1, 1)) }, ErrOutOfRange},
		{"negative length", func(b *SendBatch) error { return b.Send(0, m.SGE(1, -1)) }, ErrOutOfRange},
		{"overflowing sum", func(b *SendBatch) error { return b.Send(0, m.SGE(1, 1<<62), m.SGE(1, 1<<62)) }, ErrOutOfRange},
		{"moved past the end", func(b *SendBatch) error { return b.SetOffset(1, 4096-7) }, ErrOutOfRange},
		{"moved before the start", func(b *SendBatch) error { return b.SetOffset(1, -1) }, ErrOutOfRange},
		{"resized past the end", func(b *SendBatch) error { return b.SetLocal(1, 0, 8, 4089) }, ErrOutOfRange},
		{"resized to nothing", func(b *SendBatch) error { return b.SetLocal(1, 0, 8, 0) }, ErrInvalid},
		{"SGE that is not there", func(b *SendBatch) error { return b.SetLocal(1, 1, 0, 8) }, ErrInvalid},
		{"SGE of the next request", func(b *SendBatch) error { return b.SetLocal(0, 2, 0, 8) }, ErrInvalid},
		{"longer than the port takes", func(b *SendBatch) error { return b.Send(0, big.SGE(0, 1<<20), big.SGE(0, 1)) }, ErrTooLong},
		{"resized too long", func(b *SendBatch) error {
			return errors.Join(b.Send(0, big.SGE(0, 1)), b.SetLocal(0, 0, 0, 1<<20+1))
		}, ErrTooLong},
		{"three SGEs", func(b *SendBatch) error { return b.Send(0, m.SGE(0, 1), m.SGE(0, 1), m.SGE(0, 1)) }, ErrTooManySGE},
		{"READ into memory without LocalWrite", func(b *SendBatch) error { return b.Read(0, r, ro.SGE(0, 8)) }, ErrAccess},
		{"atomic into memory without LocalWrite", func(b *SendBatch) error { return b.FetchAdd(0, r, 1, ro.SGE(0, 8)) }, syscall.EACCES},
		{"atomic with a result of 4 bytes", func(b *SendBatch) error { return b.FetchAdd(0, r, 1, m.SGE(0, 4)) }, ErrInvalid},
		{"atomic on an odd address", func(b *SendBatch) error { return b.CompareSwap(0, Remote{4, 1}, 1, 1, m.SGE(0, 8)) }, syscall.EINVAL},
		{"atomic resized", func(b *SendBatch) error {
			return errors.Join(b.FetchAdd(0, r, 1, m.SGE(0, 8)), b.SetLocal(0, 0, 0, 16))
		}, ErrInvalid},
		{"too much inline", func(b *SendBatch) error { return b.SendInline(0, make([]byte, 60), make([]byte, 5)) }, ErrInlineTooLong},
		{"request that is not there", func(b *SendBatch) error { return b.Send(2, m.SGE(0, 1)) }, ErrInvalid},
		{"negative request", func(b *SendBatch) error { return b.Send(-1, m.SGE(0, 1)) }, ErrInvalid},
		{"no region", func(b *SendBatch) error { return b.Send(0, SGE{Length: 1}) }, ErrClosed},
		{"zero region", func(b *SendBatch) error { return b.Send(0, SGE{MR: new(MR), Length: 1}) }, ErrClosed},
		{"closed region", func(b *SendBatch) error { return b.Send(0, gone.SGE(0, 1)) }, ErrClosed},
		{"region of another PD", func(b *SendBatch) error { return b.Send(0, foreign.SGE(0, 1)) }, ErrForeignPD},
		{"no operation", func(b *SendBatch) error { _, err := b.Post(); return err }, ErrInvalid},
		{"range that is not there", func(b *SendBatch) error { _, err := b.PostRange(1, 2); return err }, ErrInvalid},
		{"negative range", func(b *SendBatch) error { _, err := b.PostRange(-1, 1); return err }, ErrInvalid},
		{"negative number", func(b *SendBatch) error { _, err := b.PostRange(1, -1); return err }, ErrInvalid},
		{"inline READ", func(b *SendBatch) error { return b.Set(0, SendWR{Op: OpRead, Inline: []byte{1}}) }, ErrInvalid},
		{"atomic with two results", func(b *SendBatch) error {
			return b.Set(0, SendWR{Op: OpFetchAdd, Remote: r, SGEs: []SGE{m.SGE(0, 8), m.SGE(8, 8)}})
		}, ErrInvalid},
		{"unknown operation", func(b *SendBatch) error { return b.Set(0, SendWR{Op: 99}) }, ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sendBatch(t, f.qp, BatchConfig{Requests: 2, SGEs: 2, Inline: 64})
			require.NoError(t, b.Send(1, m.SGE(0, 8)))
			err := c.set(b)
			require.ErrorIs(t, err, c.want)
			// Request 0 has no operation now, whatever it had before.
			if b.wrs[0].Opcode == unset {
				_, err = b.Post()
				require.ErrorIs(t, err, ErrInvalid)
			}
			require.Zero(t, f.fqp.Posted(false))
		})
	}
	for _, c := range []struct {
		name string
		set  func(*RecvBatch) error
		want error
	}{
		{"past the end", func(b *RecvBatch) error { return b.Recv(0, m.SGE(4090, 7)) }, ErrOutOfRange},
		{"memory without LocalWrite", func(b *RecvBatch) error { return b.Recv(0, ro.SGE(0, 8)) }, ErrAccess},
		{"two SGEs", func(b *RecvBatch) error { return b.Recv(0, m.SGE(0, 1), m.SGE(0, 1)) }, ErrTooManySGE},
		{"not there", func(b *RecvBatch) error { return b.Recv(1, m.SGE(0, 1)) }, ErrInvalid},
		{"moved", func(b *RecvBatch) error { return errors.Join(b.Recv(0, m.SGE(0, 1)), b.SetOffset(0, 4096)) }, ErrOutOfRange},
		{"nothing to move", func(b *RecvBatch) error { return b.SetOffset(0, 0) }, ErrOutOfRange},
	} {
		t.Run("receive "+c.name, func(t *testing.T) {
			require.ErrorIs(t, c.set(recvBatch(t, f.qp, BatchConfig{})), c.want)
		})
	}
	for _, c := range []struct {
		cfg  BatchConfig
		want error
	}{
		{BatchConfig{Requests: -1}, ErrInvalid},
		{BatchConfig{Requests: 1 << 30}, ErrInvalid},
		{BatchConfig{SGEs: 3}, ErrTooManySGE},
		{BatchConfig{SGEs: -1}, ErrTooManySGE},
		{BatchConfig{Inline: 65}, ErrInlineTooLong},
		{BatchConfig{Inline: -1}, ErrInlineTooLong},
	} {
		_, err := f.qp.NewSendBatch(c.cfg)
		require.ErrorIs(t, err, c.want)
	}
}

// TestIWARP: what a transport or device cannot do is refused before the post.
func TestIWARP(t *testing.T) {
	f := newBench(t, benchConfig{})
	f.qp.ops = opsOf(TransportIWARP, f.ctx.limits, RC)
	f.ctx.limits.dev.AtomicCap = AtomicNone
	m := f.mr(t, 64, LocalWrite)
	b := sendBatch(t, f.qp, BatchConfig{})
	require.ErrorIs(t, b.SendImm(0, 1, m.SGE(0, 8)), errors.ErrUnsupported)
	require.ErrorIs(t, b.WriteImm(0, Remote{}, 1, m.SGE(0, 8)), errors.ErrUnsupported)
	require.ErrorIs(t, b.FetchAdd(0, Remote{}, 1, m.SGE(0, 8)), errors.ErrUnsupported)
	require.ErrorIs(t, b.CompareSwap(0, Remote{}, 1, 2, m.SGE(0, 8)), errors.ErrUnsupported)
}

// TestStates: sends are refused before RTS, receives before INIT.
func TestStates(t *testing.T) {
	f := newBench(t, benchConfig{reset: true})
	m := f.mr(t, 64, LocalWrite)
	send, recv := sendBatch(t, f.qp, BatchConfig{}), recvBatch(t, f.qp, BatchConfig{})
	require.NoError(t, send.Send(0, m.SGE(0, 8)))
	require.NoError(t, recv.Recv(0, m.SGE(0, 8)))
	for _, c := range []struct {
		state      QPState
		send, recv error
	}{
		{QPReset, ErrQPState, ErrQPState}, {QPInit, ErrQPState, nil}, {QPRTR, ErrQPState, nil},
		{QPRTS, nil, nil}, {QPSQD, nil, nil}, {QPSQE, nil, nil}, {QPErr, nil, nil}, {QPState(7), ErrQPState, ErrQPState},
	} {
		f.qp.Track(c.state, 0, 0)
		require.Equal(t, c.state, f.qp.State())
		for i, err := range []error{second(send.Post()), second(recv.Post())} {
			want := []error{c.send, c.recv}[i]
			if want == nil {
				require.NoError(t, err, "%v", c.state)
				continue
			}
			require.ErrorIs(t, err, want, "%v", c.state)
			require.ErrorIs(t, err, syscall.EINVAL)
		}
	}
	require.Equal(t, 4, f.fqp.Posted(false))
	require.Equal(t, 6, f.fqp.Posted(true))
}

func second[A any](_ A, err error) error { return err }

// TestReadDepth: READs and atomics are refused where they could never complete.
func TestReadDepth(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 64, LocalWrite)
	r := Remote{0x1000, 1}
	f.qp.Track(QPRTS, 0, 0)
	for _, w := range []SendWR{
		{Op: OpRead, Remote: r, SGEs: []SGE{m.SGE(0, 8)}},
		{Op: OpCompareSwap, Remote: r, SGEs: []SGE{m.SGE(0, 8)}},
		{Op: OpFetchAdd, Remote: r, SGEs: []SGE{m.SGE(0, 8)}},
	} {
		require.ErrorIs(t, f.qp.PostSend(w), ErrReadDepthZero, "%v", w.Op)
	}
	require.NoError(t, f.qp.PostSend(SendWR{Op: OpWrite, Remote: r, SGEs: []SGE{m.SGE(0, 8)}}))
	f.qp.Track(QPRTS, 1, 0)
	require.NoError(t, f.qp.PostSend(SendWR{Op: OpRead, Remote: r, SGEs: []SGE{m.SGE(0, 8)}}))
	f.qp.Track(QPRTS, -1, 0)
	require.NoError(t, f.qp.PostSend(SendWR{Op: OpRead, Remote: r, SGEs: []SGE{m.SGE(0, 8)}}))
}

// TestPartialPost: how many requests are in flight after a provider's refusal,
// with and without bad_wr.
func TestPartialPost(t *testing.T) {
	for _, recv := range []bool{false, true} {
		for _, fail := range []int{0, 2, 3} {
			for _, silent := range []bool{false, true} {
				f := newBench(t, benchConfig{})
				f.fqp.Hold(true)
				var posters []func() (int, error)
				var mrs []*MR
				// Each request of the batch in a region of its own.
				s, r := sendBatch(t, f.qp, BatchConfig{Requests: 4}), recvBatch(t, f.qp, BatchConfig{Requests: 4})
				for i := range 4 {
					m := f.mr(t, 100+i, LocalWrite)
					mrs = append(mrs, m)
					require.NoError(t, s.Send(i, m.SGE(0, 8)))
					require.NoError(t, r.Recv(i, m.SGE(0, 8)))
				}
				posters = append(posters, s.Post, r.Post)
				post := posters[0]
				if recv {
					post = posters[1]
				}
				f.fqp.Fail(recv, fail, syscall.EIO, silent)
				n, err := post()
				require.ErrorIs(t, err, syscall.EIO)
				if silent {
					require.ErrorIs(t, err, ErrAcceptedUnknown)
					require.Equal(t, 4, n)
				} else {
					require.NotErrorIs(t, err, ErrAcceptedUnknown)
					require.Equal(t, fail, n)
				}
				// What the provider took is in flight; without its word, all is.
				for i, m := range mrs {
					err := m.Close()
					switch {
					case silent || i < fail:
						require.ErrorIs(t, err, ErrBusy, "recv %v fail %d silent %v region %d", recv, fail, silent, i)
					case fail == 0:
						require.NoError(t, err, "recv %v fail %d silent %v region %d", recv, fail, silent, i)
					}
				}
				require.Equal(t, fail, f.fqp.Complete(recv, 10, 0, 0, 0))
				drain(t, f.scq)
				drain(t, f.rcq)
				for i, m := range mrs {
					err := m.Close()
					if silent && i >= fail {
						require.ErrorIs(t, err, ErrBusy)
					} else {
						require.NoError(t, err)
					}
				}
			}
		}
	}
}

// TestQueueFull: the queue's room is what was granted, whatever the provider
// would take, and completions that were polled make room.
func TestQueueFull(t *testing.T) {
	f := newBench(t, benchConfig{depth: 4})
	m := f.mr(t, 64, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 4})
	for i := range 4 {
		require.NoError(t, s.Send(i, m.SGE(0, 8)))
	}
	n, err := s.PostRange(0, 3)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n, err = s.PostRange(0, 2)
	require.ErrorIs(t, err, ErrQueueFull)
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Zero(t, n)
	require.Equal(t, 3, f.fqp.Posted(false))
	n, err = s.PostRange(3, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Len(t, drain(t, f.scq), 4)

	// Without a signalled request nothing ever makes room.
	for i := range 4 {
		s.SetFlags(i, Unsignaled)
	}
	_, err = s.Post()
	require.NoError(t, err)
	require.Empty(t, drain(t, f.scq))
	_, err = s.PostRange(0, 1)
	require.ErrorIs(t, err, ErrQueueFull)

	r := recvBatch(t, f.qp, BatchConfig{Requests: 4})
	for i := range 4 {
		require.NoError(t, r.Recv(i, m.SGE(0, 8)))
	}
	_, err = r.Post()
	require.NoError(t, err)
	_, err = r.PostRange(2, 1)
	require.ErrorIs(t, err, ErrQueueFull)
	f.fqp.Complete(true, 2, 0, 0, 8)
	require.Len(t, drain(t, f.rcq), 2)
	_, err = r.PostRange(2, 2)
	require.NoError(t, err)
}

// TestSignalEveryFourth runs a queue round and round with one completion for
// four requests.
func TestSignalEveryFourth(t *testing.T) {
	f := newBench(t, benchConfig{depth: 8})
	m := f.mr(t, 64, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 4})
	for i := range 4 {
		require.NoError(t, s.Send(i, m.SGE(0, 8)))
		s.SetFlags(i, Unsignaled)
	}
	s.SetFlags(3, 0)
	for i := range 100 {
		s.SetID(3, uint64(i))
		_, err := s.Post()
		require.NoError(t, err, "round %d", i)
		wcs := drain(t, f.scq)
		require.Len(t, wcs, 1)
		require.Equal(t, uint64(i), wcs[0].ID())
	}
	require.NoError(t, m.Close())
}

// TestRanges posts parts of a batch in any order; the chain is mended each time.
func TestRanges(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 64, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 8})
	for i := range 8 {
		require.NoError(t, s.Send(i, m.SGE(i, 1)))
		s.SetID(i, uint64(i))
	}
	for _, r := range [][2]int{{0, 8}, {2, 3}, {0, 8}, {7, 1}, {0, 1}, {3, 0}, {1, 7}, {0, 8}} {
		n, err := s.PostRange(r[0], r[1])
		require.NoError(t, err)
		require.Equal(t, r[1], n)
		var ids, want []uint64
		for _, w := range drain(t, f.scq) {
			ids = append(ids, w.ID())
		}
		for i := range r[1] {
			want = append(want, uint64(r[0]+i))
		}
		require.Equal(t, want, ids)
	}
}

// TestNoAllocations: posting, polling and the setters allocate nothing.
func TestNoAllocations(t *testing.T) {
	f := newBench(t, benchConfig{inline: 64})
	m := f.mr(t, 4096, LocalWrite)
	m2 := f.mr(t, 128, LocalWrite)
	s := sendBatch(t, f.qp, BatchConfig{Requests: 4, SGEs: 2, Inline: 64})
	r := recvBatch(t, f.qp, BatchConfig{Requests: 4})
	wcs := make([]WC, 8)
	data := []byte("some bytes")
	remote := Remote{64, 1}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	sges := []SGE{m.SGE(0, 8)}
	for name, call := range map[string]func(){
		"batch": func() {
			must(s.Send(0, m.SGE(0, 8), m2.SGE(0, 8)))
			must(s.WriteImm(1, remote, 7, m.SGE(8, 8)))
			must(s.FetchAdd(2, remote, 1, m.SGE(16, 8)))
			must(s.SendInline(3, data))
			for i := range 4 {
				s.SetID(i, 5)
				s.SetFlags(i, Fence)
			}
			must(s.SetOffset(0, 16))
			must(s.SetLocal(1, 0, 16, 32))
			must(second(s.Post()))
			for got := 0; got < 4; {
				n, err := f.scq.Poll(wcs)
				must(err)
				got += n
			}
		},
		"combined": func() {
			for i := range 4 { // whatever the other cases have made of the batch
				must(s.Send(i, m.SGE(0, 8)))
				must(s.SetOffset(i, 8*i))
			}
			_, n, err := s.PostPoll(f.scq, wcs)
			must(err)
			if n != 4 {
				t.Fatal("completions missing")
			}
		},
		"combined, waiting": func() {
			for i := range 4 {
				must(s.Send(i, m.SGE(0, 8)))
			}
			_, n, err := s.PostWait(f.scq, wcs, 4, time.Millisecond)
			must(err)
			if n != 4 {
				t.Fatal("completions missing")
			}
		},
		"receive batch": func() {
			for i := range 4 {
				must(r.Recv(i, m.SGE(i*8, 8)))
			}
			must(second(r.Post()))
			f.fqp.Complete(true, 4, 0, 1, 8)
			n, err := f.rcq.Poll(wcs)
			must(err)
			for i := range wcs[:n] {
				if imm, ok := wcs[i].Imm(); !ok || imm != 1<<24 || wcs[i].Len() != 8 || wcs[i].Opcode() != WCRecv {
					t.Fatal("wrong completion")
				}
			}
		},
		"one by one": func() {
			must(f.qp.PostSend(SendWR{Op: OpWrite, Remote: remote, SGEs: sges}))
			must(f.qp.PostSend(SendWR{Inline: data}))
			must(f.qp.PostRecv(RecvWR{SGEs: sges}))
			f.fqp.Complete(true, 1, 0, 0, 8)
			for _, c := range []*CQ{f.scq, f.rcq} {
				n, err := c.Poll(wcs)
				must(err)
				if n == 0 {
					t.Fatal("no completion")
				}
			}
		},
		"queue full": func() {
			full := false
			for range 20 {
				_, err := r.Post()
				full = full || err != nil
			}
			if !full {
				t.Fatal("not full")
			}
			f.fqp.Complete(true, 16, 0, 0, 8)
			for {
				n, err := f.rcq.Poll(wcs)
				must(err)
				if n == 0 {
					break
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			call()
			require.Zero(t, testing.AllocsPerRun(100, call))
		})
	}
}

// TestBatchLayout: the mirrored structures are the ones that C reads.
func TestBatchLayout(t *testing.T) {
	require.Equal(t, 2, int(cgo.WRSend))
	f := newBench(t, benchConfig{sges: 2})
	s := sendBatch(t, f.qp, BatchConfig{Requests: 3, SGEs: 2})
	require.Len(t, s.wrs, 3)
	require.Len(t, s.sges, 6)
	require.Zero(t, uintptr(s.mem.Pointer())%64)
	require.Equal(t, s.wrs[0].SGList+32, s.wrs[1].SGList)
	require.Equal(t, s.wrs[0].Next+128, s.wrs[1].Next)
	require.Zero(t, s.wrs[2].Next)
}
