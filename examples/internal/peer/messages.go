package peer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrMismatch is data that did not survive; ErrProtocol a peer that does not do
// as it should.
var (
	ErrMismatch = errors.New("the data is not what was sent")
	ErrProtocol = errors.New("the peer does not keep to the protocol")
)

// Pattern is the data that a command sends. The first byte of each 4096 is zero,
// which is what the pingpong programs look at with -c.
func Pattern(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		if i%4096 != 0 {
			b[i] = byte(1 + i%251)
		}
	}
	return b
}

// Messages checks what arrives. rdma-core's programs send what their memory
// happens to hold, the same in each message; those here send Pattern. So all of
// a connection's messages must be as its first was, and what is Pattern counts as
// verified.
type Messages struct {
	Size   int
	Strict bool // nothing but Pattern is right: the peer sends back what it got

	pattern, first []byte
	Count, Sent    int
	Verified       int64 // bytes
}

// Take checks a message.
func (m *Messages) Take(b []byte) error {
	if len(b) != m.Size {
		return fmt.Errorf("%w: message %d has %d bytes, not %d (-S, or -s, must be the same at both ends)", ErrProtocol, m.Count, len(b), m.Size)
	}
	if m.first == nil {
		m.pattern = Pattern(m.Size)
		m.first = m.pattern
		if !m.Strict {
			m.first = bytes.Clone(b)
		}
	}
	for i := range b {
		if b[i] != m.first[i] {
			return fmt.Errorf("%w: message %d, byte %d of %d is %#02x instead of %#02x", ErrMismatch, m.Count, i, len(b), b[i], m.first[i])
		}
	}
	m.Count++
	if bytes.Equal(b, m.pattern) {
		m.Verified += int64(len(b))
	}
	return nil
}

// Each runs f for 0 to n-1, all at once. Of many errors it gives one, and says how
// many there are.
func Each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
}

// Traffic is the result of a command that sends messages.
type Traffic struct {
	Outcome
	Connections int     `json:"connections"`
	Size        int     `json:"size"` // bytes of a message
	Sent        int     `json:"sent"`
	Received    int     `json:"received"`
	Bytes       int64   `json:"bytes_verified"` // of what was received
	Seconds     float64 `json:"seconds"`
}

// Text is the result on one line.
func (t *Traffic) Text() string {
	return fmt.Sprintf("%s: %d messages of %d bytes sent, %d received, %d bytes verified, %d connections, %s, %.2f s",
		t.Role, t.Sent, t.Size, t.Received, t.Bytes, t.Connections, t.Where(), t.Seconds)
}

// Add notes what went over one connection.
func (t *Traffic) Add(m *Messages) {
	t.Sent += m.Sent
	t.Received += m.Count
	t.Bytes += m.Verified
}
