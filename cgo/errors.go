package cgo

import "syscall"

// Error is a failed call into librdmacm or libibverbs.
//
// errors.Is matches it with its syscall.Errno, and, for ENOSYS and EOPNOTSUPP,
// with errors.ErrUnsupported.
type Error struct {
	Op    string // the C function, as its manual page names it
	Errno syscall.Errno
}

func (e *Error) Error() string { return e.Op + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// check turns the result of a C helper into an error: helpers return a value
// >= 0, or a negative errno.
func check(op string, r int) error {
	if r >= 0 {
		return nil
	}
	return &Error{Op: op, Errno: syscall.Errno(-r)}
}
