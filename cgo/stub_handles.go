//go:build !linux || !cgo

package cgo

import "syscall"

// unsupported is what every call returns in a build without the libraries.
func unsupported(op string) error { return &Error{Op: op, Errno: syscall.ENOSYS} }

// Handles of a build without the libraries: the zero value is the only one.
type (
	Context     struct{}
	PD          struct{}
	MR          struct{}
	CompChannel struct{}
	CQ          struct{}
	QP          struct{}
)

// IsNil reports whether the handle names no object: always, here.
func (Context) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (PD) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (MR) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (CompChannel) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (CQ) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (QP) IsNil() bool { return true }

// Available tells whether this build has the libraries at all.
const Available = false
