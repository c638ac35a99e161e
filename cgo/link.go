//go:build linux && cgo

package cgo

/*
#cgo !rdma_dlopen pkg-config: libibverbs librdmacm
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter
*/
import "C"

// Available tells whether this build has the libraries at all.
const Available = true
