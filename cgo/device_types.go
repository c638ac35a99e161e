package cgo

// DeviceExAttr is struct ibv_device_attr_ex without the classic limits. What the
// provider does not tell is zero.
type DeviceExAttr struct {
	ODPGeneral, ODPRC, ODPUC, ODPUD, ODPXRC uint64
	TimestampMask, CoreClockKHz, CapFlagsEx uint64
	TSOMax, TSOQPTypes                      uint32
	RSSQPTypes, RSSTables, RSSTableSize     uint32
	RSSFunction                             uint32
	RSSFields                               uint64
	MaxWQ                                   uint32
	PacingMin, PacingMax, PacingQPTypes     uint32
	RawCaps                                 uint32
	TMHeader, TMTags, TMFlags, TMOps, TMSGE uint32
	CQCount, CQPeriod                       uint32
	MaxDMSize                               uint64
	PCIFetchAdd, PCISwap, PCICompareSwap    uint32
	Ports                                   uint32
	CompMask                                uint64
}
