package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// What is not an address with its port is refused with the usage.
func TestMisuse(t *testing.T) {
	for _, arg := range []string{"-h", "10.1.0.1", ":7471"} {
		p := guest.Ours(t, arg)
		p.WantStatus(1)
		require.Contains(t, p.Err.String(), `usage: serve [ADDR:PORT]; "`+arg+`" is not that`)
	}
}
