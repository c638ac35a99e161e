package cgo

// SRQAttr is struct ibv_srq_attr.
type SRQAttr struct{ MaxWR, MaxSGE, Limit uint32 }

// What SRQ.Modify changes, enum ibv_srq_attr_mask.
const (
	SRQMaxWR = 1 << 0
	SRQLimit = 1 << 1
)

// SRQInitAttr is struct ibv_srq_init_attr_ex.
type SRQInitAttr struct {
	Attr            SRQAttr
	Type            uint32 // enum ibv_srq_type
	XRCD            XRCD
	CQ              CQ
	MaxTags, MaxOps uint32
}

// WCExtra is struct rb_wc_extra: what an extended completion says beyond WC.
type WCExtra struct {
	Timestamp uint64 // of the device's clock
	Wallclock uint64 // ns
	Tag       uint64
	TagPriv   uint32
	FlowTag   uint32
	CVLAN     uint16
	_         [3]uint16
}

// CQInitAttr is struct ibv_cq_init_attr_ex.
type CQInitAttr struct {
	CQE    int
	Vector int
	Fields uint64 // enum ibv_create_cq_wc_flags
	Flags  uint32 // enum ibv_create_cq_attr_flags
}

// WCStandard are the fields of an extended completion that WC has, enum
// ibv_create_cq_wc_flags.
const WCStandard = 1<<7 - 1

// FlowAttr is the head of struct ibv_flow_attr.
type FlowAttr struct {
	Type     uint32 // enum ibv_flow_attr_type
	Priority uint16
	Specs    uint8 // how many follow
	Port     uint8
	Flags    uint32
}
