package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// Sentinels of all refusals. An error of this package matches, with errors.Is,
// its sentinel and its errno; a sentinel alone matches its errno too.
var (
	// ErrRouteMismatch (EHOSTUNREACH): the routing does not lead through the
	// bound network device in the way the policy asks for.
	ErrRouteMismatch = newSentinel("ErrRouteMismatch", syscall.EHOSTUNREACH, "the route does not fit the binding")
	// ErrDeviceSplit (EHOSTUNREACH): what the kernel made uses another device,
	// network device or path than the binding or the decision.
	ErrDeviceSplit = newSentinel("ErrDeviceSplit", syscall.EHOSTUNREACH, "the kernel's device or path is not the promised one")
	// ErrChanged (EHOSTUNREACH): a route, rule, address or link changed during a
	// step, so that what the kernel made of it is not known; a new id may do.
	ErrChanged = newSentinel("ErrChanged", syscall.EHOSTUNREACH, "what the decision rests on changed meanwhile")
	// ErrNoRoute (errno of the route): an unbound id, and no route to the destination.
	ErrNoRoute = newSentinel("ErrNoRoute", 0, "no route to the destination")
	// ErrSourceConflict (EINVAL): a source that contradicts the binding or the policy.
	ErrSourceConflict = newSentinel("ErrSourceConflict", syscall.EINVAL, "the source contradicts the binding")
	// ErrScope (EINVAL): a link-local address without a zone, or with a wrong one.
	ErrScope = newSentinel("ErrScope", syscall.EINVAL, "the address lacks a zone or has a wrong one")
	// ErrPoisoned (EINVAL): an earlier step on this id failed; only Close is allowed.
	ErrPoisoned = newSentinel("ErrPoisoned", syscall.EINVAL, "an earlier step failed on this id")
	// ErrLoopbackDst (EADDRNOTAVAIL): a destination that names no host on a
	// rail: loopback, unspecified, or multicast for a connection.
	ErrLoopbackDst = newSentinel("ErrLoopbackDst", syscall.EADDRNOTAVAIL, "the destination names no host on a rail")
	// ErrAmbiguousDevice (ENOTUNIQ): several devices or addresses fit equally.
	ErrAmbiguousDevice = newSentinel("ErrAmbiguousDevice", enotuniq, "several devices or addresses fit")
	// ErrNotRDMA (ENODEV): no usable RDMA device behind the address or network
	// device. Where there is one that this process cannot open, the cause says why:
	// with package cm's Host it matches ibv.ErrDeviceNotAccessible.
	ErrNotRDMA = newSentinel("ErrNotRDMA", syscall.ENODEV, "no usable RDMA device there")
	// ErrNotLocal (EADDRNOTAVAIL): the address is not one of this host.
	ErrNotLocal = newSentinel("ErrNotLocal", syscall.EADDRNOTAVAIL, "not an address of this host")
	// ErrNotBound (EINVAL): the policy needs an id that is bound to a device.
	ErrNotBound = newSentinel("ErrNotBound", syscall.EINVAL, "the id is not bound to a device")
	// ErrAlreadyBound (EINVAL): the policy needs an id that is not bound to a device.
	ErrAlreadyBound = newSentinel("ErrAlreadyBound", syscall.EINVAL, "the id is already bound to a device")
	// ErrBindingLost (EADDRNOTAVAIL): the bound address, network device or
	// RDMA device went away.
	ErrBindingLost = newSentinel("ErrBindingLost", syscall.EADDRNOTAVAIL, "what the id was bound to is gone")
	// ErrFamilyMismatch (EAFNOSUPPORT): IPv4 and IPv6 mixed.
	ErrFamilyMismatch = newSentinel("ErrFamilyMismatch", syscall.EAFNOSUPPORT, "address families differ")
	// ErrKernelBindRegression (EADDRNOTAVAIL): this kernel drops the destination
	// of an id that was bound first.
	ErrKernelBindRegression = newSentinel("ErrKernelBindRegression", syscall.EADDRNOTAVAIL, "this kernel loses the destination of a bound id")
	// ErrTransport (EOPNOTSUPP, so errors.ErrUnsupported too): the device's
	// transport has no such thing.
	ErrTransport = newSentinel("ErrTransport", syscall.EOPNOTSUPP, "the device's transport has no such thing")
	// ErrUnknownPolicy (EINVAL): a policy value or bind state that is none of the constants.
	ErrUnknownPolicy = newSentinel("ErrUnknownPolicy", syscall.EINVAL, "no such policy")
	// ErrLookup (errno of the cause, else EIO): the machine could not be asked.
	ErrLookup = newSentinel("ErrLookup", 0, "this host could not be asked")
)

// sentinel is the type of the sentinels: a name for tools, an errno, a text.
type sentinel struct {
	name  string
	errno syscall.Errno
	text  string
}

func newSentinel(name string, errno syscall.Errno, text string) error {
	return &sentinel{name, errno, text}
}

func (s *sentinel) Error() string { return s.text }

// Is matches the sentinel's errno, and what that matches.
func (s *sentinel) Is(target error) bool { return s.errno != 0 && errors.Is(s.errno, target) }

// Error is a refusal. It matches its sentinel, its errno and its cause.
type Error struct {
	Op       string         // resolve, bind, pick, check...
	Sentinel error          // one of the Err variables
	Errno    syscall.Errno  // never 0
	Src      netip.AddrPort // what was asked, as far as it was
	Dst      netip.AddrPort
	Binding  Binding
	Routes   []Route  // looked up so far
	Reason   string   // the verdict in words
	Remedy   string   // what to do about it
	Commands []string // those within Remedy that mend it by themselves, for a shell
	Cause    error    // why the machine could not be asked, or the device not be opened, else nil
}

// refuse makes the error of a refusal; the caller of the exported function adds
// operation, addresses, binding and routes.
func refuse(kind error, reason, remedy string) *Error {
	e := &Error{Sentinel: kind, Errno: syscall.EINVAL, Reason: reason, Remedy: remedy}
	var s *sentinel
	if errors.As(kind, &s) && s.errno != 0 {
		e.Errno = s.errno
	}
	return e
}

// Error returns the refusal on one line: operation, addresses, verdict, binding,
// the routes looked up, and what to do.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	switch {
	case e.Src.Addr().IsValid() && e.Dst.Addr().IsValid():
		fmt.Fprintf(&b, " %s -> %s", addrText(e.Src), addrText(e.Dst))
	case e.Src.Addr().IsValid():
		b.WriteString(" " + addrText(e.Src))
	case e.Dst.Addr().IsValid():
		b.WriteString(" to " + addrText(e.Dst))
	}
	return b.String() + ": " + e.Explain()
}

// Explain is Error without operation and addresses: what is wrong, what to do
// about it, and then what was seen.
func (e *Error) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v (%s): %s", e.Sentinel, ErrnoName(e.Errno), e.Reason)
	if e.Remedy != "" {
		b.WriteString("; to mend it: " + e.Remedy)
	}
	var seen []string
	if e.Binding.State != Unbound {
		seen = append(seen, "the id is "+e.Binding.String())
	}
	if len(e.Routes) > 0 {
		routes := make([]string, len(e.Routes))
		for i, r := range e.Routes {
			routes[i] = "[" + r.String() + "]"
		}
		seen = append(seen, "routes "+strings.Join(routes, ", "))
	}
	if len(seen) > 0 {
		b.WriteString("; seen: " + strings.Join(seen, "; "))
	}
	return b.String()
}

// Unwrap returns sentinel, errno and, where there is one, the cause.
func (e *Error) Unwrap() []error {
	out := []error{e.Sentinel, e.Errno}
	if e.Cause != nil {
		out = append(out, e.Cause)
	}
	return out
}

// SentinelName returns the name of the sentinel of this package that err
// matches, such as ErrRouteMismatch, or "".
func SentinelName(err error) string {
	var s *sentinel
	if errors.As(err, &s) {
		return s.name
	}
	return ""
}
