//go:build linux && cgo

package fakeverbs

// #include <stdlib.h>
// #include <infiniband/verbs.h>
import "C"

import (
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// MW is a fake memory window.
type MW struct{ p *C.struct_ibv_mw }

// NewMW makes a window of type 2 with a key.
func (d *Device) NewMW(rkey uint32) *MW {
	p := (*C.struct_ibv_mw)(C.calloc(1, C.sizeof_struct_ibv_mw))
	p.rkey, p._type = C.uint32_t(rkey), C.IBV_MW_TYPE_2
	return &MW{p}
}

// Handle is what package ibv takes.
func (w *MW) Handle() cgo.MW { return cgo.MWAt(unsafe.Pointer(w.p)) }

// Free frees the window.
func (w *MW) Free() { C.free(unsafe.Pointer(w.p)) }
