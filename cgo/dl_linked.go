//go:build !linux || !cgo || !rdma_dlopen

package cgo

// LibraryError says why rdma-core's libraries could not be loaded; empty where
// they were, or where the build links them.
func LibraryError() string { return "" }
