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
