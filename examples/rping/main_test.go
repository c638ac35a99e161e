package main

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// server starts rb-rping as a server on a free port, and returns where it
// listens.
func server(t *testing.T, addr, args string) (*guest.Process, netip.AddrPort) {
	t.Helper()
	p := guest.Ours(t, "-s -p 0 -a "+addr+" "+args)
	p.Says("listening on ")
	_, rest, _ := strings.Cut(p.Err.String(), "listening on ")
	at, _, _ := strings.Cut(rest, ",")
	ap, err := netip.ParseAddrPort(at)
	require.NoError(t, err)
	return p, ap
}

// pingLines is what -v prints for n pings of a size.
func pingLines(prefix string, n, size int) string {
	var b strings.Builder
	data := make([]byte, size)
	for i := range n {
		fill(data, i)
		b.WriteString(prefix + string(text(data)) + "\n")
	}
	return b.String()
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
