package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// sentinel is an error that matches its errno as well as itself.
type sentinel struct {
	text  string
	errno syscall.Errno
}

func (s *sentinel) Error() string { return s.text }

// Unwrap gives the errno, so that errors.Is matches both.
func (s *sentinel) Unwrap() error { return s.errno }

// Errors of the connection manager. Each matches with errors.Is the variable
// and the errno in its comment; the errors of the binding rule stand beside
// the policies.
var (
	// ErrState: a step out of order (EINVAL).
	ErrState error = &sentinel{"a step out of order", syscall.EINVAL}
	// ErrConcurrent: another call on the same id has not returned (EALREADY).
	ErrConcurrent error = &sentinel{"another step of this id is in progress", syscall.EALREADY}
	// ErrConnRefused: nobody listens there; reject status 8 (ECONNREFUSED).
	ErrConnRefused error = &sentinel{"nobody listens on that address and port", syscall.ECONNREFUSED}
	// ErrRejected: the peer's program, or a failed accept, said no; reject
	// status 28, or for iWARP a reset of the TCP connection (ECONNREFUSED).
	ErrRejected error = &sentinel{"the peer rejected the connection", syscall.ECONNREFUSED}
	// ErrStale: the peer still remembers an older connection of this QP
	// number; reject status 10, worth a retry (ECONNRESET).
	ErrStale error = &sentinel{"the peer remembers an older connection of this queue pair", syscall.ECONNRESET}
	// ErrUnreachable: the peer did not answer the connection request (ETIMEDOUT).
	ErrUnreachable error = &sentinel{"the peer did not answer", syscall.ETIMEDOUT}
	// ErrDisconnected: the connection is over (ECONNRESET).
	ErrDisconnected error = &sentinel{"the connection is closed by the peer or by a fault", syscall.ECONNRESET}
	// ErrPrivateDataTooLong matches every PrivateDataError (EMSGSIZE).
	ErrPrivateDataTooLong error = &sentinel{"private data too long", syscall.EMSGSIZE}
)

// ErrClosed is what calls on a closed object return; it matches net.ErrClosed.
var ErrClosed = ibv.ErrClosed

// PrivateDataError is private data over what the message can carry.
type PrivateDataError struct {
	Got, Max int // bytes
}

func (e *PrivateDataError) Error() string {
	return fmt.Sprintf("private data of %d bytes: this message carries at most %d", e.Got, e.Max)
}

// Unwrap makes it match ErrPrivateDataTooLong.
func (e *PrivateDataError) Unwrap() error { return ErrPrivateDataTooLong }

// MessageError is a message over QueueConfig.MaxMessage. It matches EMSGSIZE.
type MessageError struct {
	Got, Max int // bytes
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("message of %d bytes: this connection's buffers hold %d (QueueConfig.MaxMessage)", e.Got, e.Max)
}

// Unwrap gives EMSGSIZE.
func (e *MessageError) Unwrap() error { return syscall.EMSGSIZE }

// TimeoutError is a step that its deadline ended. It matches
// context.DeadlineExceeded and ETIMEDOUT, or, where the caller gave up,
// context.Canceled and ECANCELED.
type TimeoutError struct {
	Phase string        // resolve address, resolve route, connect, accept
	After time.Duration // how long it had waited
	Hint  string        // what may be behind it, and what to do; may be empty
	cause error
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("%s: no answer after %v", e.Phase, e.After.Round(time.Millisecond))
	if errors.Is(e.cause, context.Canceled) {
		s = fmt.Sprintf("%s: given up by the caller after %v", e.Phase, e.After.Round(time.Millisecond))
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Timeout reports whether a deadline ended it, as net.Error asks.
func (e *TimeoutError) Timeout() bool { return !errors.Is(e.cause, context.Canceled) }

// Unwrap gives the context's error and the errno.
func (e *TimeoutError) Unwrap() []error {
	if !e.Timeout() {
		return []error{e.cause, syscall.ECANCELED}
	}
	return []error{e.cause, syscall.ETIMEDOUT}
}

// OpError says which step failed, on which id.
type OpError struct {
	Op     string // "bind", "resolve address", "connect", ...
	Local  netip.AddrPort
	Remote netip.AddrPort
	Device string // the RDMA device, where known
	Err    error
}

func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString("cm: ")
	b.WriteString(e.Op)
	if e.Local.IsValid() {
		b.WriteString(" " + e.Local.String())
	}
	if e.Remote.IsValid() && (!e.Remote.Addr().IsUnspecified() || e.Remote.Port() != 0) {
		b.WriteString(" -> " + e.Remote.String())
	}
	if e.Device != "" {
		b.WriteString(" on " + e.Device)
	}
	b.WriteString(": ")
	//nolint:errorlint // a wrapped refusal has a text of its own around it
	if refusal, ok := e.Err.(*policy.Error); ok { // the addresses stand here already
		b.WriteString(refusal.Explain())
	} else {
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Timeout reports whether the cause is a timeout, as net.Error asks.
func (e *OpError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// statusError is a failed event with its errno.
func statusError(ev *cgo.Event) error {
	name := EventType(ev.Type).String()
	switch {
	case ev.Status < 0:
		return fmt.Errorf("%s: %w", name, syscall.Errno(-ev.Status))
	case ev.Status > 0:
		return fmt.Errorf("%s: status %d: %w", name, ev.Status, syscall.EPROTO)
	}
	return fmt.Errorf("%w: unexpected event %s", syscall.EPROTO, name)
}
