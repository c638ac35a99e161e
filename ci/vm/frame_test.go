package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

func TestFrames(t *testing.T) {
	var link bytes.Buffer
	w := &frameWriter{w: &link}
	big := strings.Repeat("x", maxPayload+10)
	if n, err := (stream{w, kindStdout}).Write([]byte(big)); n != len(big) || err != nil {
		t.Fatal(n, err)
	}
	if err := w.send(kindReady, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.sendJSON(kindExit, exit{Code: 7}); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, want := range []struct {
		kind kind
		size int
	}{{kindStdout, maxPayload}, {kindStdout, 10}, {kindReady, 0}, {kindExit, len(`{"Code":7,"Signal":""}`)}} {
		k, payload, err := readFrame(&link)
		if err != nil || k != want.kind || len(payload) != want.size {
			t.Fatalf("got %q, %d bytes, %v; want %q, %d", k, len(payload), err, want.kind, want.size)
		}
		if k == kindStdout {
			got.Write(payload)
		}
	}
	if got.String() != big {
		t.Fatal("the stream's bytes differ")
	}
	if _, _, err := readFrame(&link); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v", err)
	}
}

func TestBrokenFrames(t *testing.T) {
	for name, bytes := range map[string]string{
		"head cut":    "O\x00\x00",
		"payload cut": "O\x00\x00\x00\x05abc",
	} {
		if _, _, err := readFrame(strings.NewReader(bytes)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := readFrame(strings.NewReader("O\xff\xff\xff\xffabc")); err == nil || !strings.Contains(err.Error(), "garbled") {
		t.Errorf("length: %v", err)
	}
}

// countingWriter fails the test's promise of one Write per frame.
type countingWriter struct{ writes [][]byte }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.writes = append(c.writes, bytes.Clone(p))
	return len(p), nil
}

func TestFramesStayWhole(t *testing.T) {
	var c countingWriter
	w := &frameWriter{w: &c}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, _ = stream{w, kindStderr}.Write([]byte("line\n"))
			}
		})
	}
	wg.Wait()
	if len(c.writes) != 800 {
		t.Fatalf("%d writes of 800 frames", len(c.writes))
	}
	for _, b := range c.writes {
		if string(b) != "E\x00\x00\x00\x05line\n" {
			t.Fatalf("%q", b)
		}
	}
}
