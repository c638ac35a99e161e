package ibv

import (
	"time"

	"github.com/railbind/railbind/cgo"
)

// DeviceAttrEx tells what a device has beyond the classic limits. What the
// provider does not tell is zero.
type DeviceAttrEx struct {
	DeviceAttr
	ODP              ODPCaps
	TSO              TSOCaps
	RSS              RSSCaps
	PacketPacing     PacketPacingCaps
	TagMatching      TagMatchingCaps
	CQModeration     CQModerationCaps
	PCIAtomics       PCIAtomicCaps
	RawPacketCaps    uint32 // enum ibv_raw_packet_caps
	CapFlagsEx       uint64 // device_cap_flags_ex; bits 0 to 31 are those of CapFlags
	MaxWQ            uint32 // receive work queues, for RSS
	MaxDMSize        uint64 // bytes of device memory that one allocation may have
	PhysPortCountEx  uint32 // also beyond 255
	TimestampMask    uint64 // valid bits of a completion's timestamp; 0: it has none
	CoreClockKHz     uint64 // of the clock of timestamps
	ExtendedCompMask uint64 // comp_mask of the answer
}

// ODPGeneral says whether a device pages on demand.
type ODPGeneral uint64

// On-demand paging.
const (
	ODPSupport  ODPGeneral = 1 << 0 // regions with OnDemand
	ODPImplicit ODPGeneral = 1 << 1 // a region of the whole address space
)

// ODPOps is a set of operations for which memory is paged on demand.
type ODPOps uint32

// Operations that page on demand.
const (
	ODPSend        ODPOps = 1 << 0
	ODPRecv        ODPOps = 1 << 1
	ODPWrite       ODPOps = 1 << 2
	ODPRead        ODPOps = 1 << 3
	ODPAtomic      ODPOps = 1 << 4
	ODPSRQRecv     ODPOps = 1 << 5
	ODPFlush       ODPOps = 1 << 6
	ODPAtomicWrite ODPOps = 1 << 7
)

// ODPCaps is what on-demand paging a device has, by service of a queue pair.
type ODPCaps struct {
	General         ODPGeneral
	RC, UC, UD, XRC ODPOps
}

// QPTypes is a set of services.
type QPTypes uint32

// Has reports whether the set has t.
//
// Implements: int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
func (s QPTypes) Has(t QPType) bool { return t < 32 && s>>t&1 != 0 }

// TSOCaps is segmentation of TCP by the device.
type TSOCaps struct {
	MaxTSO  uint32 // bytes of a message to be segmented; 0: none
	QPTypes QPTypes
}

// RSSCaps is the spreading of receives over several queues.
type RSSCaps struct {
	QPTypes       QPTypes
	MaxTables     uint32 // indirection tables
	MaxTableSize  uint32 // entries in one
	HashFields    uint64 // enum ibv_rx_hash_fields
	HashFunctions uint8  // enum ibv_rx_hash_function_flags
}

// PacketPacingCaps is the range of rates that a queue pair can be limited to, in
// kbit/s; 0 for no such thing.
type PacketPacingCaps struct {
	Min, Max uint32
	QPTypes  QPTypes
}

// TagMatchingCaps is the matching of receives by tag.
type TagMatchingCaps struct {
	MaxRendezvousHeader uint32 // bytes
	MaxTags             uint32 // in the list of an SRQ; 0: none
	Flags               uint32 // enum ibv_tm_cap_flags
	MaxOps              uint32 // outstanding list operations
	MaxSGE              uint32 // of a tagged buffer
}

// CQModerationCaps bounds the moderation of a CQ's events; 0 for none.
type CQModerationCaps struct {
	MaxCount  uint32
	MaxPeriod time.Duration
}

// PCIAtomicCaps are the sizes of atomics that the device does on the bus, each a
// set of sizes: bit 0 for 4 bytes, bit 1 for 8, bit 2 for 16.
type PCIAtomicCaps struct {
	FetchAdd, Swap, CompareSwap uint32
}

// QueryDeviceEx asks for the device's limits and for what it has beyond them.
//
// Implements: int ibv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr)
func (c *Context) QueryDeviceEx() (DeviceAttrEx, error) {
	const op = "query device"
	if err := c.life().enter(op); err != nil {
		return DeviceAttrEx{}, err
	}
	defer c.node.leave()
	a, x, err := c.h.QueryDeviceEx()
	if err != nil {
		return DeviceAttrEx{}, fail(op, c.name, err)
	}
	return deviceAttrEx(a, x), nil
}

func deviceAttrEx(a cgo.DeviceAttr, x cgo.DeviceExAttr) DeviceAttrEx {
	return DeviceAttrEx{
		DeviceAttr:       deviceAttr(a),
		ODP:              ODPCaps{ODPGeneral(x.ODPGeneral), ODPOps(x.ODPRC), ODPOps(x.ODPUC), ODPOps(x.ODPUD), ODPOps(x.ODPXRC)},
		TSO:              TSOCaps{x.TSOMax, QPTypes(x.TSOQPTypes)},
		RSS:              RSSCaps{QPTypes(x.RSSQPTypes), x.RSSTables, x.RSSTableSize, x.RSSFields, uint8(x.RSSFunction)},
		PacketPacing:     PacketPacingCaps{x.PacingMin, x.PacingMax, QPTypes(x.PacingQPTypes)},
		TagMatching:      TagMatchingCaps{x.TMHeader, x.TMTags, x.TMFlags, x.TMOps, x.TMSGE},
		CQModeration:     CQModerationCaps{x.CQCount, time.Duration(x.CQPeriod) * time.Microsecond},
		PCIAtomics:       PCIAtomicCaps{x.PCIFetchAdd, x.PCISwap, x.PCICompareSwap},
		RawPacketCaps:    x.RawCaps,
		CapFlagsEx:       x.CapFlagsEx,
		MaxWQ:            x.MaxWQ,
		MaxDMSize:        x.MaxDMSize,
		PhysPortCountEx:  x.Ports,
		TimestampMask:    x.TimestampMask,
		CoreClockKHz:     x.CoreClockKHz,
		ExtendedCompMask: x.CompMask,
	}
}

// Clock reads the device's clock, the one of a completion's timestamp, in its own
// ticks (see CoreClockKHz). Few devices have one: the error matches
// errors.ErrUnsupported.
//
// Implements: int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
func (c *Context) Clock() (uint64, error) {
	const op = "read clock"
	if err := c.life().enter(op); err != nil {
		return 0, err
	}
	defer c.node.leave()
	// A timespec of the interface; drivers put ticks into its nanoseconds.
	s, ticks, err := c.h.QueryClock()
	if err != nil {
		return 0, fail(op, c.name, err)
	}
	return uint64(s)*1e9 + uint64(ticks), nil
}

// PortSpeed asks for the effective speed of a port in Mbit/s. It needs rdma-core
// 62 and a kernel that tells; otherwise the error matches errors.ErrUnsupported,
// and PortAttr has the width and speed of the link.
//
// Implements: int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
func (c *Context) PortSpeed(port uint8) (int64, error) {
	const op = "query port speed"
	if err := c.life().enter(op); err != nil {
		return 0, err
	}
	defer c.node.leave()
	v, err := c.h.QueryPortSpeed(port)
	if err != nil {
		return 0, fail(op, c.name, err)
	}
	return int64(v) * 100, nil
}
