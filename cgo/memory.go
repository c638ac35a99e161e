//go:build linux && cgo

package cgo

// #include "rb_memory.h"
import "C"

import (
	"syscall"
	"unsafe"
)

type (
	// MW is a memory window.
	MW struct{ p *C.struct_ibv_mw }
	// DM is memory of the device.
	DM struct{ p *C.struct_ibv_dm }
	// TD is a thread domain.
	TD struct{ p *C.struct_ibv_td }
)

// IsNil reports whether the handle names no object.
func (w MW) IsNil() bool { return w.p == nil }

// IsNil reports whether the handle names no object.
func (d DM) IsNil() bool { return d.p == nil }

// IsNil reports whether the handle names no object.
func (t TD) IsNil() bool { return t.p == nil }

// keys makes the result of a registration.
func keys(op string, r C.struct_rb_mr_r) (mr MR, lkey, rkey uint32, err error) {
	return keysNewer(op, 0, r)
}

// keysNewer is keys for a function that came with rdma-core since.
func keysNewer(op string, since int, r C.struct_rb_mr_r) (mr MR, lkey, rkey uint32, err error) {
	if err := checkNewer(op, since, int(r.err)); err != nil {
		return MR{}, 0, 0, err
	}
	return MR{r.p}, uint32(r.p.lkey), uint32(r.p.rkey), nil
}

// RegMRIOVA registers length bytes at addr, which the device and the peer know
// by addresses from iova on.
//
// Implements: struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
// and struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (p PD) RegMRIOVA(addr, length uintptr, iova uint64, access uint32) (mr MR, lkey, rkey uint32, err error) {
	enter()
	defer leave()
	return keys("ibv_reg_mr_iova", C.rb_reg_mr_iova(p.p, C.uintptr_t(addr), C.size_t(length), C.uint64_t(iova), C.uint(access)))
}

// RegDMABufMR registers length bytes of the dma-buf fd, from offset on.
//
// Implements: struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
func (p PD) RegDMABufMR(fd int, offset uint64, length int, iova uint64, access uint32) (mr MR, lkey, rkey uint32, err error) {
	enter()
	defer leave()
	return keys("ibv_reg_dmabuf_mr", C.rb_reg_dmabuf_mr(p.p, C.uint64_t(offset), C.size_t(length), C.uint64_t(iova), C.int(fd), C.int(access)))
}

// AllocNullMR makes the region that reads as zeros and forgets what is written.
//
// Implements: struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
func (p PD) AllocNullMR() (mr MR, lkey, rkey uint32, err error) {
	enter()
	defer leave()
	return keys("ibv_alloc_null_mr", C.rb_alloc_null_mr(p.p))
}

// Rereg changes what flags (enum ibv_rereg_mr_flags) names of a region. The code
// (enum ibv_rereg_mr_err_code) tells what is left of it after a failure.
//
// Implements: int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
func (m MR) Rereg(flags uint32, p PD, addr, length uintptr, access uint32) (lkey, rkey uint32, code int, err error) {
	enter()
	defer leave()
	r := C.rb_rereg_mr(m.p, C.int(flags), p.p, C.uintptr_t(addr), C.size_t(length), C.int(access))
	return uint32(m.p.lkey), uint32(m.p.rkey), int(r.code), check("ibv_rereg_mr", int(r.err))
}

// Handle is the kernel's number of the region within its context.
func (m MR) Handle() uint32 { return uint32(m.p.handle) }

// Handle is the kernel's number of the domain within its context.
func (p PD) Handle() uint32 { return uint32(p.p.handle) }

// AdviseMR gives advice (enum ib_uverbs_advise_mr_advice) on ranges of memory.
//
// Implements: int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
func (p PD) AdviseMR(advice, flags uint32, ranges []SGE) error {
	enter()
	defer leave()
	r := C.rb_advise_mr(p.p, C.int(advice), C.uint32_t(flags), (*C.struct_ibv_sge)(unsafe.Pointer(unsafe.SliceData(ranges))),
		C.uint32_t(len(ranges)))
	return check("ibv_advise_mr", int(r))
}

// AllocMW makes a memory window of a type (enum ibv_mw_type).
//
// Implements: struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
func (p PD) AllocMW(kind uint32) (MW, error) {
	enter()
	defer leave()
	r := C.rb_alloc_mw(p.p, C.int(kind))
	return MW{r.p}, check("ibv_alloc_mw", int(r.err))
}

// RKey is the window's key, which binding changes.
func (w MW) RKey() uint32 { return uint32(w.p.rkey) }

// Dealloc frees the window.
//
// Implements: int ibv_dealloc_mw(struct ibv_mw *mw)
func (w MW) Dealloc() error {
	enter()
	defer leave()
	return check("ibv_dealloc_mw", int(C.rb_dealloc_mw(w.p)))
}

// AllocDM allocates memory of the device.
//
// Implements: struct ibv_dm *ibv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
func (c Context) AllocDM(length uint64, logAlign uint32) (DM, error) {
	enter()
	defer leave()
	r := C.rb_alloc_dm(c.p, C.size_t(length), C.uint32_t(logAlign))
	return DM{r.p}, check("ibv_alloc_dm", int(r.err))
}

// Free gives the memory back.
//
// Implements: int ibv_free_dm(struct ibv_dm *dm)
func (d DM) Free() error {
	enter()
	defer leave()
	return check("ibv_free_dm", int(C.rb_free_dm(d.p)))
}

// CopyTo writes b to the device's memory.
//
// Implements: int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr, size_t length)
func (d DM) CopyTo(offset uint64, b []byte) error {
	r := C.rb_memcpy_to_dm(d.p, C.uint64_t(offset), unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
	return check("ibv_memcpy_to_dm", int(r))
}

// CopyFrom reads the device's memory into b.
//
// Implements: int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length)
func (d DM) CopyFrom(offset uint64, b []byte) error {
	r := C.rb_memcpy_from_dm(unsafe.Pointer(unsafe.SliceData(b)), d.p, C.uint64_t(offset), C.size_t(len(b)))
	return check("ibv_memcpy_from_dm", int(r))
}

// RegDMMR registers memory of the device; its addresses are offsets from the
// region's start.
//
// Implements: struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length, unsigned int access)
func (p PD) RegDMMR(d DM, offset uint64, length int, access uint32) (mr MR, lkey, rkey uint32, err error) {
	enter()
	defer leave()
	return keys("ibv_reg_dm_mr", C.rb_reg_dm_mr(p.p, d.p, C.uint64_t(offset), C.size_t(length), C.uint(access)))
}

// ExportDMABuf makes a dma-buf of the device's memory.
//
// Implements: int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
func (d DM) ExportDMABuf() (int, error) {
	fd := int(C.rb_dm_export_dmabuf(d.p))
	return fd, checkNewer("ibv_dm_export_dmabuf_fd", 62, fd)
}

// AllocTD makes a thread domain.
//
// Implements: struct ibv_td *ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
func (c Context) AllocTD() (TD, error) {
	enter()
	defer leave()
	r := C.rb_alloc_td(c.p)
	return TD{r.p}, check("ibv_alloc_td", int(r.err))
}

// Dealloc frees the thread domain.
//
// Implements: int ibv_dealloc_td(struct ibv_td *td)
func (t TD) Dealloc() error {
	enter()
	defer leave()
	return check("ibv_dealloc_td", int(C.rb_dealloc_td(t.p)))
}

// AllocParentDomain makes a protection domain that is p with a thread domain,
// which may be the zero handle.
//
// Implements: struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
func (p PD) AllocParentDomain(t TD) (PD, error) {
	enter()
	defer leave()
	r := C.rb_alloc_parent_domain(p.p.context, p.p, t.p)
	return PD{r.p}, check("ibv_alloc_parent_domain", int(r.err))
}

// ImportPD is the protection domain of a number, in an imported context.
//
// Implements: struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
func (c Context) ImportPD(handle uint32) (PD, error) {
	r := C.rb_import_pd(c.p, C.uint32_t(handle))
	return PD{r.p}, check("ibv_import_pd", int(r.err))
}

// Unimport lets an imported domain go.
//
// Implements: void ibv_unimport_pd(struct ibv_pd *pd)
func (p PD) Unimport() error { C.ibv_unimport_pd(p.p); return nil }

// ImportMR is the region of a number, in an imported context.
//
// Implements: struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
func (p PD) ImportMR(handle uint32) (mr MR, lkey, rkey uint32, err error) {
	return keys("ibv_import_mr", C.rb_import_mr(p.p, C.uint32_t(handle)))
}

// Unimport lets an imported region go.
//
// Implements: void ibv_unimport_mr(struct ibv_mr *mr)
func (m MR) Unimport() error { C.ibv_unimport_mr(m.p); return nil }

// Range is the memory of a region: where it is in this process, and its length.
func (m MR) Range() (addr uintptr, length uint64) { return uintptr(m.p.addr), uint64(m.p.length) }

// ImportDM is the device memory of a number, in an imported context.
//
// Implements: struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
func (c Context) ImportDM(handle uint32) (DM, error) {
	r := C.rb_import_dm(c.p, C.uint32_t(handle))
	return DM{r.p}, check("ibv_import_dm", int(r.err))
}

// Unimport lets imported device memory go.
//
// Implements: void ibv_unimport_dm(struct ibv_dm *dm)
func (d DM) Unimport() error { C.ibv_unimport_dm(d.p); return nil }

// Handle is the kernel's number of the device memory within its context.
func (d DM) Handle() (uint32, error) {
	if d.p.comp_mask&C.IBV_DM_MASK_HANDLE == 0 {
		return 0, &Error{Op: "ibv_alloc_dm", Errno: syscall.EOPNOTSUPP}
	}
	return uint32(d.p.handle), nil
}
