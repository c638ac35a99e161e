//go:build linux && cgo

package ibv

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTransferCut(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 1000, LocalWrite)
	for _, c := range []struct{ offset, length, piece, pieces, last int }{
		{0, 1, 10, 1, 1}, {0, 10, 10, 1, 10}, {5, 11, 10, 2, 1}, {0, 1000, 1, 1000, 1}, {0, 1000, 999, 2, 1}, {0, 1000, 0, 1, 1000},
	} {
		b, err := f.qp.NewTransfer(m.SGE(c.offset, c.length), Remote{0x1000, 77}, TransferConfig{Piece: c.piece, Read: c.offset > 0})
		require.NoError(t, err)
		require.Equal(t, c.pieces, b.Len())
		from := f.fqp.Posted(false)
		done, err := b.Run(t.Context(), RunConfig{})
		require.NoError(t, err)
		require.Equal(t, c.pieces, done)
		// The device keeps no more than its queue.
		for i := max(0, c.pieces-16); i < c.pieces; i++ {
			r, at := f.fqp.Request(false, from+i), i*c.piece
			require.Equal(t, m.Addr()+uint64(c.offset+at), r.Addr[0])
			require.Equal(t, uint64(0x1000+at), r.RemoteAddr)
			require.Equal(t, uint32(77), r.RKey)
			want := c.piece
			if i == c.pieces-1 {
				want = c.last
			}
			require.Equal(t, uint32(want), r.Length[0])
		}
	}
	readOnly := f.mr(t, 64, 0)
	for _, c := range []struct {
		local  SGE
		remote uint64
		cfg    TransferConfig
		want   error
	}{
		{m.SGE(0, 1000), 0, TransferConfig{Piece: 1<<20 + 1}, ErrTooLong},
		{m.SGE(0, 1000), 0, TransferConfig{Piece: -1}, ErrTooLong},
		{m.SGE(0, 0), 0, TransferConfig{}, ErrOutOfRange},
		{m.SGE(0, 1001), 0, TransferConfig{}, ErrOutOfRange},
		{m.SGE(900, 101), 0, TransferConfig{Piece: 50}, ErrOutOfRange},
		{m.SGE(0, 1000), math.MaxUint64 - 998, TransferConfig{}, ErrOutOfRange},
		{readOnly.SGE(0, 64), 0, TransferConfig{Read: true}, ErrAccess},
		{SGE{}, 0, TransferConfig{}, ErrOutOfRange},
		{SGE{Length: 8}, 0, TransferConfig{}, ErrClosed},
	} {
		_, err := f.qp.NewTransfer(c.local, Remote{Addr: c.remote}, c.cfg)
		require.ErrorIs(t, err, c.want, "%+v", c)
	}
}
