package cgo

import (
	"runtime"
	"strconv"
	"syscall"
)

// NoLibrary is the errno of all calls where rdma-core's libraries are not there:
// ELIBACC of Linux, which other systems lack.
const NoLibrary = syscall.Errno(79)

// Error is a failed call into librdmacm or libibverbs.
//
// errors.Is matches it with its syscall.Errno, and, for ENOSYS and EOPNOTSUPP,
// with errors.ErrUnsupported.
type Error struct {
	Op    string // the C function, as its manual page names it
	Errno syscall.Errno
	Since int // the rdma-core that brings the function, where the one here lacks it
}

func (e *Error) Error() string {
	if e.Errno == NoLibrary {
		return e.Op + ": " + LibraryError() + ": install libibverbs and librdmacm of rdma-core (Debian: libibverbs1 librdmacm1 ibverbs-providers)"
	}
	if !Available && e.Errno == syscall.ENOSYS && e.Since == 0 { // a stub's
		return e.Op + ": " + NotBuilt()
	}
	if e.Since != 0 {
		return e.Op + ": needs rdma-core " + strconv.Itoa(e.Since) + " or later: " + e.Errno.Error()
	}
	return e.Op + ": " + e.Errno.Error()
}

// NotBuilt says why a program that is built without the libraries has no RDMA.
func NotBuilt() string {
	if runtime.GOOS != "linux" {
		return "RDMA needs Linux"
	}
	return "this program was built without cgo: build it with CGO_ENABLED=1, gcc, pkg-config, libibverbs-dev and librdmacm-dev"
}

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

// notThere is what a helper returns whose function is not in the library here
// (RB_NEWER).
const notThere = -100000

// checkNewer is check for a function that came with rdma-core since.
func checkNewer(op string, since, r int) error {
	if r == notThere {
		return &Error{Op: op, Errno: syscall.ENOSYS, Since: since}
	}
	return check(op, r)
}
