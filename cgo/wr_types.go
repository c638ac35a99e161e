package cgo

import "unsafe"

// Opcodes of work requests that few devices have, enum ibv_wr_opcode.
const (
	WRTSO         = 10
	WRFlush       = 14 // these by the extended way of posting only
	WRAtomicWrite = 15
)

// SetFlush sets the memory that a FLUSH is of, and its placement (enum
// ibv_placement_type) and selectivity (enum ibv_selectivity_level).
func (w *SendWR) SetFlush(addr uint64, rkey, length uint32, placement, selectivity uint8) {
	w.SetAtomic(addr, rkey, uint64(length), uint64(placement)<<8|uint64(selectivity))
}

// SetTSO sets the header that the device puts before each segment, of size bytes
// in C memory, and how many bytes of data a segment has.
func (w *SendWR) SetTSO(header uintptr, size, mss uint16) {
	w.bind = bind{mw: header}
	p := (*[2]uint16)(unsafe.Pointer(&w.bind.rkey))
	p[0], p[1] = size, mss
}
