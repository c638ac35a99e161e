package cgo

// TagOp is what is done to the list of tagged receives of an SRQ: struct ibv_ops_wr.
type TagOp struct {
	ID         uint64
	Flags      uint32 // enum ibv_ops_flags
	Unexpected uint32 // messages without a match that were seen
	// Of an addition.
	RecvID, Tag, Mask uint64
	SGEs              []SGE
	// Of a deletion.
	Handle uint32
}

// Flags of a TagOp.
const (
	TagSignaled = 1 << 0
	TagSync     = 1 << 1
)
