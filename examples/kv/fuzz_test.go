package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// What a client reads of a server's memory, whatever the server has put there,
// with a checksum that is right.
func FuzzSlot(f *testing.F) {
	good := make([]byte, slotSize)
	fill(good, 1, []byte("key"), []byte("value"))
	f.Add(good)
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, slotSize)) // lengths beyond the slot
	f.Fuzz(func(t *testing.T, b []byte) {
		s := make([]byte, slotSize)
		copy(s, b)
		binary.BigEndian.PutUint32(s, crc32.ChecksumIEEE(s[4:]))
		key, value, version, err := parse(s)
		if err != nil || version == 0 {
			return
		}
		again := bytes.Clone(s)
		fill(again, version, key, value)
		if !bytes.Equal(again, s) {
			t.Fatalf("%x became %x", s, again)
		}
	})
}

// What a server makes of a client's message.
func FuzzStore(f *testing.F) {
	f.Add([]byte("\x00\x03keyvalue"))
	f.Add([]byte("\xff\xffkey"))
	f.Add([]byte("\x00"))
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, m []byte) {
		tab := &table{memory: make([]byte, slots*slotSize)}
		reply := store(tab, m)
		if len(reply) < 8 || len(reply) == 8 && binary.BigEndian.Uint64(reply) != 1 {
			t.Fatalf("%x answers %x", m, reply)
		}
	})
}
