// Package cgo is the only package of this module that imports "C": thin
// wrappers over librdmacm and libibverbs, and the fast path.
//
// It hands out small opaque handles and plain Go structs, never C types, and
// holds no policy and no life-time rules: packages ibv and cm do. A handle that
// IsNil, or that was already destroyed, must not be passed down.
//
// Every C helper is named rb_*, lives in an rb_*.h/.c file, and returns a
// negative errno on failure whatever style the wrapped call has; check turns
// that into an *Error in one place.
//
// The libraries are linked. With the build tag rdma_dlopen they are loaded when
// the program starts (rb_dl.c), so that it also starts on a host without them;
// there each call fails with NoLibrary.
//
// Without cgo, or on another system than Linux, the same names exist and every
// call returns an error that matches errors.ErrUnsupported.
package cgo
