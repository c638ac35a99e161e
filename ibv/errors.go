package ibv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// sentinel is an error that also matches the errno of the same meaning.
type sentinel struct {
	text  string
	errno syscall.Errno
	also  []error
}

func (s *sentinel) Error() string { return s.text }

func (s *sentinel) Is(target error) bool {
	if e, ok := target.(syscall.Errno); ok {
		return e == s.errno
	}
	for _, a := range s.also {
		if a == target {
			return true
		}
	}
	return false
}

// Errors of this package; each also matches the errno beside it.
var (
	// ErrClosed: the object is nil, zero or closed (EBADF; also net.ErrClosed
	// and os.ErrClosed).
	ErrClosed error = &sentinel{"closed", syscall.EBADF, []error{net.ErrClosed, os.ErrClosed}}
	// ErrBusy: Close of an object that others, or requests in flight, still use
	// (EBUSY). The error is a *BusyError.
	ErrBusy error = &sentinel{"still in use", syscall.EBUSY, nil}
	// ErrBorrowed: Close of a context that belongs to a connection manager (EPERM).
	ErrBorrowed error = &sentinel{"the connection manager's context: close its ids instead", syscall.EPERM, nil}
	// ErrInvalid: an argument that no device takes (EINVAL).
	ErrInvalid error = &sentinel{"invalid argument", syscall.EINVAL, nil}

	// ErrNoRDMA: the kernel has no RDMA support loaded or no device, or rdma-core's
	// libraries are not there. Diagnose tells which.
	ErrNoRDMA error = &sentinel{text: "no RDMA here"}
	// ErrNoDevice: no RDMA device has that name (ENODEV).
	ErrNoDevice error = &sentinel{"no such RDMA device", syscall.ENODEV, nil}
	// ErrAmbiguousDevice: several RDMA devices fit (ENOTUNIQ).
	ErrAmbiguousDevice error = &sentinel{"several RDMA devices fit", syscall.Errno(76), nil} // which other systems lack
	// ErrDeviceNotAccessible: the device is there, its character device cannot be
	// opened (EACCES).
	ErrDeviceNotAccessible error = &sentinel{"RDMA device not accessible", syscall.EACCES, nil}
	// ErrNoProvider: the kernel has the device, rdma-core here has no provider for
	// it (ENODEV).
	ErrNoProvider error = &sentinel{"no provider for the RDMA device", syscall.ENODEV, nil}
	// ErrDeviceRemoved: the device went away (ENODEV).
	ErrDeviceRemoved error = &sentinel{"RDMA device removed", syscall.ENODEV, nil}
	// ErrForeignContext: objects of different contexts used together (EXDEV).
	ErrForeignContext error = &sentinel{"objects of different contexts", syscall.EXDEV, nil}
	// ErrForeignPD: objects of different protection domains used together (EXDEV).
	ErrForeignPD error = &sentinel{"objects of different protection domains", syscall.EXDEV, nil}

	// ErrExhausted: the RDMA cgroup of this process, or the device, allows no more
	// objects (EAGAIN).
	ErrExhausted error = &sentinel{"no more RDMA objects allowed", syscall.EAGAIN, nil}
	// ErrMemlock: registration hit the limit of locked memory (ENOMEM). The
	// error is a *MemlockError.
	ErrMemlock error = &sentinel{"locked-memory limit", syscall.ENOMEM, nil}
	// ErrAccess: the memory region was not registered for this use (EACCES).
	ErrAccess error = &sentinel{"memory region lacks the access", syscall.EACCES, nil}
	// ErrOutOfRange: an SGE leaves its memory region (EFAULT).
	ErrOutOfRange error = &sentinel{"outside the memory region", syscall.EFAULT, nil}

	// ErrQPState: the queue pair's state allows no such request (EINVAL).
	ErrQPState error = &sentinel{"wrong QP state", syscall.EINVAL, nil}
	// ErrReadDepthZero: a READ or atomic on a queue pair that may start none (EINVAL).
	ErrReadDepthZero error = &sentinel{"READ and atomics need an initiator depth above 0", syscall.EINVAL, nil}
	// ErrQueueFull: the queue has no room until completions are polled (ENOMEM).
	ErrQueueFull error = &sentinel{"work queue full", syscall.ENOMEM, nil}
	// ErrTooLong: a message longer than the port takes (EMSGSIZE).
	ErrTooLong error = &sentinel{"message too long", syscall.EMSGSIZE, nil}
	// ErrInlineTooLong: inline data over the granted size (EMSGSIZE).
	ErrInlineTooLong error = &sentinel{"inline data too long", syscall.EMSGSIZE, nil}
	// ErrTooManySGE: more scatter/gather entries than a request has room for (EINVAL).
	ErrTooManySGE error = &sentinel{"too many scatter/gather entries", syscall.EINVAL, nil}
	// ErrAcceptedUnknown: a post failed and the provider did not say at which
	// request: all of them must be taken for in flight until they are flushed.
	ErrAcceptedUnknown error = &sentinel{text: "the provider did not say how many requests it took"}

	// ErrNoChannel: Wait on a CQ that has no completion channel (EINVAL).
	ErrNoChannel error = &sentinel{"the CQ has no completion channel", syscall.EINVAL, nil}
	// ErrCQFailed: the provider cannot poll the CQ any more, most often because
	// it overran (EIO).
	ErrCQFailed error = &sentinel{"polling failed: CQ overrun or device error", syscall.EIO, nil}
)

// Error is a failed operation.
type Error struct {
	Op     string // what was tried: "register memory"
	Object string // on what: "PD on rxe0"
	Kind   error  // a sentinel of this package, or nil
	Err    error  // what the library below said, or nil
	Hint   string // what to do about it, or ""
}

func (e *Error) Error() string {
	text := "ibv: " + e.Op
	if e.Object != "" {
		text += " on " + e.Object
	}
	return text + e.cause(": ")
}

// cause is what went wrong and what to do about it, behind a separator.
func (e *Error) cause(sep string) string {
	var text string
	if e.Kind != nil {
		text += sep + e.Kind.Error()
		sep = ": "
	}
	if e.Err != nil {
		text += sep + e.Err.Error()
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the sentinel and the cause.
func (e *Error) Unwrap() []error {
	switch {
	case e.Kind == nil:
		return []error{e.Err}
	case e.Err == nil:
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// BusyError is the refusal of Close. It matches ErrBusy and EBUSY.
type BusyError struct {
	Object   string   // what was to be closed
	Children []string // who still uses it
}

// busyNames bounds how many children the text of a BusyError names.
const busyNames = 8

func (e *BusyError) Error() string {
	names := e.Children
	rest := ""
	if len(names) > busyNames {
		rest = fmt.Sprintf(" and %d more", len(names)-busyNames)
		names = names[:busyNames]
	}
	return "ibv: close " + e.Object + ": still used by " + strings.Join(names, ", ") + rest
}

// Unwrap returns ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// MemlockError explains a registration that failed with ENOMEM. It matches
// ErrMemlock and ENOMEM.
type MemlockError struct {
	Object string
	Asked  int64 // bytes that were to be registered
	Pinned int64 // bytes this process has pinned already
	Limit  int64 // RLIMIT_MEMLOCK, in bytes
	Err    error
}

func (e *MemlockError) Error() string {
	return fmt.Sprintf("ibv: register memory on %s: %v: locked-memory limit %d bytes, %d pinned, %d asked "+
		"(raise it with ulimit -l, LimitMEMLOCK= in the unit, --ulimit memlock=-1 for a container, or CAP_IPC_LOCK; "+
		"a page registered twice counts twice)", e.Object, e.Err, e.Limit, e.Pinned, e.Asked)
}

// Unwrap returns ErrMemlock and the cause.
func (e *MemlockError) Unwrap() []error { return []error{ErrMemlock, e.Err} }

// fail wraps the failure of a verb on an open object.
func fail(op, object string, err error) *Error {
	e := &Error{Op: op, Object: object, Err: err}
	switch {
	case errors.Is(err, syscall.ENODEV):
		e.Kind = ErrDeviceRemoved
	case errors.Is(err, syscall.EAGAIN):
		e.Kind = ErrExhausted
		e.Hint = "raise rdma.max of this process's cgroup, or close what is not needed; Diagnose and `rb-doctor` name the limit"
	}
	return e
}

// invalid is a refusal of our own.
func invalid(op, object string, kind error, format string, args ...any) error {
	return &Error{Op: op, Object: object, Kind: kind, Hint: fmt.Sprintf(format, args...)}
}
