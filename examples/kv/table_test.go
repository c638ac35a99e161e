package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	tab := &table{memory: make([]byte, slots*slotSize)}
	for i := range 200 {
		_, err := tab.put(fmt.Append(nil, "key", i), fmt.Append(nil, "value", i))
		require.NoError(t, err)
	}
	find := func(key string) string {
		for i := range probes {
			k, v, _, err := parse(tab.slot(place([]byte(key)) + i))
			require.NoError(t, err)
			if string(k) == key {
				return string(v)
			}
		}
		return ""
	}
	require.Equal(t, "value17", find("key17"))
	version, err := tab.put([]byte("key17"), []byte("new"))
	require.NoError(t, err)
	require.EqualValues(t, 201, version)
	require.Equal(t, "new", find("key17"))

	for _, size := range []int{0, most + 1} {
		_, err := tab.put(make([]byte, size), nil)
		require.Error(t, err)
	}
}

// A slot of which any one byte is an older one is torn.
func TestTorn(t *testing.T) {
	before, after := make([]byte, slotSize), make([]byte, slotSize)
	fill(before, 1, []byte("key"), []byte("before"))
	fill(after, 2, []byte("key"), []byte("after"))
	for i := range slotSize {
		torn := append([]byte(nil), after...)
		torn[i] = before[i]
		_, _, _, err := parse(torn)
		if torn[i] == after[i] {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errTorn, "byte %d", i)
		}
	}
}

func TestStore(t *testing.T) {
	tab := &table{memory: make([]byte, slots*slotSize)}
	for _, m := range []string{"", "\x00", "\x00\x05abc", "\x00\x00abc"} {
		reply := store(tab, []byte(m))
		require.Equal(t, make([]byte, 8), reply[:8], "%q", m)
		require.NotEmpty(t, reply[8:])
	}
	require.EqualValues(t, 1, store(tab, []byte("\x00\x01kv"))[7])
}
