package main

import (
	"encoding/binary"
	"fmt"
)

// The peer's word counts up from 0, and each request brings back what it was.

func (l *link) word() []byte { return l.rx()[:8] }

func (s *solo) checkAtomic(i int) error {
	if was := binary.NativeEndian.Uint64(s.tx()); was != uint64(i) {
		return fmt.Errorf("%w: atomic %d found %d", errMismatch, i, was)
	}
	return nil
}

func (l *link) checkWord(count int) error {
	if is := binary.NativeEndian.Uint64(l.word()); is != uint64(count) {
		return fmt.Errorf("%w: %d atomics have counted to %d", errMismatch, count, is)
	}
	return nil
}
