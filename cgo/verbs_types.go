package cgo

import "unsafe"

// DeviceInfo is one line of the device list.
type DeviceInfo struct {
	Name      string
	DevName   string // of the character device, "uverbs0"
	GUID      uint64 // node GUID, host order
	Index     int    // the kernel's index, -1 when unknown
	NodeType  int    // enum ibv_node_type
	Transport int    // enum ibv_transport_type
}

// DeviceAttr is struct ibv_device_attr, without what nothing here uses.
type DeviceAttr struct {
	FirmwareVersion                   string
	NodeGUID, SysImageGUID            uint64 // host order
	MaxMRSize, PageSizeCap            uint64
	VendorID, VendorPartID, HWVersion uint32
	CapFlags                          uint32
	AtomicCap                         uint32
	MaxQP, MaxQPWR                    int
	MaxSGE, MaxSGERead                int
	MaxCQ, MaxCQE                     int
	MaxMR, MaxPD, MaxAH, MaxMW        int
	MaxQPReadAtomic                   int // as responder, of one QP
	MaxQPInitReadAtomic               int // as initiator, of one QP
	MaxResReadAtomic                  int // as responder, of the device
	MaxSRQ, MaxSRQWR, MaxSRQSGE       int
	MaxMcastGroups, MaxMcastQPAttach  int
	MaxPKeys                          uint16
	LocalCAAckDelay                   uint8
	PhysPortCount                     uint8
}

// PortAttr is struct ibv_port_attr.
type PortAttr struct {
	State, MaxMTU, ActiveMTU                                uint32 // enumerations
	GIDTableLen                                             int
	CapFlags, MaxMsgSize                                    uint32
	PKeyTableLen, LID, SMLID                                uint16
	LMC, ActiveWidth, ActiveSpeed, PhysicalState, LinkLayer uint8

	BadPKeys, QKeyViolations                          uint32
	CapFlags2                                         uint16
	MaxVLs, SMSL, SubnetTimeout, InitTypeReply, Flags uint8
}

// GIDEntry is struct ibv_gid_entry.
type GIDEntry struct {
	GID         [16]byte
	Index       uint32
	Port        uint32
	Type        uint32 // enum ibv_gid_type
	NetdevIndex uint32 // 0 where the row has no netdev
}

// QPCap is struct ibv_qp_cap.
type QPCap struct {
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline uint32
}

// QPInitAttr is struct ibv_qp_init_attr. Creating a QP writes the granted
// capacities back into Cap.
type QPInitAttr struct {
	SendCQ, RecvCQ CQ
	SRQ            SRQ
	Cap            QPCap
	Type           uint32 // enum ibv_qp_type
	SignalAll      bool
	// What makes it struct ibv_qp_init_attr_ex.
	XRCD        XRCD
	SendOps     uint64 // enum ibv_qp_create_send_ops_flags: the QP is to have ibv_wr_*
	CreateFlags uint32
	SourceQPN   uint32
	TSOHeader   uint16 // most bytes of the header of a TSO request
}

// AHAttr is struct ibv_ah_attr.
type AHAttr struct {
	DGID         [16]byte
	FlowLabel    uint32
	DLID         uint16
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	Global       bool
	Port         uint8
}

// QPAttr is struct ibv_qp_attr, without alternate paths.
type QPAttr struct {
	State, CurState, PathMTU, PathMigState uint32 // enumerations
	QKey                                   uint32
	RQPSN, SQPSN                           uint32
	DestQPNum                              uint32
	Access                                 uint32
	Cap                                    QPCap
	AH                                     AHAttr
	PKeyIndex                              uint16
	SQDAsyncNotify, SQDraining             uint8
	MaxReadAtomic, MaxDestReadAtomic       uint8
	MinRNRTimer, Port                      uint8
	Timeout, RetryCount, RNRRetry          uint8
	RateLimit                              uint32
}

// SGE is struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// SendWR is struct ibv_send_wr. Next and SGList are addresses of C memory.
type SendWR struct {
	ID     uint64
	Next   uintptr
	SGList uintptr
	NumSGE int32
	Opcode uint32
	Flags  uint32
	Imm    [4]byte // network order
	union  [32]byte
	qpType [4]byte
	_      [4]byte
	bind   bind
}

// bind is what a request that binds a memory window says. MW and MR are addresses
// of C memory.
type bind struct {
	mw     uintptr
	rkey   uint32
	_      uint32
	mr     uintptr
	addr   uint64
	length uint64
	access uint32
	_      uint32
}

// SetBind sets a window, its new key, and what of a region it shows.
func (w *SendWR) SetBind(mw, mr uintptr, rkey uint32, addr, length uint64, access uint32) {
	w.Imm = [4]byte{}
	w.bind = bind{mw: mw, rkey: rkey, mr: mr, addr: addr, length: length, access: access}
}

// BindRKey is the key that SetBind set.
func (w *SendWR) BindRKey() uint32 { return w.bind.rkey }

// SetInv sets the key that the request makes invalid.
func (w *SendWR) SetInv(rkey uint32) { *(*uint32)(unsafe.Pointer(&w.Imm)) = rkey }

// SetRDMA sets the remote side of a READ or WRITE.
func (w *SendWR) SetRDMA(addr uint64, rkey uint32) {
	*(*uint64)(unsafe.Pointer(&w.union[0])) = addr
	*(*uint32)(unsafe.Pointer(&w.union[8])) = rkey
}

// SetAtomic sets the remote side and the operands of an atomic.
func (w *SendWR) SetAtomic(addr uint64, rkey uint32, compareAdd, swap uint64) {
	*(*uint64)(unsafe.Pointer(&w.union[0])) = addr
	*(*uint64)(unsafe.Pointer(&w.union[8])) = compareAdd
	*(*uint64)(unsafe.Pointer(&w.union[16])) = swap
	*(*uint32)(unsafe.Pointer(&w.union[24])) = rkey
}

// SetRemoteAddr changes the remote address alone.
func (w *SendWR) SetRemoteAddr(addr uint64) { *(*uint64)(unsafe.Pointer(&w.union[0])) = addr }

// SetUD sets where a datagram goes; ah is an address handle's address.
func (w *SendWR) SetUD(ah uintptr, qpn, qkey uint32) {
	*(*uintptr)(unsafe.Pointer(&w.union[0])) = ah
	*(*uint32)(unsafe.Pointer(&w.union[8])) = qpn
	*(*uint32)(unsafe.Pointer(&w.union[12])) = qkey
}

// SetXRC sets the SRQ that a request of an XRC initiator goes to.
func (w *SendWR) SetXRC(srqn uint32) { *(*uint32)(unsafe.Pointer(&w.qpType[0])) = srqn }

// RecvWR is struct ibv_recv_wr. Next and SGList are addresses of C memory.
type RecvWR struct {
	ID     uint64
	Next   uintptr
	SGList uintptr
	NumSGE int32
	_      int32
}

// WC is struct ibv_wc. In a completion in error, Opcode holds what the accounts
// know of the queue: OpcodeSend, OpcodeRecv or OpcodeUnknown.
type WC struct {
	ID           uint64
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	Imm          [4]byte // network order
	QPNum        uint32
	SrcQP        uint32
	Flags        uint32
	PKeyIndex    uint16
	SLID         uint16
	SL           uint8
	DLIDPathBits uint8
	_            [2]byte
}

// Opcodes of a completion in error.
const (
	OpcodeSend    = 0
	OpcodeRecv    = 128
	OpcodeUnknown = 0xffff
)

// Batch is struct rb_batch, the argument of a post: Go writes it in place, in C
// memory. QP, First and Uses are addresses of C memory.
type Batch struct {
	QP       uintptr
	First    uintptr // SendWR or RecvWR
	Uses     uintptr // BatchUse
	N        uint32  // requests to post
	Skip     uint32  // requests of the batch before First
	Signaled uint32  // how many of the N are signalled
	Tail     uint32  // how many follow the last signalled one
	Reads    uint32  // how many are READs or atomics
	NumUses  uint32
	Polled   int32  // what the poll of PostPollSend and PostPollRecv returned
	Want     uint32 // PostPollSend polls until so many completions are there,
	Spin     uint32 // for so many nanoseconds at most; see CQRecord.PollSpin
	_        uint32
}

// Run is struct rb_run: a list of requests that C works off.
type Run struct {
	Batch, WRs  uintptr
	Refused     uint64 // of a post that failed; see RunRefused
	Failed      uint64 // index of the first request that completed in error
	At          uint64 // position of the first request on the send queue
	N           uint32
	Window      uint32 // most requests in flight
	Chunk       uint32 // requests of each post
	Stop        uint32 // post no more
	Posted, End uint32
	Done        uint32 // requests known to have succeeded
	Status      uint32 // of the first error
	VendorErr   uint32
	Drained     uint32
}

// What a step of a Run came to, or a negative errno.
const (
	RunDone = iota
	RunIdle // nothing came for the time given; with arm, the CQ is armed
	RunTurn // a turn is over: look whether to go on
)

// BatchUse is struct rb_batch_use: a memory region that a batch uses.
type BatchUse struct {
	Use  uintptr
	Last uint32 // index of the last request that uses it
	_    uint32
}

// Posted is the outcome of a post.
type Posted struct {
	Accepted uint32 // requests that are in flight now, or may be
	Errno    int32  // the provider's, where Why is ProviderRefused or AcceptedUnknown
	Why      Refusal
}

// Refusal says why a post was refused.
type Refusal int32

// What a post can come to.
const (
	Accepted        Refusal = iota
	RefusedClosed           // the QP is closed
	RefusedState            // the QP's state allows no such request
	RefusedDepth            // READ or atomic, and the initiator depth is 0
	RefusedFull             // more requests than the queue has room for
	RefusedMRClosed         // a memory region of the batch is closed
	ProviderRefused         // the provider refused
	AcceptedUnknown         // the provider failed and did not say where: all N may be in flight
)

// Opcodes of work requests, enum ibv_wr_opcode.
const (
	WRWrite    = 0
	WRWriteImm = 1
	WRSend     = 2
	WRSendImm  = 3
	WRRead     = 4
	WRCompSwap = 5
	WRFetchAdd = 6
	WRLocalInv = 7
	WRBindMW   = 8
	WRSendInv  = 9
)

// Flags of work requests, enum ibv_send_flags.
const (
	SendFence     = 1 << 0
	SendSignaled  = 1 << 1
	SendSolicited = 1 << 2
	SendInline    = 1 << 3
)

// States of a queue pair, enum ibv_qp_state.
const (
	QPStateReset = 0
	QPStateInit  = 1
	QPStateRTR   = 2
	QPStateRTS   = 3
	QPStateSQD   = 4
	QPStateSQE   = 5
	QPStateErr   = 6
)
