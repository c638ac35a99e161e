//go:build !linux || !cgo

package cgo

import (
	"syscall"
	"unsafe"
)

func Devices() ([]DeviceInfo, error) { return nil, unsupported("ibv_get_device_list") }
func Open(string) (Context, error)   { return Context{}, unsupported("ibv_open_device") }

// NoFiles returns nil in this build.
func NoFiles(int) error { return nil }

func (Context) Close() error   { return unsupported("ibv_close_device") }
func (Context) Name() string   { return "" }
func (Context) Vectors() int   { return 0 }
func (Context) Transport() int { return -1 }
func (Context) QueryDevice() (DeviceAttr, error) {
	return DeviceAttr{}, unsupported("ibv_query_device")
}
func (Context) QueryPort(uint8) (PortAttr, error) { return PortAttr{}, unsupported("ibv_query_port") }
func (Context) QueryGIDTable([]GIDEntry) (int, error) {
	return 0, unsupported("ibv_query_gid_table")
}
func (Context) QueryGID(uint8, int) (GIDEntry, error) {
	return GIDEntry{}, unsupported("ibv_query_gid_ex")
}
func (Context) QueryPKey(uint8, int) (uint16, error) { return 0, unsupported("ibv_query_pkey") }
func (Context) AllocPD() (PD, error)                 { return PD{}, unsupported("ibv_alloc_pd") }
func (Context) CreateCompChannel() (CompChannel, error) {
	return CompChannel{}, unsupported("ibv_create_comp_channel")
}
func (Context) CreateCQ(int, uint64, CompChannel, int) (CQ, error) {
	return CQ{}, unsupported("ibv_create_cq")
}

func (PD) Dealloc() error { return unsupported("ibv_dealloc_pd") }
func (PD) RegMR(uintptr, int, uint32) (MR, uint32, uint32, error) {
	return MR{}, 0, 0, unsupported("ibv_reg_mr")
}
func (PD) CreateQP(*QPInitAttr) (QP, error) { return QP{}, unsupported("ibv_create_qp") }

func (MR) Dereg() error { return unsupported("ibv_dereg_mr") }

func (CompChannel) DupFD() (uintptr, error)      { return 0, unsupported("fcntl") }
func (CompChannel) Events([]uint64) (int, error) { return 0, unsupported("ibv_get_cq_event") }
func (CompChannel) Destroy() error               { return unsupported("ibv_destroy_comp_channel") }

func (CQ) Size() int      { return 0 }
func (CQ) Destroy() error { return unsupported("ibv_destroy_cq") }

func (QP) Number() uint32               { return 0 }
func (QP) Modify(*QPAttr, uint32) error { return unsupported("ibv_modify_qp") }
func (QP) Query(uint32) (QPAttr, error) { return QPAttr{}, unsupported("ibv_query_qp") }
func (QP) Destroy() error               { return unsupported("ibv_destroy_qp") }

// Records of objects that cannot exist.
type (
	QPRecord  struct{}
	CQRecord  struct{}
	UseRecord struct{}
	Memory    struct{}
)

func NewQPRecord(QP, *CQRecord, *CQRecord, uint32, uint32) (*QPRecord, error) {
	return nil, unsupported("ibv_create_qp")
}
func (*QPRecord) Shut()               {}
func (*QPRecord) Reopen() error       { return unsupported("ibv_create_qp") }
func (*QPRecord) Gone()               {}
func (*QPRecord) Reset()              {}
func (*QPRecord) State() uint32       { return QPStateReset }
func (*QPRecord) SetState(uint32)     {}
func (*QPRecord) ReadDepth() uint32   { return 0 }
func (*QPRecord) SetReadDepth(uint32) {}
func (*QPRecord) Addr() uintptr       { return 0 }

func NewCQRecord(CQ) (*CQRecord, error)      { return nil, unsupported("ibv_create_cq") }
func (*CQRecord) Shut()                      {}
func (*CQRecord) Reopen()                    {}
func (*CQRecord) Poll(*WC, int) int          { return -int(enosys) }
func (*CQRecord) PollArm(*WC, int, bool) int { return -int(enosys) }

// PollSpin is unsupported here.
func (*CQRecord) PollSpin(*WC, int, int, uint64) (int, uint64) { return -int(enosys), 0 }

func NewUseRecord(*QPRecord) (*UseRecord, error) { return nil, unsupported("ibv_create_qp") }
func (*UseRecord) SetClosed(bool)                {}
func (*UseRecord) Busy() bool                    { return false }
func (*UseRecord) Addr() uintptr                 { return 0 }

func Alloc(int) (*Memory, error)        { return nil, unsupported("malloc") }
func (*Memory) Pointer() unsafe.Pointer { return nil }
func PostSend(*Batch) Posted            { return Posted{Errno: enosys, Why: ProviderRefused} }
func PostRecv(*Batch) Posted            { return Posted{Errno: enosys, Why: ProviderRefused} }

func (*Run) Start() int                                       { return -int(enosys) }
func (*Run) Step(uint64, bool) int                            { return -int(enosys) }
func (*Run) Outcome() Posted                                  { return Posted{} }
func PostPollSend(b *Batch, _ *CQRecord, _ *WC, _ int) Posted { return PostSend(b) }
func PostPollRecv(b *Batch, _ *CQRecord, _ *WC, _ int) Posted { return PostRecv(b) }

const enosys = int32(syscall.ENOSYS)

// AsyncEvent is not available without cgo.
type AsyncEvent struct {
	Type uint32
	Port int
	QP   QP
	CQ   CQ
	SRQ  SRQ
}

func (Context) DupAsyncFD() (uintptr, error) { return 0, unsupported("ibv_get_async_event") }
func (Context) AsyncEvent() (AsyncEvent, bool, error) {
	return AsyncEvent{}, false, unsupported("ibv_get_async_event")
}
