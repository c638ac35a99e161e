package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"-I rxe0 get 10.1.0.1:7473 a": `kv: -I "rxe0" is not an address`,
		"serve 10.1.0.1":              `kv: serve "10.1.0.1" is not ADDR:PORT or [ADDR]:PORT`,
	})
}

func TestMain(m *testing.M) { guest.Main(m, main) }

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "kv", "", "get", "put host:1 key", "serve a b", "-I nowhere get host:1 key", "take host:1 key")
	guest.WantHelp(t, run, usage)
}

func TestPairStore(t *testing.T) {
	guest.NeedTopo(t, "pair")
	const server = "10.1.0.1:7473"
	guest.Ours(t, "serve "+server).Says("listening")
	p := guest.Inside(t, run, "-I 10.1.0.1 put "+server+" rail one track two")
	p.WantStatus(0)
	p = guest.Inside(t, run, "-I 10.1.0.1 get "+server+" track rail")
	p.WantStatus(0)
	require.Equal(t, "track = two (version 2)\nrail = one (version 1)\n", p.Out.String())
	p = guest.Inside(t, run, "-I 10.1.0.1 get "+server+" nothing")
	p.WantStatus(1)
	require.Contains(t, p.Err.String(), "no such key")
	p = guest.Inside(t, run, "-I 10.2.0.1 get "+server+" rail")
	p.WantStatus(1)
	require.Contains(t, p.Err.String(), "EHOSTUNREACH", "bound to the other rail")

	// One client writes while another reads: what is read is whole, and never older
	// than what was read before.
	ctx := t.Context()
	local := netip.MustParseAddr("10.1.0.1")
	written := make(chan error, 1)
	go func() {
		written <- withClient(ctx, local, server, func(c *client) error {
			for i := range 300 {
				if _, err := c.put(ctx, []byte("key"), bytes.Repeat([]byte{byte('a' + i%26)}, most-3)); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	require.NoError(t, withClient(ctx, local, server, func(c *client) error {
		var last uint64
		for end := time.Now().Add(time.Minute); ; {
			value, version, _, err := c.get(ctx, []byte("key"))
			if last == 0 && err == errEmpty { //nolint:errorlint // it is returned as it is
				continue
			}
			if err != nil || version < last || len(bytes.Trim(value, string(value[:1]))) > 0 || time.Now().After(end) {
				return fmt.Errorf("version %d after %d: %q: %w", version, last, value, err)
			}
			last = version
			select {
			case err := <-written:
				return err
			default:
			}
		}
	}))
}
