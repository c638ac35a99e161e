//go:build linux && cgo

package cgo

// #include <stdlib.h>
// #include "rb_ring.h"
// #include "rb_verbs.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Ring is a thread that polls some CQs and the memory that it writes their
// completions to. One goroutine at a time takes them; the other methods are safe
// for concurrent use.
type Ring struct{ p *C.struct_rb_ring }

// NewRing starts the thread. The ring has room for size completions, a power of
// two. The thread looks for spin nanoseconds before it sleeps until an event of
// the channel; without a channel it looks again every millisecond.
func NewRing(size int, spin uint64, ch CompChannel) (*Ring, error) {
	r := new(Ring)
	if e := int(C.rb_ring_new(C.uint64_t(size), C.uint64_t(spin), ch.p, &r.p)); e != 0 {
		return nil, check("pthread_create", e)
	}
	runtime.AddCleanup(r, func(p *C.struct_rb_ring) { C.rb_ring_free(p) }, r.p)
	return r, nil
}

// Add has the thread poll a CQ, until Remove, and not after it.
func (r *Ring) Add(c *CQRecord) error { return check("realloc", int(C.rb_ring_add(r.p, c.p))) }

// Remove waits for the thread to leave the CQ.
func (r *Ring) Remove(c *CQRecord) { C.rb_ring_remove(r.p, c.p) }

// Stop ends the thread. Only what is in the ring can be taken after it.
func (r *Ring) Stop() { C.rb_ring_stop(r.p) }

// DupBell duplicates the descriptor that becomes readable when completions come
// after Sleep. The duplicate is the caller's to close.
func (r *Ring) DupBell() (uintptr, error) {
	fd := int(C.rb_dup_fd(r.p.bell))
	return uintptr(fd), check("fcntl", fd)
}

// Take moves up to n completions from the ring into the array at wc, without a
// crossing.
func (r *Ring) Take(wc *WC, n int) int {
	tail := uint64(r.p.tail)
	head := atomic.LoadUint64((*uint64)(&r.p.head))
	k := int(min(head-tail, uint64(n)))
	if k > 0 {
		slots := unsafe.Slice((*WC)(unsafe.Pointer(r.p.slots)), r.p.mask+1)
		to := unsafe.Slice(wc, k)
		copy(to[copy(to, slots[tail&uint64(r.p.mask):]):], slots)
		atomic.StoreUint64((*uint64)(&r.p.tail), tail+uint64(k))
	}
	runtime.KeepAlive(r)
	return k
}

// Sleep asks for the bell. What came before is to be looked for once more.
func (r *Ring) Sleep() {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.p.waiting)), 1)
	runtime.KeepAlive(r)
}

// Stalls is how many turns found the ring full.
func (r *Ring) Stalls() uint64 {
	n := atomic.LoadUint64((*uint64)(&r.p.stalls))
	runtime.KeepAlive(r)
	return n
}

// Failed reports whether a CQ could not be polled or armed.
func (r *Ring) Failed() bool {
	f := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.p.failed))) != 0
	runtime.KeepAlive(r)
	return f
}
