package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestPrefixer(t *testing.T) {
	var out bytes.Buffer
	p := &prefixer{w: &out, prefix: "> "}
	for _, part := range []string{"a", "b\nc", "\n\n", "d\r\ne"} {
		if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := out.String(), "> ab\n> c\n> \n> d\r\n"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	p.close()
	p.close()
	if got, want := out.String(), "> ab\n> c\n> \n> d\r\n> e\n"; got != want {
		t.Fatalf("closed: got %q, want %q", got, want)
	}
}

func TestTail(t *testing.T) {
	var shown bytes.Buffer
	c := &tail{w: &shown}
	_, _ = c.Write([]byte("first\r\n"))
	for range 10000 {
		_, _ = c.Write([]byte("more\r\n"))
	}
	if got := c.String(); len(got) != tailBytes || strings.Contains(got, "\r") || !strings.HasSuffix(got, "more\n") {
		t.Fatalf("%d bytes, %q", len(got), got[max(0, len(got)-20):])
	}
	if !strings.HasPrefix(shown.String(), "first\nmore\n") {
		t.Fatalf("shown: %q", shown.String()[:20])
	}
}

const panicConsole = `[    1.0] Run /init as init process
[    7.1] sysrq: Trigger a crash
[    7.2] BUG: kernel NULL pointer dereference, address: 0000000000000000
[    7.3] RIP: 0010:rxe_something+0x1/0x2
[    7.4] Kernel panic - not syncing: Fatal exception
[    7.5] Kernel Offset: disabled
`

func TestDiagnose(t *testing.T) {
	for console, want := range map[string]string{
		panicConsole: "kernel panic: Fatal exception",
		"[ 1.0] x\nrailbind: mount 9p on /host: no such device\n[ 1.1] reboot": "mount 9p on /host: no such device",
		"[ 1.0] all is well\n": "",
	} {
		if got := diagnose(console); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDiedOfEmulation(t *testing.T) {
	const breakpoint = `[    1.69] Oops: int3: 0000 [#1] SMP NOPTI
[    1.70] CPU: 0 UID: 0 PID: 1 Comm: swapper/0 Not tainted 7.2.13+deb14-amd64 #1
[    1.75] Kernel panic - not syncing: Fatal exception in interrupt
`
	tests := map[string]bool{
		breakpoint:   true,
		panicConsole: false,
		strings.Replace(breakpoint, "int3: 0000", "0002", 1): false,
		"[    1.69] Oops: int3: 0000 [#1] SMP NOPTI\n":       false, // not dead yet
	}
	for console, want := range tests {
		if got := diedOfEmulation(console); got != want {
			t.Errorf("%v for %q", got, console)
		}
	}
}

func TestExcerpt(t *testing.T) {
	if got := excerpt(panicConsole, 2); !strings.HasPrefix(got, "[    7.2] BUG") || strings.Count(got, "\n") != 1 {
		t.Errorf("panic: %q", got)
	}
	if got := excerpt("1\n2\n3\n", 2); got != "2\n3" {
		t.Errorf("no panic: %q", got)
	}
	if got := excerpt("", 2); got != "" {
		t.Errorf("empty: %q", got)
	}
}
