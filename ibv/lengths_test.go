//go:build linux && cgo

package ibv

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

// Case 45: an SGE has its length in 32 bits, and a provider sums them in as many.
// What would wrap is refused, what just fits is not.

// sums are lengths of two pieces of memory, one after the other, and whether a
// request may have both.
var sums = []struct {
	first, second int
	fits          bool
}{
	{1<<32 - 1, 0, true},
	{1<<32 - 2, 1, true},
	{1 << 31, 1<<31 - 1, true},
	{1 << 32, 0, false}, // would be 0, which some devices take for 2 GiB
	{1<<32 + 8, 0, false},
	{1<<32 - 1, 1, false},
	{1<<32 - 1, 9, false},
	{1 << 31, 1 << 31, false},
	{8, 1<<32 - 8, false},
	{8, 1 << 32, false},
	{3 << 32, 3 << 32, false},
}

// vast is a region that only its numbers make large.
func vast(t *testing.T, f *bench) *MR {
	m := newMR(f.pd, make([]byte, 64), allAccess|MWBind, 7, 8, f.gone, nil)
	m.size = 1 << 40
	t.Cleanup(func() {
		require.NoError(t, f.qp.Close())
		require.NoError(t, m.Close())
	})
	return m
}

func TestLengthsAt32Bits(t *testing.T) {
	f := newBench(t, benchConfig{})
	f.ctx.limits.dev.CapFlags = capMemExtensions
	f.qp.ops = opsOf(TransportIB, f.ctx.limits, RC)
	f.qp.maxMsg.Store(1<<32 - 1) // no port takes more
	m := vast(t, f)
	send, recv := sendBatch(t, f.qp, BatchConfig{SGEs: 2}), recvBatch(t, f.qp, BatchConfig{SGEs: 2})
	s := f.fakeSRQ(t, SRQConfig{MaxTags: 4, MaxTagOps: 2})
	shared, err := s.NewRecvBatch(BatchConfig{})
	require.NoError(t, err)
	for _, c := range sums {
		sges := []SGE{m.SGE(0, c.first), m.SGE(1<<38, c.second)}
		check := func(what any, err error) {
			t.Helper()
			if c.fits {
				require.NoError(t, err, "%v of %d and %d", what, c.first, c.second)
				return
			}
			require.ErrorIs(t, err, ErrTooLong, "%v of %d and %d", what, c.first, c.second)
		}
		for _, op := range []Opcode{OpSend, OpSendImm, OpSendInv, OpWrite, OpWriteImm, OpRead} {
			check(op, send.Set(0, SendWR{Op: op, SGEs: sges}))
			require.Equal(t, c.fits, second(send.Post()) == nil)
			drain(t, f.scq)
		}
		check("RECV", recv.Recv(0, sges...))
		check("tag", second(s.AddTag(TagRecv{SGEs: sges}, TagUpdate{})))
		if c.second == 0 {
			check("shared RECV", shared.Recv(0, sges[0]))
			check("advice", f.pd.Advise(PrefetchRead, false, sges[0]))
			continue
		}
		// The same by a change of one piece.
		for j, length := range []int{c.first, c.second} {
			if sges[1-j].Length >= 1<<32-1 { // itself too long, beside anything
				continue
			}
			sges[j].Length = 1
			require.NoError(t, send.Send(0, sges...))
			require.NoError(t, recv.Recv(0, sges...))
			check("resized SEND", send.SetLocal(0, j, 0, length))
			check("resized RECV", recv.SetLocal(0, j, 0, length))
			sges[j].Length = length
		}
	}
	require.NoError(t, recv.Recv(0, m.SGE(5, 1<<32-1)))
	require.NoError(t, second(recv.Post()))
	require.Equal(t, uint32(1<<32-1), f.fqp.Request(true, 0).Length[0])

	// What is longer than a message is cut, or is none.
	transfer, err := f.qp.NewTransfer(m.SGE(3, 1<<33), Remote{}, TransferConfig{Piece: 1<<32 - 1})
	require.NoError(t, err)
	require.Equal(t, 3, transfer.Len())
	raw := f.dev.NewMW(0x500)
	defer raw.Free()
	w := &MW{held: newHeld(newNode("window", nil, f.pd.node), f.pd), h: raw.Handle(), typ: MWType2, destroy: f.gone}
	f.qp.ops |= 1 << cgo.WRBindMW
	require.NoError(t, f.qp.PostSend(SendWR{Op: OpBindMW, MW: w, Bind: Bind{MR: m, Length: 5 << 32, Access: RemoteWrite}}))
	require.Equal(t, uint64(5<<32), f.fqp.Odd().Bind[1])
	drain(t, f.scq)
	require.NoError(t, w.Close())
}
