//go:build linux && cgo

package cgo

// #include "rb_buf.h"
import "C"

import "unsafe"

type (
	// Buf is memory that the provider has allocated.
	Buf struct{ p *C.struct_ibv_buf }
	// DMAHandle is a hint for the device's accesses to memory.
	DMAHandle struct{ p *C.struct_ibv_dmah }
)

// IsNil reports whether the handle names no object.
func (b Buf) IsNil() bool { return b.p == nil }

// IsNil reports whether the handle names no object.
func (h DMAHandle) IsNil() bool { return h.p == nil }

// The rdma-cores that brought DMA handles, buffers, and their dma-bufs.
const (
	dmahSince   = 59
	bufSince    = 64
	exportSince = 65
)

// AllocBuf allocates size bytes in the way that the domain's provider chooses.
// What is in them is anything.
//
// Implements: void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
func (p PD) AllocBuf(size int) (Buf, []byte, error) {
	enter()
	defer leave()
	r := C.rb_alloc_buf(p.p, C.size_t(size))
	if err := checkNewer("ibv_alloc_buf", bufSince, int(r.err)); err != nil {
		return Buf{}, nil, err
	}
	return Buf{r.p}, unsafe.Slice((*byte)(r.mem), size), nil
}

// Free frees the memory.
//
// Implements: void ibv_free_buf(struct ibv_buf *buf)
func (b Buf) Free() error {
	enter()
	defer leave()
	return checkNewer("ibv_free_buf", bufSince, int(C.rb_free_buf(b.p)))
}

// ExportDMABuf gives a dma-buf of the memory; ENODATA where it is none.
//
// Implements: int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
func (b Buf) ExportDMABuf() (int, error) {
	fd := int(C.rb_export_buf(b.p))
	return fd, checkNewer("ibv_export_buf_dmabuf_fd", exportSince, fd)
}

// RegBufMR registers length bytes at addr, within memory that this domain has
// allocated.
//
// Implements: struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length, int access)
func (p PD) RegBufMR(b Buf, addr uintptr, length int, access uint32) (mr MR, lkey, rkey uint32, err error) {
	enter()
	defer leave()
	return keysNewer("ibv_reg_buf_mr", bufSince, C.rb_reg_buf_mr(p.p, b.p, C.uintptr_t(addr), C.size_t(length), C.int(access)))
}

// AllocDMAHandle makes a DMA handle.
//
// Implements: struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
func (c Context) AllocDMAHandle(a DMAHandleAttr) (DMAHandle, error) {
	enter()
	defer leave()
	r := C.rb_alloc_dmah(c.p, C.struct_rb_dmah_attr{
		comp_mask: C.uint32_t(a.Mask), cpu_id: C.uint32_t(a.CPU), ph: C.uint8_t(a.Hint), mem_type: C.uint8_t(a.Kind),
	})
	return DMAHandle{r.p}, checkNewer("ibv_alloc_dmah", dmahSince, int(r.err))
}

// Dealloc frees the handle.
//
// Implements: int ibv_dealloc_dmah(struct ibv_dmah *dmah)
func (h DMAHandle) Dealloc() error {
	enter()
	defer leave()
	return checkNewer("ibv_dealloc_dmah", dmahSince, int(C.rb_dealloc_dmah(h.p)))
}

// RegMREx registers length bytes at addr, with a DMA handle and within memory of
// the provider's, either of which may be the zero handle.
//
// Implements: struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr)
func (p PD) RegMREx(addr uintptr, length int, b Buf, h DMAHandle, access uint32) (mr MR, lkey, rkey uint32, err error) {
	enter()
	defer leave()
	return keysNewer("ibv_reg_mr_ex", dmahSince,
		C.rb_reg_mr_ex(p.p, C.uintptr_t(addr), C.size_t(length), C.int(access), b.p, h.p))
}
