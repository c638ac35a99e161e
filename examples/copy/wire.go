package main

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
)

// The receiver lends its memory as a ring of pieces. The sender writes a piece,
// and says so in a message; the receiver gives the place back by another one. After
// the last piece of a file it answers with the checksum of what it has stored.
const (
	piece  = 256 << 10 // bytes
	pieces = 8         // in the ring
)

var errProtocol = errors.New("the peer does not speak this protocol")

// offer begins a file: its size, and its name behind that.
type offer struct {
	size uint64
	name string
}

func (o offer) bytes() []byte { return append(binary.BigEndian.AppendUint64(nil, o.size), o.name...) }

func parseOffer(b []byte) (offer, error) {
	if len(b) < 9 || len(b) > 8+255 {
		return offer{}, errProtocol
	}
	o := offer{binary.BigEndian.Uint64(b), string(b[8:])}
	// The name of a file of this folder, and of no other.
	if !filepath.IsLocal(o.name) || o.name != filepath.Base(o.name) || o.name == "." || strings.Contains(o.name, "\x00") {
		return offer{}, errProtocol
	}
	return o, nil
}
