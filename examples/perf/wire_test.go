package main

import (
	"bytes"
	"testing"
)

func FuzzToken(f *testing.F) {
	f.Add(append(privateData(7), make([]byte, 40)...))
	f.Add(privateData(0)[:15])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if token, ok := tokenOf(b); ok && !bytes.HasPrefix(b, privateData(token)) {
			t.Fatalf("%x has the token %x", b, token)
		}
	})
}
