package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"sync"
)

// The table is an array of slots of one size, in memory that clients read:
//
//	checksum of the rest | version | length of key | of value | key, value
//
// A client that reads while the server writes gets a torn slot: the checksum tells,
// and it reads again. The version says which of two values is newer.
const (
	slots    = 1024
	slotSize = 256
	header   = 4 + 8 + 2 + 2
	most     = slotSize - header // bytes of key and value together
	probes   = 8                 // slots that may hold a key
)

var (
	errTorn  = errors.New("the slot was written meanwhile")
	errEmpty = errors.New("no such key")
)

// table writes slots; readers need no lock.
type table struct {
	mu      sync.Mutex
	memory  []byte
	version uint64
}

// place is where a key is looked for first; the next ones follow, around the end.
func place(key []byte) int {
	h := fnv.New32a()
	_, _ = h.Write(key)
	return int(h.Sum32() % slots)
}

func (t *table) slot(i int) []byte { return t.memory[i%slots*slotSize:][:slotSize] }

// put stores a value and returns its version.
func (t *table) put(key, value []byte) (uint64, error) {
	if len(key) == 0 || len(key)+len(value) > most {
		return 0, fmt.Errorf("key and value of %d bytes: want 1 to %d", len(key)+len(value), most)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range probes {
		s := t.slot(place(key) + i)
		have, _, version, err := parse(s)
		if err != nil || version != 0 && !bytes.Equal(have, key) {
			continue
		}
		t.version++
		fill(s, t.version, key, value)
		return t.version, nil
	}
	return 0, errors.New("the table is full here")
}

func fill(s []byte, version uint64, key, value []byte) {
	binary.BigEndian.PutUint64(s[4:], version)
	binary.BigEndian.PutUint16(s[12:], uint16(len(key)))
	binary.BigEndian.PutUint16(s[14:], uint16(len(value)))
	copy(s[header+copy(s[header:], key):], value)
	binary.BigEndian.PutUint32(s, crc32.ChecksumIEEE(s[4:]))
}

// parse reads a slot; an empty one has version 0.
func parse(s []byte) (key, value []byte, version uint64, err error) {
	version = binary.BigEndian.Uint64(s[4:])
	sum := binary.BigEndian.Uint32(s)
	if version == 0 && sum == 0 {
		return nil, nil, 0, nil
	}
	k, v := int(binary.BigEndian.Uint16(s[12:])), int(binary.BigEndian.Uint16(s[14:]))
	if sum != crc32.ChecksumIEEE(s[4:]) || k+v > most {
		return nil, nil, 0, errTorn
	}
	return s[header : header+k], s[header+k : header+k+v], version, nil
}
