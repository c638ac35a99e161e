package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// The driver and the agent in a guest talk over one virtio-serial port, so that
// the command's two streams stay apart, byte for byte, and the console is the
// kernel's alone. A frame is its kind, four bytes of length (big endian) and
// the payload.
type kind byte

const (
	// Driver to agent.
	kindSetup  kind = 'C' // setup, JSON: mount, load, run the topology
	kindRun    kind = 'X' // run, JSON: start the command
	kindStdin  kind = 'I' // bytes for the command; an empty one ends its input
	kindResize kind = 'W' // winsize, JSON
	kindSignal kind = 'T' // one byte: signal for the command and its group

	// Agent to driver.
	kindReady   kind = 'R' // the topology stands
	kindStarted kind = 'P' // the command runs, and its -ready check held
	kindStdout  kind = 'O'
	kindStderr  kind = 'E'
	kindLog     kind = 'L' // what the set-up prints
	kindFailed  kind = 'F' // text: the set-up failed, or the command could not be started
	kindExit    kind = 'Q' // exit, JSON
)

// linkName is the port's name in the guest.
const linkName = "railbind"

// maxPayload bounds a frame, so that a garbled length is an error, not an
// allocation.
const maxPayload = 1 << 20

type setup struct {
	Host      int    // 1 or 2
	Root      string // the checkout
	Topo      string
	Transport string
	Modules   string // folder of the kernel's modules, on the host
	UserRoot  string // folder of another suite's user space, on the host, if any
	OutDir    string // folder shared for writing, if any
	Env       []string
}

type run struct {
	Argv  []string
	Dir   string
	Ready string // shell command polled until it succeeds, after the start
	TTY   bool
	Stdin bool
	Size  winsize
}

type exit struct {
	Code   int // as a shell reports it: 128+n for signal n
	Signal string
}

type winsize struct {
	Rows, Cols, X, Y uint16
}

// frameWriter writes whole frames; it may be used concurrently.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frameWriter) send(k kind, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	// One Write per frame: the port's driver copies it into the ring at once.
	buf := make([]byte, 0, 5+len(payload))
	buf = append(buf, byte(k))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(payload)))
	buf = append(buf, payload...)
	_, err := f.w.Write(buf)
	return err
}

func (f *frameWriter) sendJSON(k kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.send(k, b)
}

// stream sends what is written to it as frames of one kind.
type stream struct {
	f *frameWriter
	k kind
}

func (s stream) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(n+maxPayload, len(p))]
		if err := s.f.send(s.k, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// readFrame returns io.EOF only between two frames.
func readFrame(r io.Reader) (kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxPayload {
		return 0, nil, fmt.Errorf("frame %q of %d bytes: the link to the guest is garbled", head[0], n)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return kind(head[0]), payload, nil
}
