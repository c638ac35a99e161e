package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// result is what became of one connection, or of the attempt at it.
type result struct {
	peer.Outcome
	Size    int     `json:"size"`            // bytes of a ping
	Asked   int     `json:"asked,omitempty"` // rounds, 0: no end
	Rounds  int     `json:"rounds"`
	Bytes   int64   `json:"bytes_verified"`
	Seconds float64 `json:"seconds"`
}

func (r *result) round(size int) {
	r.Rounds++
	r.Bytes += int64(size)
}

func newResult(role string) *result { return &result{Outcome: peer.Outcome{Role: role}} }

// Text is the result on one line.
func (r *result) Text() string {
	s := fmt.Sprintf("%s: %d", r.Role, r.Rounds)
	if r.Asked > 0 {
		s += fmt.Sprintf(" of %d", r.Asked)
	}
	return s + fmt.Sprintf(" rounds, %d bytes verified, %s, %.2f s", r.Bytes, r.Where(), r.Seconds)
}

// output writes for the user. Its methods may be called at once from many
// goroutines.
type output struct {
	options
	mu       sync.Mutex
	out, err io.Writer
	next     time.Time     // when progress is due
	pause    time.Duration // before the next line of it
}

func (o *output) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.err, "rb-rping: "+format+"\n", args...)
}

func (o *output) debug(format string, args ...any) {
	if o.options.debug {
		o.say(format, args...)
	}
}

func (o *output) listening(l *cm.Listener) { o.say("%s", peer.Listening(l)) }

func (o *output) established(r *result) { o.say("established: %s", r.Where()) }

// progress says now and then how far a long run has come: after a second, then
// ever less often.
func (o *output) progress(r *result) {
	if o.due() {
		o.say("%s: %d rounds", r.Remote, r.Rounds)
	}
}

func (o *output) due() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.next.IsZero() && now.Before(o.next) {
		return false
	}
	first := o.next.IsZero()
	o.pause = min(max(2*o.pause, time.Second), 30*time.Second)
	o.next = now.Add(o.pause)
	return !first
}

// data prints a ping's data under -v.
func (o *output) data(format string, b []byte) {
	if !o.verbose {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.out, format, text(b))
}

// result prints how a connection ended.
func (o *output) result(r *result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	peer.Print("rb-rping", o.json, r, o.out, o.err)
}

// round says in which round an error came.
func round(n int, err error) error { return fmt.Errorf("round %d: %w", n, err) }
