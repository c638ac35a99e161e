package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdvert(t *testing.T) {
	a := advert{addr: 0x0102030405060708, rkey: 0x0a0b0c0d, size: 0x10000}
	raw := []byte{1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 0, 1, 0, 0}
	require.Equal(t, raw, a.encode())
	got, err := decode(raw)
	require.NoError(t, err)
	require.Equal(t, a, got)
	require.Len(t, advert{}.encode(), advertLen, "a go-ahead")
	for _, n := range []int{0, 1, 15, 17, 64} {
		_, err := decode(make([]byte, n))
		require.ErrorIs(t, err, errProtocol)
	}
}

// What C rping puts into its buffer, written out.
func TestFill(t *testing.T) {
	for _, c := range []struct {
		n, size int
		want    string
	}{
		{0, 32, "rdma-ping-0: ABCDEFGHIJKLMNOPQR\x00"},
		{1, 32, "rdma-ping-1: BCDEFGHIJKLMNOPQRS\x00"},
		{57, 24, "rdma-ping-57: zABCDEFGH\x00"},
		{58, 24, "rdma-ping-58: ABCDEFGHI\x00"},
		{10, 16, "rdma-ping-10: K\x00"},
		{1000, 16, "rdma-ping-1000:\x00"},
		{123456, 16, "rdma-ping-12345\x00"},
		{0, 80, "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyzABCDEFGH\x00"},
		{0, 1, "\x00"},
		{0, 0, ""},
	} {
		b := bytes.Repeat([]byte{0xff}, c.size)
		fill(b, c.n)
		require.Equal(t, c.want, string(b))
		require.Equal(t, strings.TrimRight(c.want, "\x00"), string(text(b)))
	}
}

func TestVerify(t *testing.T) {
	want := make([]byte, 100)
	fill(want, 3)
	require.NoError(t, verify(bytes.Clone(want), want, 3))
	got := bytes.Clone(want)
	got[42] ^= 0x20
	err := verify(got, want, 3)
	require.ErrorIs(t, err, errMismatch)
	require.ErrorContains(t, err, "ping 3, byte 42 of 100")
	require.ErrorIs(t, verify(want[:99], want, 3), errMismatch)
	other := make([]byte, 100)
	fill(other, 4)
	require.ErrorIs(t, verify(other, want, 3), errMismatch)
}

func FuzzDecode(f *testing.F) {
	f.Add(advert{addr: 1, rkey: 2, size: 3}.encode())
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decode(b)
		if (err == nil) != (len(b) == advertLen) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if err == nil && !bytes.Equal(a.encode(), b) {
			t.Fatalf("%x became %x", b, a.encode())
		}
	})
}
