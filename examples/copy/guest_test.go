package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/guest"
)

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"-I rxe0 a 10.1.0.1:7473": `copy: -I "rxe0" is not an address`,
		"receive . 10.1.0.1":      `copy: receive "10.1.0.1" is not ADDR:PORT or [ADDR]:PORT`,
	})
}

func TestMain(m *testing.M) { guest.Main(m, main) }

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "copy", "", "file", "receive", "receive a b c", "-I nowhere file host:1")
	guest.WantHelp(t, run, usage)
}

func TestOffers(t *testing.T) {
	o, err := parseOffer(offer{1 << 40, "name"}.bytes())
	require.NoError(t, err)
	require.Equal(t, offer{1 << 40, "name"}, o)
	for _, b := range []string{"", "\x00\x00\x00\x00\x00\x00\x00\x01", strings.Repeat("x", 300)} {
		_, err := parseOffer([]byte(b))
		require.ErrorIs(t, err, errProtocol)
	}
	for _, name := range []string{".", "..", "/", "../x", "/etc/x", "folder/x", "x/", "./x", "x\x00y"} {
		_, err := parseOffer(offer{1, name}.bytes())
		require.ErrorIs(t, err, errProtocol, "%q", name)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	progress(&b, "name", 1, 4)
	progress(&b, "empty", 0, 0)
	require.Equal(t, "\rname                     [##########                              ]  25 %"+
		"\rempty                    [########################################] 100 %\n", b.String())
}

func TestPairCopy(t *testing.T) {
	guest.NeedTopo(t, "pair")
	to, from := t.TempDir(), t.TempDir()
	const receiver = "10.1.0.1:7474"
	guest.Ours(t, "receive "+to+" "+receiver).Says("listening")
	var names []string
	files := map[string][]byte{"empty": nil, "short": []byte("short"), "long": make([]byte, 5*pieces*piece/2+1)}
	for i := range files["long"] {
		files["long"][i] = byte(rand.Uint32())
	}
	for name, b := range files {
		names = append(names, filepath.Join(from, name))
		require.NoError(t, os.WriteFile(names[len(names)-1], b, 0o600))
	}
	guest.Inside(t, run, "-I 10.1.0.1 "+strings.Join(names, " ")+" "+receiver).WantStatus(0)
	for name, b := range files {
		got, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, got), name)
	}
	// A name that would lead out of the folder ends the connection.
	p := guest.Inside(t, run, "-I 10.1.0.1 / "+receiver)
	p.WantStatus(1)
}

// TestPairCopyStops: a sender that stops in the middle, and a disk that is full,
// leave what was in the folder as it was, and are told of.
func TestPairCopyStops(t *testing.T) {
	guest.NeedTopo(t, "pair")
	to, from := t.TempDir(), t.TempDir()
	const receiver, size = "10.1.0.1:7474", 5 * piece
	mount := exec.Command("mount", "-t", "tmpfs", "-o", "size=512k", "copy", to)
	require.NoError(t, mount.Run())
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", to).Run()) })
	file := filepath.Join(to, "file\x1b")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	p := guest.Ours(t, "receive "+to+" "+receiver)
	p.Says("listening")
	asBefore := func() {
		t.Helper()
		list, err := os.ReadDir(to)
		require.NoError(t, err)
		require.Len(t, list, 1)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "old", string(b))
	}

	ctx, cancel := context.WithTimeout(t.Context(), guest.Patience)
	defer cancel()
	c, err := (&cm.Dialer{}).Dial(ctx, receiver)
	require.NoError(t, err)
	require.NoError(t, c.Send(ctx, offer{size, filepath.Base(file)}.bytes()))
	answer := make([]byte, 4096)
	for range 2 { // where the ring is; and that a piece is stored
		_, err = c.Recv(ctx, answer)
		require.NoError(t, err)
		require.NoError(t, c.Send(ctx, []byte{0}))
	}
	require.NoError(t, c.Close())
	p.Says(`"file\x1b"`)
	asBefore()

	require.NoError(t, os.WriteFile(filepath.Join(from, "large"), make([]byte, size), 0o600))
	guest.Inside(t, run, "-I 10.1.0.1 "+filepath.Join(from, "large")+" "+receiver).WantStatus(1)
	p.Says(`"large"`)
	asBefore()
}
