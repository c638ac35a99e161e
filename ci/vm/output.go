package main

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// prefixer puts a prefix before each line, so that the output of another host
// is told apart. A last line without an end gets one from close.
type prefixer struct {
	mu     sync.Mutex
	w      io.Writer
	prefix string
	rest   []byte
}

func (p *prefixer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, b...)
	end := bytes.LastIndexByte(p.rest, '\n') + 1
	if end == 0 {
		return len(b), nil
	}
	var out bytes.Buffer
	for line := range bytes.Lines(p.rest[:end]) {
		out.WriteString(p.prefix)
		out.Write(line)
	}
	p.rest = append(p.rest[:0], p.rest[end:]...)
	_, err := p.w.Write(out.Bytes())
	return len(b), err
}

func (p *prefixer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) > 0 {
		_, _ = p.w.Write([]byte(p.prefix + string(p.rest) + "\n"))
		p.rest = nil
	}
}

// tail remembers the last lines written to it, and passes all on to w if that
// is set.
type tail struct {
	mu   sync.Mutex
	w    io.Writer
	text []byte
}

const tailBytes = 16384

func (t *tail) Write(b []byte) (int, error) {
	// A serial console ends its lines as a typewriter did.
	clean := bytes.ReplaceAll(b, []byte("\r"), nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, clean...)
	if n := len(t.text) - tailBytes; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	if t.w != nil {
		_, _ = t.w.Write(clean)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// excerpt is the part of a console that tells most: from the kernel's first
// complaint on, else the end.
func excerpt(console string, n int) string {
	lines := strings.Split(strings.TrimSpace(console), "\n")
	for i, line := range lines {
		for _, sign := range []string{"BUG: ", "Oops: ", "general protection fault", "Kernel panic - "} {
			if strings.Contains(line, sign) {
				return strings.Join(lines[i:min(i+n, len(lines))], "\n")
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// diedOfEmulation reports whether a kernel died of a breakpoint of its own, which
// no kernel does on a real processor.
func diedOfEmulation(console string) bool {
	return strings.Contains(console, "Kernel panic - ") && strings.Contains(console, "int3: 0000 [#")
}

// diagnose finds in a console what ended its guest: a kernel panic or the
// agent's own message.
func diagnose(console string) string {
	cause := ""
	for line := range strings.Lines(console) {
		if _, text, ok := strings.Cut(line, "Kernel panic - not syncing: "); ok {
			return "kernel panic: " + strings.TrimSpace(text)
		}
		if _, text, ok := strings.Cut(line, "railbind: "); ok {
			cause = strings.TrimSpace(text)
		}
	}
	return cause
}
