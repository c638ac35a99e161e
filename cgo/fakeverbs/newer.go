//go:build linux && cgo

package fakeverbs

// #include <stdlib.h>
// #include "rb_fake_newer.h"
import "C"

import "github.com/railbind/railbind/cgo"

// Newer answers for the functions that came after rdma-core 44, whatever library is
// here, until undo: all are there, and act on this package's objects, or none is.
func Newer(there bool) (undo func()) {
	find := C.rb_fake_find_none
	if there {
		find = C.rb_fake_find
	}
	C.rb_fake_newer = C.struct_rb_fake_newer{}
	cgo.SymbolsFrom(find)
	return func() { cgo.SymbolsFrom(nil) }
}

// Asked is what those functions were asked.
type Asked struct {
	Alive            int // counters, DMA handles, buffers, regions
	Kind             int // of the last counter
	Ops, QP          uint32
	Handle           cgo.DMAHandleAttr
	Mask             uint64 // of the last registration
	Addr, Length     uint64
	Access           int
	WithHandle, With bool // it had a DMA handle; memory of the provider's
}

// AskedNewer tells it.
func AskedNewer() Asked {
	n := &C.rb_fake_newer
	return Asked{
		Alive: int(n.alive), Kind: int(n.kind), Ops: uint32(n.ops), QP: uint32(n.qpn),
		Handle: cgo.DMAHandleAttr{Mask: uint32(n.dmah_mask), CPU: uint32(n.dmah_cpu), Hint: uint8(n.dmah_hint), Kind: uint8(n.dmah_kind)},
		Mask:   uint64(n.mask), Addr: uint64(n.addr), Length: uint64(n.length), Access: int(n.access),
		WithHandle: n.with_dmah != 0, With: n.with_buf != 0,
	}
}

// BuffersAre makes the provider's buffers a dma-buf, of a descriptor.
func BuffersAre(fd int) { C.rb_fake_newer.dmabuf = C.int(fd) }

// DeregNewer destroys a region that those functions made.
func DeregNewer(m cgo.MR) error {
	C.free(m.Pointer())
	C.rb_fake_newer.alive--
	return nil
}
