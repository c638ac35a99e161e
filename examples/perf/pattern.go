package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

var errMismatch = errors.New("the data is not what was sent")

// mix is splitmix64: neighbouring seeds give unrelated words.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes the data that belongs to a seed. No two messages have the same
// seed, so that data of an older one, or of another place, is seen to be wrong.
func fill(b []byte, seed uint64) {
	seed = mix(seed)
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, seed)
		seed = seed*0x5851f42d4c957f2d + 0x14057b7ef767814f
	}
	for i := range b {
		b[i] = byte(seed >> (8 * i))
	}
}

// verify compares with what the seed gives.
func verify(got []byte, seed uint64, what string) error {
	want := make([]byte, len(got))
	fill(want, seed)
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%w: %s: byte %d of %d is %#02x instead of %#02x", errMismatch, what, i, len(want), got[i], want[i])
		}
	}
	return nil
}

// fillSlots fills the messages of a batch, verifySlots checks them.
func fillSlots(b []byte, p *plan, size int, seed uint64) {
	for i := range p.slots() {
		fill(b[i*p.stride():][:size], seed+uint64(i))
	}
}

func verifySlots(b []byte, p *plan, size int, seed uint64) error {
	for i := range p.slots() {
		if err := verify(b[i*p.stride():][:size], seed+uint64(i), fmt.Sprintf("message %d of a batch", i)); err != nil {
			return err
		}
	}
	return nil
}
