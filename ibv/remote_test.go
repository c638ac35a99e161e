package ibv

import (
	"encoding"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	_ encoding.BinaryMarshaler   = RemoteBuffer{}
	_ encoding.BinaryAppender    = RemoteBuffer{}
	_ encoding.BinaryUnmarshaler = (*RemoteBuffer)(nil)
)

// TestRemoteBuffer: nothing outside the buffer can be named.
func TestRemoteBuffer(t *testing.T) {
	b := RemoteBuffer{Addr: 0x1000, Len: 100, RKey: 7}
	r, err := b.At(40, 60)
	require.NoError(t, err)
	require.Equal(t, Remote{0x1000 + 40, 7}, r)
	s, err := b.Slice(10, 20)
	require.NoError(t, err)
	require.Equal(t, RemoteBuffer{0x1000 + 10, 20, 7}, s)
	_, err = s.At(20, 0)
	require.NoError(t, err)
	for _, c := range [][2]uint64{{0, 101}, {101, 0}, {100, 1}, {50, 51}, {math.MaxUint64, 2}, {2, math.MaxUint64}, {1 << 63, 1 << 63}} {
		_, err := b.At(c[0], c[1])
		require.ErrorIs(t, err, ErrOutOfRange, "%v", c)
		require.ErrorContains(t, err, "remote memory of 100 bytes at 0x1000 (rkey 0x7)")
	}
}

// TestRemoteBufferBinary: the form on the wire is fixed.
func TestRemoteBufferBinary(t *testing.T) {
	b := RemoteBuffer{Addr: 0x0102030405060708, Len: 0x1112131415161718, RKey: 0x21222324}
	wire, err := b.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, []byte{1, 0, 0, 0, 0x21, 0x22, 0x23, 0x24, 1, 2, 3, 4, 5, 6, 7, 8,
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}, wire)
	var back RemoteBuffer
	require.NoError(t, back.UnmarshalBinary(wire))
	require.Equal(t, b, back)

	require.ErrorIs(t, back.UnmarshalBinary(wire[:23]), ErrInvalid)
	require.ErrorIs(t, back.UnmarshalBinary(append(wire, 0)), ErrInvalid)
	require.ErrorIs(t, back.UnmarshalBinary(nil), ErrInvalid)
	wire[0] = 2
	require.ErrorIs(t, back.UnmarshalBinary(wire), ErrInvalid)
	wire[0], wire[8], wire[16] = 1, 0xff, 0xff
	require.ErrorIs(t, back.UnmarshalBinary(wire), ErrOutOfRange)
	require.Equal(t, b, back, "a failure changes nothing")
	_, err = RemoteBuffer{Addr: math.MaxUint64, Len: 2}.MarshalBinary()
	require.ErrorIs(t, err, ErrOutOfRange)
}

// FuzzRemoteBuffer: whatever a peer sends is refused or means one thing.
func FuzzRemoteBuffer(f *testing.F) {
	wire, _ := RemoteBuffer{Addr: 1, Len: 2, RKey: 3}.MarshalBinary()
	f.Add(wire, uint64(0), uint64(2))
	f.Add([]byte("nonsense"), uint64(1), uint64(1))
	f.Fuzz(func(t *testing.T, wire []byte, offset, length uint64) {
		var b RemoteBuffer
		if b.UnmarshalBinary(wire) != nil {
			require.Zero(t, b)
			return
		}
		again, err := b.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, wire, again)
		if r, err := b.At(offset, length); err == nil {
			require.GreaterOrEqual(t, r.Addr, b.Addr)
			require.LessOrEqual(t, r.Addr+length, b.Addr+b.Len)
			require.GreaterOrEqual(t, r.Addr+length, r.Addr)
		}
	})
}
