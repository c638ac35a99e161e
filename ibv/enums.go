package ibv

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/railbind/railbind/cgo"
)

// bitName names a bit of a mask.
type bitName[T ~uint32] struct {
	bit  T
	name string
}

// bitNames prints the bits of a mask, unknown ones together as their number.
func bitNames[T ~uint32](v T, names []bitName[T]) (out []string) {
	for _, n := range names {
		if v&n.bit != 0 {
			out = append(out, n.name)
			v &^= n.bit
		}
	}
	if v != 0 {
		out = append(out, fmt.Sprintf("%#x", uint32(v)))
	}
	return out
}

// name prints a value of an enumeration, unknown ones as their number.
func name[T ~uint8 | ~uint32 | ~int](kind string, names map[T]string, v T) string {
	if s, ok := names[v]; ok {
		return s
	}
	return kind + "(" + strconv.FormatInt(int64(v), 10) + ")"
}

// NodeType is what a device calls itself.
type NodeType int

// Node types.
const (
	NodeUnknown     NodeType = -1
	NodeCA          NodeType = 1
	NodeSwitch      NodeType = 2
	NodeRouter      NodeType = 3
	NodeRNIC        NodeType = 4
	NodeUSNIC       NodeType = 5
	NodeUSNICUDP    NodeType = 6
	NodeUnspecified NodeType = 7
)

func (t NodeType) String() string {
	return name("NodeType", map[NodeType]string{NodeUnknown: "unknown", NodeCA: "CA", NodeSwitch: "switch",
		NodeRouter: "router", NodeRNIC: "RNIC", NodeUSNIC: "usNIC", NodeUSNICUDP: "usNIC UDP",
		NodeUnspecified: "unspecified"}, t)
}

// Transport is the protocol family of a device. RoCE counts as InfiniBand here;
// the port's link layer tells them apart.
type Transport int

// Transports.
const (
	TransportUnknown     Transport = -1
	TransportIB          Transport = 0
	TransportIWARP       Transport = 1
	TransportUSNIC       Transport = 2
	TransportUSNICUDP    Transport = 3
	TransportUnspecified Transport = 4
)

func (t Transport) String() string {
	return name("Transport", map[Transport]string{TransportUnknown: "unknown", TransportIB: "InfiniBand",
		TransportIWARP: "iWARP", TransportUSNIC: "usNIC", TransportUSNICUDP: "usNIC UDP",
		TransportUnspecified: "unspecified"}, t)
}

// PortState is the logical state of a port.
type PortState uint32

// Port states; traffic flows in PortActive.
const (
	PortNop         PortState = 0
	PortDown        PortState = 1
	PortInit        PortState = 2
	PortArmed       PortState = 3
	PortActive      PortState = 4
	PortActiveDefer PortState = 5
)

func (s PortState) String() string {
	return name("PortState", map[PortState]string{PortNop: "NOP", PortDown: "DOWN", PortInit: "INIT",
		PortArmed: "ARMED", PortActive: "ACTIVE", PortActiveDefer: "ACTIVE_DEFER"}, s)
}

// LinkLayer is what carries a port's packets.
type LinkLayer uint8

// Link layers.
const (
	LinkUnspecified LinkLayer = 0
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

func (l LinkLayer) String() string {
	return name("LinkLayer", map[LinkLayer]string{LinkUnspecified: "unspecified", LinkInfiniBand: "InfiniBand",
		LinkEthernet: "Ethernet"}, l)
}

// MTU is a path MTU in the coding of the verbs: MTU1024 is 3.
type MTU uint32

// Path MTUs.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes is the MTU in bytes, 0 for a value that codes none.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

func (m MTU) String() string {
	if b := m.Bytes(); b > 0 {
		return strconv.Itoa(b)
	}
	return fmt.Sprintf("MTU(%d)", uint32(m))
}

// AtomicCap says against what a device's atomics are atomic.
type AtomicCap uint32

// Atomic capabilities.
const (
	AtomicNone AtomicCap = 0 // no atomics
	AtomicHCA  AtomicCap = 1 // against atomics of the same device
	AtomicGlob AtomicCap = 2 // also against the processor's
)

func (c AtomicCap) String() string {
	return name("AtomicCap", map[AtomicCap]string{AtomicNone: "none", AtomicHCA: "HCA", AtomicGlob: "global"}, c)
}

// GIDType is the kind of a row of the GID table.
type GIDType uint32

// GID types.
const (
	GIDTypeIB     GIDType = 0
	GIDTypeRoCEv1 GIDType = 1
	GIDTypeRoCEv2 GIDType = 2
)

func (t GIDType) String() string {
	return name("GIDType", map[GIDType]string{GIDTypeIB: "IB", GIDTypeRoCEv1: "RoCE v1", GIDTypeRoCEv2: "RoCE v2"}, t)
}

// GID is a port's 128-bit address: on RoCE an IP address of its netdev.
type GID [16]byte

// Addr is the GID as an IP address: an IPv4-mapped one as IPv4, a link-local one
// without its zone.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// GIDOf is the GID that an IP address has on RoCE.
func GIDOf(a netip.Addr) GID { return GID(a.As16()) }

// IsZero reports whether the GID is unset.
func (g GID) IsZero() bool { return g == GID{} }

func (g GID) String() string { return netip.AddrFrom16(g).String() }

// GIDEntry is a row of the GID table.
type GIDEntry struct {
	GID    GID
	Index  int
	Port   uint8
	Type   GIDType
	Netdev int // interface index, in the network namespace of the device; 0 for none
}

func gidEntry(e cgo.GIDEntry) GIDEntry {
	return GIDEntry{GID(e.GID), int(e.Index), uint8(e.Port), GIDType(e.Type), int(e.NetdevIndex)}
}

// QPState is a state of a queue pair.
type QPState uint32

// States of a queue pair.
const (
	QPReset QPState = cgo.QPStateReset
	QPInit  QPState = cgo.QPStateInit // receives may be posted
	QPRTR   QPState = cgo.QPStateRTR  // ready to receive
	QPRTS   QPState = cgo.QPStateRTS  // ready to send too
	QPSQD   QPState = cgo.QPStateSQD  // send queue draining or drained
	QPSQE   QPState = cgo.QPStateSQE  // send queue in error
	QPErr   QPState = cgo.QPStateErr  // every request is flushed
)

func (s QPState) String() string {
	return name("QPState", map[QPState]string{QPReset: "RESET", QPInit: "INIT", QPRTR: "RTR", QPRTS: "RTS",
		QPSQD: "SQD", QPSQE: "SQE", QPErr: "ERR"}, s)
}
