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
func (q *QP) Extend() *Ex { return &Ex{C.rb_fake_ex_new(q.p, 2)} }

// Handle is what package ibv takes.
func (x *Ex) Handle() cgo.QPEx { return cgo.QPExAt(unsafe.Pointer(x.p)) }

// Fail makes the next posts fail as a whole; 0 ends that.
func (x *Ex) Fail(errno syscall.Errno) { x.p.complete_errno = C.int(errno) }

// Free frees it.
func (x *Ex) Free() { C.rb_fake_ex_free(x.p) }
