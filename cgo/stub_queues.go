//go:build !linux || !cgo

package cgo

// AH is a handle of a build without the libraries: the zero value is the only one.
type AH struct{}

// IsNil reports whether the handle names no object: always, here.
func (AH) IsNil() bool { return true }

func (AH) Addr() uintptr                { return 0 }
func (AH) Destroy() error               { return unsupported("ibv_destroy_ah") }
func (PD) CreateAH(*AHAttr) (AH, error) { return AH{}, unsupported("ibv_create_ah") }
func (PD) CreateAHFromWC(*WC, *[40]byte, uint8) (AH, error) {
	return AH{}, unsupported("ibv_create_ah_from_wc")
}
func (Context) InitAHFromWC(*WC, *[40]byte, uint8) (AHAttr, error) {
	return AHAttr{}, unsupported("ibv_init_ah_from_wc")
}
func (QP) AttachMcast(*[16]byte, uint16) error { return unsupported("ibv_attach_mcast") }
func (QP) DetachMcast(*[16]byte, uint16) error { return unsupported("ibv_detach_mcast") }

// Handles of a build without the libraries: the zero value is the only one.
type (
	SRQ       struct{}
	XRCD      struct{}
	SRQRecord struct{}
)

// IsNil reports whether the handle names no object: always, here.
func (SRQ) IsNil() bool { return true }

// IsNil reports whether the handle names no object: always, here.
func (XRCD) IsNil() bool { return true }

func (PD) CreateSRQ(*SRQAttr) (SRQ, error)       { return SRQ{}, unsupported("ibv_create_srq") }
func (PD) CreateSRQEx(*SRQInitAttr) (SRQ, error) { return SRQ{}, unsupported("ibv_create_srq_ex") }
func (SRQ) Modify(*SRQAttr, uint32) error        { return unsupported("ibv_modify_srq") }
func (SRQ) Query() (SRQAttr, error)              { return SRQAttr{}, unsupported("ibv_query_srq") }
func (SRQ) Number() (uint32, error)              { return 0, unsupported("ibv_get_srq_num") }
func (SRQ) Destroy() error                       { return unsupported("ibv_destroy_srq") }
func (Context) OpenXRCD(int, int) (XRCD, error)  { return XRCD{}, unsupported("ibv_open_xrcd") }
func (XRCD) Close() error                        { return unsupported("ibv_close_xrcd") }

func (Context) OpenQP(XRCD, uint32, uint32) (QP, error) { return QP{}, unsupported("ibv_open_qp") }

func NewSRQRecord(SRQ) (*SRQRecord, error)           { return nil, unsupported("ibv_create_srq") }
func (*SRQRecord) Shut()                             {}
func (*SRQRecord) Reopen()                           {}
func (*SRQRecord) Gone()                             {}
func (*SRQRecord) Left() uint64                      { return 0 }
func (*SRQRecord) Addr() uintptr                     { return 0 }
func NewSRQUseRecord(*SRQRecord) (*UseRecord, error) { return nil, unsupported("ibv_create_srq") }
func (*QPRecord) SetSRQ(*SRQRecord)                  {}

func PostSRQ(*Batch) Posted                                  { return Posted{Errno: enosys, Why: ProviderRefused} }
func PostPollSRQ(b *Batch, _ *CQRecord, _ *WC, _ int) Posted { return PostSRQ(b) }

func (MR) Addr() uintptr   { return 0 }
func (MW) Addr() uintptr   { return 0 }
func (*CQRecord) SetRXE()  {}
func (MW) SetRKey(uint32)  {}
func BindMW(*Batch) Posted { return Posted{Errno: enosys, Why: ProviderRefused} }

func (Context) CreateCQEx(*CQInitAttr, uint64, CompChannel) (CQ, error) {
	return CQ{}, unsupported("ibv_create_cq_ex")
}
func (*CQRecord) SetFields(uint64)              {}
func (*CQRecord) Poison()                       {}
func (*CQRecord) PollEx(*WC, *WCExtra, int) int { return -int(enosys) }
func (*CQRecord) Resize(int) error              { return unsupported("ibv_resize_cq") }
func (CQ) Moderate(uint16, uint16) error        { return unsupported("ibv_modify_cq") }

func (*QPRecord) Extend(QPEx) error { return unsupported("ibv_qp_to_qp_ex") }

// QPEx is not available without cgo.
type QPEx struct{}

// ExtendedPostsRight tells nothing here.
func ExtendedPostsRight() bool { return false }

// Handles of a build without the libraries: the zero value is the only one.
type (
	Flow     struct{}
	Counters struct{}
)

func (QP) RateLimit(uint32, uint32, uint16) error { return unsupported("ibv_modify_qp_rate_limit") }
func (QP) SetECE(uint32, uint32) error            { return unsupported("ibv_set_ece") }
func (QP) QueryECE() (uint32, uint32, error)      { return 0, 0, unsupported("ibv_query_ece") }
func (QP) DataInOrder(uint32) bool                { return false }
func (Context) ResolveL2(*AHAttr) ([6]byte, uint16, error) {
	return [6]byte{}, 0, unsupported("ibv_resolve_eth_l2_from_gid")
}
func (QP) CreateFlow(*FlowAttr, []byte) (Flow, error) {
	return Flow{}, unsupported("ibv_create_flow")
}
func (Flow) Destroy() error { return unsupported("ibv_destroy_flow") }
func (Context) CreateCounters() (Counters, error) {
	return Counters{}, unsupported("ibv_create_counters")
}
func (Counters) Addr() uintptr { return 0 }
func (Counters) Attach(uint32, uint32, Flow) error {
	return unsupported("ibv_attach_counters_point_flow")
}
func (Counters) Read([]uint64, uint32) error { return unsupported("ibv_read_counters") }
func (Counters) Destroy() error              { return unsupported("ibv_destroy_counters") }

// Handles of a build without the libraries: the zero value is the only one.
type (
	WQ       struct{}
	IndTable struct{}
)

// IsNil reports whether the handle names no object: always, here.
func (IndTable) IsNil() bool { return true }

func (PD) CreateWQ(CQ, uint32, uint32) (WQ, uint32, uint32, error) {
	return WQ{}, 0, 0, unsupported("ibv_create_wq")
}
func (WQ) Modify(uint32) error           { return unsupported("ibv_modify_wq") }
func (WQ) Destroy() error                { return unsupported("ibv_destroy_wq") }
func NewWQRecord(WQ) (*SRQRecord, error) { return nil, unsupported("ibv_create_wq") }
func (Context) CreateIndTable(int, []WQ) (IndTable, error) {
	return IndTable{}, unsupported("ibv_create_rwq_ind_table")
}
func (IndTable) Destroy() error { return unsupported("ibv_destroy_rwq_ind_table") }
func (PD) CreateRSS(*QPInitAttr, IndTable, uint8, []byte, uint64) (QP, error) {
	return QP{}, unsupported("ibv_create_qp_ex")
}
