package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/railbind/railbind/ibv"
)

// The protocol, as rdma-core's rping speaks it. For each ping the client sends
// an advert of its source buffer; the server READs it and sends a go-ahead; the
// client sends an advert of its sink; the server WRITEs the same data there and
// sends a go-ahead. A go-ahead has an advert's length and no meaning else.

// advertLen is the length of every message.
const advertLen = 16

// Sizes of a ping, in bytes.
const (
	minSize     = 16
	maxSize     = 64 << 10
	defaultSize = 64
)

// Errors of a peer that breaks the protocol, or of data that did not survive.
var (
	errProtocol = errors.New("the peer does not speak rping's protocol")
	errMismatch = errors.New("the data is not what was sent")
)

// advert names a buffer to the peer: big-endian address, key, length.
type advert struct {
	addr uint64
	rkey uint32
	size uint32
}

func (a advert) encode() []byte {
	b := make([]byte, 0, advertLen)
	b = binary.BigEndian.AppendUint64(b, a.addr)
	b = binary.BigEndian.AppendUint32(b, a.rkey)
	return binary.BigEndian.AppendUint32(b, a.size)
}

func decode(b []byte) (advert, error) {
	if len(b) != advertLen {
		return advert{}, fmt.Errorf("%w: a message of %d bytes instead of %d", errProtocol, len(b), advertLen)
	}
	return advert{
		addr: binary.BigEndian.Uint64(b),
		rkey: binary.BigEndian.Uint32(b[8:]),
		size: binary.BigEndian.Uint32(b[12:]),
	}, nil
}

func (a advert) remote() ibv.Remote { return ibv.Remote{Addr: a.addr, RKey: a.rkey} }

func (a advert) String() string {
	return fmt.Sprintf("%d bytes at %#x, rkey %#x", a.size, a.addr, a.rkey)
}

// Characters of the pattern behind a ping's heading: 'A' to 'z', one further at
// the start of each ping.
const (
	firstChar = 'A'
	lastChar  = 'z'
	chars     = lastChar - firstChar + 1
)

// fill writes the data of ping n: a heading, the pattern, and a zero byte last.
func fill(b []byte, n int) {
	head := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := head; i < len(b); i++ {
		b[i] = byte(firstChar + (n+i-head)%chars)
	}
	if len(b) > 0 {
		b[len(b)-1] = 0
	}
}

// verify compares data with what was sent.
func verify(got, want []byte, n int) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("%w: ping %d, byte %d of %d is %#02x instead of %#02x", errMismatch, n, i, len(want), got[i], want[i])
		}
	}
	return fmt.Errorf("%w: ping %d has %d bytes instead of %d", errMismatch, n, len(got), len(want))
}

// text is a ping's data as rping prints it: up to the first zero byte.
func text(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}
