package cgo

import "unsafe"

// Opcodes of work requests that few devices have, enum ibv_wr_opcode.
const (
	WRTSO         = 10
	WRAtomicWrite = 15 // by the extended way of posting only
)

// SetTSO sets the header that the device puts before each segment, of size bytes
// in C memory, and how many bytes of data a segment has.
func (w *SendWR) SetTSO(header uintptr, size, mss uint16) {
	w.bind = bind{mw: header}
	p := (*[2]uint16)(unsafe.Pointer(&w.bind.rkey))
	p[0], p[1] = size, mss
}
