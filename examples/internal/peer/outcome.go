package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
)

// Outcome is what became of a connection, or of the attempt at one: the part of
// a command's result that is the same for all.
type Outcome struct {
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
	Error         string    `json:"error,omitempty"`   // the sentinel's name, where it has one
	Errno         string    `json:"errno,omitempty"`   // its symbol
	Message       string    `json:"message,omitempty"` // the whole error
	err           error
}

// Placed is a connection, or an id.
type Placed interface {
	Binding() cm.Binding
	Decision() cm.Decision
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
}

// Place notes where a connection is.
func (o *Outcome) Place(c Placed) {
	b, d := c.Binding(), c.Decision()
	o.Connected = true
	o.Local = c.LocalAddr().String()
	if to := c.RemoteAddr(); to.IsValid() {
		o.Remote = to.String()
	}
	o.Device, o.Port, o.Netdev = b.Device, b.Port, b.Netdev
	o.Policy, o.Overridden, o.AssumedOnLink = d.Policy, d.Overridden, d.AssumedOnLink
}

// Fail notes an error, and from it where an attempt was.
func (o *Outcome) Fail(err error) {
	if err == nil {
		return
	}
	o.err, o.Message, o.Error = err, err.Error(), policy.SentinelName(err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		o.Errno = policy.ErrnoName(errno)
	}
	var at *cm.OpError
	if !o.Connected && errors.As(err, &at) {
		o.Device = at.Device
		if at.Local.IsValid() {
			o.Local = at.Local.String()
		}
		if at.Remote.IsValid() {
			o.Remote = at.Remote.String()
		}
	}
}

// Err is the error that Fail noted.
func (o *Outcome) Err() error { return o.err }

// Up reports whether there was a connection.
func (o *Outcome) Up() bool { return o.Connected }

// Where says on one line where the connection is.
func (o *Outcome) Where() string {
	if o.Role == "server" {
		return fmt.Sprintf("%s <- %s on %s (%s)", o.Local, o.Remote, o.Device, o.Netdev)
	}
	s := fmt.Sprintf("%s -> %s on %s (%s), policy %s", o.Local, o.Remote, o.Device, o.Netdev, o.Policy)
	if o.Overridden {
		s += ", overridden"
	}
	if o.AssumedOnLink {
		s += ", assumed on-link"
	}
	return s
}

// Result is a command's result.
type Result interface {
	Text() string // on one line
	Up() bool
	Err() error
}

// Print writes a result: as JSON, or as text where there was a connection, and
// what went wrong.
func Print(name string, asJSON bool, r Result, stdout, stderr io.Writer) {
	if asJSON {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		_ = e.Encode(r)
		return
	}
	if r.Up() {
		fmt.Fprintln(stdout, r.Text())
	}
	switch err := r.Err(); {
	case err == nil:
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "%s: interrupted\n", name)
	default:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
}

// StatusOf is Status for an error that an interrupt may have caused.
func StatusOf(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Status(err)
}
