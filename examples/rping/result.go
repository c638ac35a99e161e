package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/examples/internal/peer"
)

// result is what became of one connection, or of the attempt at it.
type result struct {
	Role          string    `json:"role"`
	Local         string    `json:"local,omitempty"`
	Remote        string    `json:"remote,omitempty"`
	Device        string    `json:"device,omitempty"`
	Port          uint8     `json:"port,omitempty"`
	Netdev        string    `json:"netdev,omitempty"`
	Policy        cm.Policy `json:"policy"` // the one in effect, once connected
	Connected     bool      `json:"connected"`
	Overridden    bool      `json:"overridden"`
	AssumedOnLink bool      `json:"assumed_on_link"`
	Size          int       `json:"size"`            // bytes of a ping
	Asked         int       `json:"asked,omitempty"` // rounds, 0: no end
	Rounds        int       `json:"rounds"`
	Bytes         int64     `json:"bytes_verified"`
	Seconds       float64   `json:"seconds"`
	Error         string    `json:"error,omitempty"`   // the sentinel's name, where it has one
	Errno         string    `json:"errno,omitempty"`   // its symbol
	Message       string    `json:"message,omitempty"` // the whole error
	err           error
}

func (r *result) round(size int) {
	r.Rounds++
	r.Bytes += int64(size)
}

// place notes where a connection is.
func (r *result) place(c *cm.Conn) {
	b, d := c.Binding(), c.Decision()
	r.Connected = true
	r.Local, r.Remote = c.LocalAddr().String(), c.RemoteAddr().String()
	r.Device, r.Port, r.Netdev = b.Device, b.Port, b.Netdev
	r.Policy, r.Overridden, r.AssumedOnLink = d.Policy, d.Overridden, d.AssumedOnLink
}

// fail notes an error, and from it where an attempt was.
func (r *result) fail(err error) {
	if err == nil {
		return
	}
	r.err, r.Message, r.Error = err, err.Error(), policy.SentinelName(err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		r.Errno = policy.ErrnoName(errno)
	}
	var at *cm.OpError
	if !r.Connected && errors.As(err, &at) {
		r.Device = at.Device
		if at.Local.IsValid() {
			r.Local = at.Local.String()
		}
		if at.Remote.IsValid() {
			r.Remote = at.Remote.String()
		}
	}
}

// text is the result on one line.
func (r *result) text() string {
	s := fmt.Sprintf("%s: %d", r.Role, r.Rounds)
	if r.Asked > 0 {
		s += fmt.Sprintf(" of %d", r.Asked)
	}
	s += fmt.Sprintf(" rounds, %d bytes verified, %s", r.Bytes, r.where())
	return s + fmt.Sprintf(", %.2f s", r.Seconds)
}

func (r *result) where() string {
	s := fmt.Sprintf("%s -> %s on %s (%s)", r.Local, r.Remote, r.Device, r.Netdev)
	if r.Role == "server" {
		s = fmt.Sprintf("%s <- %s on %s (%s)", r.Local, r.Remote, r.Device, r.Netdev)
	} else {
		s += fmt.Sprintf(", policy %s", r.Policy)
	}
	if r.Overridden {
		s += ", overridden"
	}
	if r.AssumedOnLink {
		s += ", assumed on-link"
	}
	return s
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

func (o *output) established(r *result) { o.say("established: %s", r.where()) }

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
	if o.json {
		e := json.NewEncoder(o.out)
		e.SetEscapeHTML(false)
		_ = e.Encode(r)
		return
	}
	if r.Connected {
		fmt.Fprintln(o.out, r.text())
	}
	switch {
	case r.err == nil:
	case errors.Is(r.err, context.Canceled):
		fmt.Fprintln(o.err, "rb-rping: interrupted")
	default:
		fmt.Fprintf(o.err, "rb-rping: %v\n", r.err)
	}
}

// round says in which round an error came.
func round(n int, err error) error { return fmt.Errorf("round %d: %w", n, err) }
