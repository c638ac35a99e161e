package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
)

// content is what the peer's memory holds, which the first message that is long
// enough tells: rb-perftest's pattern, or what perftest fills its memory with, which
// is C's rand() with the time in seconds as its seed (in write-lat it is zeros).
type content struct {
	from, until time.Time // between these the peer has filled its memory
	image       []byte    // from the beginning of what it sends
	asked       bool
	bytes       int64 // that were as they should
}

// telling is how long a message must be, to tell one content from another.
const telling = 8

// take compares what was at a place of the peer's memory.
func (c *content) take(e *end, at int, b []byte) error {
	if len(b) < telling || !c.know(e, at, b) {
		return nil
	}
	want := c.image[at : at+len(b)]
	for i := range b {
		if b[i] != want[i] {
			return fmt.Errorf("%w: byte %d of %d is %#02x instead of %#02x", peer.ErrMismatch, i, len(b), b[i], want[i])
		}
	}
	c.bytes += int64(len(b))
	return nil
}

// know reports whether the content is known, or can be told by this piece of it.
func (c *content) know(e *end, at int, b []byte) bool {
	if c.asked {
		return c.image != nil
	}
	c.asked = true
	fits := func(image []byte) bool { return bytes.Equal(image[at:at+telling], b[:telling]) }
	size := 2 * e.span()
	for _, image := range [][]byte{peer.Pattern(size), make([]byte, size)} {
		if fits(image) {
			c.image = image
			return true
		}
	}
	// (A second more on each side, for clocks that differ.)
	for t := c.from.Unix() - 1; t <= c.until.Unix()+1; t++ {
		if fits(cRand(uint32(t), at+telling)) {
			c.image = cRand(uint32(t), size)
			return true
		}
	}
	return false
}

// takeWord compares what the k-th atomic found: each before it at its place has
// added 1.
func (c *content) takeWord(e *end, k int, b []byte) error {
	at := e.span() + e.at(k)
	if !c.know(e, at, b) {
		return nil
	}
	was := binary.LittleEndian.Uint64(c.image[at:]) + uint64(k/e.parts())
	return c.word(k, b, was)
}

func (c *content) word(k int, b []byte, want uint64) error {
	if is := binary.LittleEndian.Uint64(b); is != want {
		return fmt.Errorf("%w: word %d is %#x instead of %#x", peer.ErrMismatch, k, is, want)
	}
	c.bytes += 8
	return nil
}

// left looks at what the client has left in this end's memory.
func (e *end) left() error {
	parts := e.parts()
	for k := range parts {
		at := e.span() + e.at(k)
		b := e.mr.Bytes()[at:][:e.size]
		var err error
		switch {
		case e.atomic():
			was := binary.LittleEndian.Uint64(peer.Pattern(2 * e.span())[at:])
			err = e.there.word(k, b, was+uint64((e.n-k+parts-1)/parts))
		case e.stream && !e.fetches():
			err = e.there.take(e, e.at(k), b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cRand is what the low bytes of glibc's rand() are after srand(seed): a feedback
// of the numbers 3 and 31 before, from a start that a linear generator gives.
func cRand(seed uint32, n int) []byte {
	const warm = 310 // numbers that are thrown away
	r := make([]uint32, 34, 34+warm+n)
	if seed == 0 {
		seed = 1
	}
	x := int64(int32(seed))
	for i := range 31 {
		r[i] = uint32(x)
		if x = x * 16807 % 0x7fffffff; x < 0 {
			x += 0x7fffffff
		}
	}
	copy(r[31:], r[:3])
	b := make([]byte, n)
	for i := 34; i < 34+warm+n; i++ {
		r = append(r, r[i-31]+r[i-3])
		if k := i - 34 - warm; k >= 0 {
			b[k] = byte(r[i] >> 1)
		}
	}
	return b
}
