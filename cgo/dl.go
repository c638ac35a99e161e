//go:build linux && cgo && rdma_dlopen

package cgo

// #cgo LDFLAGS: -ldl
// #include "rb_dl.h"
import "C"

// LibraryError says why rdma-core's libraries could not be loaded; empty where
// they were, or where the build links them.
func LibraryError() string { return C.GoString(C.rb_dl_error()) }
