//go:build !linux

package policy

import "syscall"

// Linux's number: elsewhere the error has no number of its own.
const enotuniq = syscall.Errno(76)
