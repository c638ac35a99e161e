package main

import (
	"bytes"
	"testing"
)

func FuzzOffer(f *testing.F) {
	f.Add(offer{1 << 40, "name"}.bytes())
	f.Add(offer{0, ""}.bytes())
	f.Add(offer{^uint64(0), "../../etc/passwd"}.bytes())
	f.Add([]byte("short"))
	f.Add(make([]byte, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOffer(b)
		if err == nil && !bytes.Equal(o.bytes(), b) {
			t.Fatalf("%x became %x", b, o.bytes())
		}
	})
}
