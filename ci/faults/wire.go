//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
)

// Each round, a client writes a block into the server's memory, and says so in a
// message; the server compares, and answers with bytes of its own; the client
// reads its block back. So every way of moving data is verified on both ends.
const (
	memory     = 64 << 10 // of a connection, at the server
	mostBlock  = 8 << 10
	mostAnswer = 3 << 10
	headerLen  = 20
	mostLen    = headerLen + mostAnswer
)

// errWrong is the one thing that may never happen.
var errWrong = errors.New("WRONG BYTES")

// message is sent in both directions: where the block is, or, from the server,
// bytes that follow, and a checksum of it.
type message struct {
	seq            uint64
	offset, length uint32
	sum            uint32
}

func (m message) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.seq)
	b = binary.BigEndian.AppendUint32(b, m.offset)
	b = binary.BigEndian.AppendUint32(b, m.length)
	return binary.BigEndian.AppendUint32(b, m.sum)
}

func parse(b []byte) (m message, rest []byte, err error) {
	if len(b) < headerLen {
		return m, nil, errWrong
	}
	m.seq = binary.BigEndian.Uint64(b)
	m.offset = binary.BigEndian.Uint32(b[8:])
	m.length = binary.BigEndian.Uint32(b[12:])
	m.sum = binary.BigEndian.Uint32(b[16:])
	return m, b[headerLen:], nil
}

var table = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, table) }

// noise fills b with bytes that are not those before.
func noise(b []byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
}
