//go:build linux && cgo

package fakeverbs

// #include "rb_fake_wr.h"
import "C"

import (
	"syscall"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// Ex is a queue pair's extended way of posting.
type Ex struct{ p *C.struct_rb_fake_ex }

// Extend gives q an extended way of posting, of up to 16 requests at once.
func (q *QP) Extend() *Ex {
	return &Ex{C.rb_fake_ex_new(q.p, C.int(max(q.p.qp.qp_type, C.IBV_QPT_RC)))}
}

// SetType makes q a queue pair of another type, enum ibv_qp_type.
func (q *QP) SetType(t uint32) { q.p.qp.qp_type = t }

// Odd is what the ring does not show of a request.
type Odd struct {
	Header   []byte // of a TSO
	MSS      int
	Bind     [3]uint64 // address, length, access of what a window shows
	BindRKey uint32
	Word     uint64    // of an atomic write
	UD       [2]uint32 // queue pair and key of a datagram's destination
	SRQ      uint32    // that a request of an XRC initiator goes to
	Flush    [2]uint8  // placement and selectivity of a FLUSH; address and length are Bind's
}

// Odd is the last request of that kind: a bind, a TSO, an atomic write, a FLUSH, or any of
// a queue pair that is neither RC nor UC.
func (q *QP) Odd() Odd {
	o := C.rb_fake_odd_of(q.p)
	return Odd{
		Header: C.GoBytes(unsafe.Pointer(&q.p.header[0]), C.int(o.hdr_sz)), MSS: int(o.mss),
		Bind:     [3]uint64{uint64(o.addr), uint64(o.length), uint64(o.access)},
		BindRKey: uint32(o.rkey), Word: uint64(o.word), UD: [2]uint32{uint32(o.qpn), uint32(o.qkey)}, SRQ: uint32(o.srqn),
		Flush: [2]uint8{uint8(o.placement), uint8(o.selectivity)},
	}
}

// Handle is what package ibv takes.
func (x *Ex) Handle() cgo.QPEx { return cgo.QPExAt(unsafe.Pointer(x.p)) }

// Fail makes the next posts fail as a whole; 0 ends that.
func (x *Ex) Fail(errno syscall.Errno) { x.p.complete_errno = C.int(errno) }

// Aborted is how many posts were given up.
func (x *Ex) Aborted() int { return int(x.p.aborted) }

// Free frees it.
func (x *Ex) Free() { C.rb_fake_ex_free(x.p) }
