//go:build linux && cgo

package cgo

import (
	"errors"
	"sync/atomic"
	"syscall"
)

// spareFiles is how many descriptors the libraries want at once, to look for
// devices and to load a provider, and some more.
const spareFiles = 4

// filesOfDevice is how many an open device has.
const filesOfDevice = 2

// NoFiles is nil while there is room for the files of so many more devices, else
// the reason: EMFILE or ENFILE. rdma-core takes that for a machine without devices,
// or for a device without a provider.
func NoFiles(devices int) error { return spare(spareFiles + filesOfDevice*max(devices, 0)) }

// spare opens n files at once.
func spare(n int) error {
	if n == 0 {
		return nil
	}
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return err
	}
	if err != nil {
		return nil //nolint:nilerr // there is no such file here, and so no telling
	}
	defer func() { _ = syscall.Close(fd) }()
	return spare(n - 1)
}

// loaded notes that the libraries have listed the devices once. They load their
// providers for the first list, and never again where that has failed.
var loaded atomic.Bool

// listing calls f, which lists or opens devices, with room for files, and says so
// where f fails without.
func listing(op string, f func() error) error {
	if !loaded.Load() {
		if err := noFiles(op); err != nil {
			return err
		}
	}
	err := f()
	if err == nil {
		loaded.Store(true)
		return nil
	}
	if short := noFiles(op); short != nil {
		return short
	}
	return err
}

func noFiles(op string) error {
	var errno syscall.Errno
	if errors.As(NoFiles(0), &errno) {
		return &Error{Op: op, Errno: errno}
	}
	return nil
}
