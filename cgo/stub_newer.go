//go:build !linux || !cgo

package cgo

// Handles of a build without C name no objects.
type (
	CompCounter struct{}
	Buf         struct{}
	DMAHandle   struct{}
)

// IsNil reports whether the handle names no object: always, here.
func (CompCounter) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (Buf) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (DMAHandle) IsNil() bool { return true }

func (Context) QueryCompCounterCaps() (most uint64, counters, ops uint32, err error) {
	return 0, 0, 0, unsupported("ibv_query_comp_cntr_caps")
}
func (Context) CreateCompCounter(uint32) (CompCounter, error) {
	return CompCounter{}, unsupported("ibv_create_comp_cntr")
}
func (CompCounter) Destroy() error              { return unsupported("ibv_destroy_comp_cntr") }
func (CompCounter) Set(uint64) error            { return unsupported("ibv_set_comp_cntr") }
func (CompCounter) SetErrors(uint64) error      { return unsupported("ibv_set_err_comp_cntr") }
func (CompCounter) Add(uint64) error            { return unsupported("ibv_inc_comp_cntr") }
func (CompCounter) AddErrors(uint64) error      { return unsupported("ibv_inc_err_comp_cntr") }
func (CompCounter) Read() (uint64, error)       { return 0, unsupported("ibv_read_comp_cntr") }
func (CompCounter) ReadErrors() (uint64, error) { return 0, unsupported("ibv_read_err_comp_cntr") }
func (QP) AttachCompCounter(CompCounter, uint32) error {
	return unsupported("ibv_qp_attach_comp_cntr")
}

func (PD) AllocBuf(int) (Buf, []byte, error) { return Buf{}, nil, unsupported("ibv_alloc_buf") }
func (Buf) Free() error                      { return unsupported("ibv_free_buf") }
func (Buf) ExportDMABuf() (int, error)       { return 0, unsupported("ibv_export_buf_dmabuf_fd") }
func (PD) RegBufMR(Buf, uintptr, int, uint32) (mr MR, lkey, rkey uint32, err error) {
	return noMR("ibv_reg_buf_mr")
}
func (Context) AllocDMAHandle(DMAHandleAttr) (DMAHandle, error) {
	return DMAHandle{}, unsupported("ibv_alloc_dmah")
}
func (DMAHandle) Dealloc() error { return unsupported("ibv_dealloc_dmah") }
func (PD) RegMREx(uintptr, int, Buf, DMAHandle, uint32) (mr MR, lkey, rkey uint32, err error) {
	return noMR("ibv_reg_mr_ex")
}

func (ID) ResolveAddrInfo(string, string, AddrInfo) error {
	return unsupported("rdma_resolve_addrinfo")
}
func (ID) QueryAddrInfo() ([]AddrInfo, error) { return nil, unsupported("rdma_query_addrinfo") }
func (ID) WriteEvent(int32, uint64) error     { return unsupported("rdma_write_cm_event") }
