//go:build !linux || !cgo

package cgo

// Handles of a build without the libraries: the zero value is the only one.
type (
	MW struct{}
	DM struct{}
	TD struct{}
)

// IsNil reports whether the handle names no object: always, here.
func (MW) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (DM) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (TD) IsNil() bool { return true }

func noMR(op string) (MR, uint32, uint32, error) { return MR{}, 0, 0, unsupported(op) }

func (PD) RegMRIOVA(uintptr, uintptr, uint64, uint32) (mr MR, lkey, rkey uint32, err error) {
	return noMR("ibv_reg_mr_iova")
}
func (PD) RegDMABufMR(int, uint64, int, uint64, uint32) (mr MR, lkey, rkey uint32, err error) {
	return noMR("ibv_reg_dmabuf_mr")
}
func (PD) AllocNullMR() (mr MR, lkey, rkey uint32, err error) { return noMR("ibv_alloc_null_mr") }
func (PD) RegDMMR(DM, uint64, int, uint32) (mr MR, lkey, rkey uint32, err error) {
	return noMR("ibv_reg_dm_mr")
}
func (PD) ImportMR(uint32) (mr MR, lkey, rkey uint32, err error) { return noMR("ibv_import_mr") }
func (MR) Rereg(uint32, PD, uintptr, uintptr, uint32) (lkey, rkey uint32, code int, err error) {
	return 0, 0, -1, unsupported("ibv_rereg_mr")
}
func (MR) Handle() uint32           { return 0 }
func (MR) Unimport() error          { return unsupported("ibv_unimport_mr") }
func (MR) Range() (uintptr, uint64) { return 0, 0 }

func (PD) Handle() uint32                       { return 0 }
func (PD) AdviseMR(uint32, uint32, []SGE) error { return unsupported("ibv_advise_mr") }
func (PD) AllocMW(uint32) (MW, error)           { return MW{}, unsupported("ibv_alloc_mw") }
func (PD) AllocParentDomain(TD) (PD, error)     { return PD{}, unsupported("ibv_alloc_parent_domain") }
func (PD) Unimport() error                      { return unsupported("ibv_unimport_pd") }

func (MW) RKey() uint32   { return 0 }
func (MW) Dealloc() error { return unsupported("ibv_dealloc_mw") }

func (DM) Free() error                      { return unsupported("ibv_free_dm") }
func (DM) CopyTo(uint64, []byte) error      { return unsupported("ibv_memcpy_to_dm") }
func (DM) CopyFrom(uint64, []byte) error    { return unsupported("ibv_memcpy_from_dm") }
func (DM) ExportDMABuf() (int, error)       { return 0, unsupported("ibv_dm_export_dmabuf_fd") }
func (DM) Unimport() error                  { return unsupported("ibv_unimport_dm") }
func (DM) Handle() (uint32, error)          { return 0, unsupported("ibv_alloc_dm") }
func (TD) Dealloc() error                   { return unsupported("ibv_dealloc_td") }
func (Context) AllocTD() (TD, error)        { return TD{}, unsupported("ibv_alloc_td") }
func (Context) ImportPD(uint32) (PD, error) { return PD{}, unsupported("ibv_import_pd") }
func (Context) ImportDM(uint32) (DM, error) { return DM{}, unsupported("ibv_import_dm") }
func (Context) AllocDM(uint64, uint32) (DM, error) {
	return DM{}, unsupported("ibv_alloc_dm")
}
