package cgo

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// SockAddr is a socket address in the fixed shape that crosses to C. Family is
// AF_INET (2), AF_INET6 (10), or 0 for "none"; Port and Scope are in host order.
type SockAddr struct {
	Family uint16
	Port   uint16
	Scope  uint32
	Addr   [16]byte
}

// Linux's address families: package syscall has other numbers elsewhere.
const (
	afInet  = 2
	afInet6 = 10
)

// ToSockAddr converts ap, whose zone must be empty or a decimal interface
// index. The zero AddrPort gives "none".
func ToSockAddr(ap netip.AddrPort) SockAddr {
	s := SockAddr{Port: ap.Port()}
	a := ap.Addr().Unmap()
	switch {
	case a.Is4():
		s.Family = afInet
		b := a.As4()
		copy(s.Addr[:], b[:])
	case a.Is6():
		s.Family = afInet6
		s.Addr = a.As16()
		if n, err := strconv.ParseUint(a.Zone(), 10, 32); err == nil {
			s.Scope = uint32(n)
		}
	default:
		return SockAddr{}
	}
	return s
}

// AddrPort converts back; the zone is the decimal interface index.
func (s SockAddr) AddrPort() netip.AddrPort {
	var a netip.Addr
	switch s.Family {
	case afInet:
		a = netip.AddrFrom4([4]byte(s.Addr[:4]))
	case afInet6:
		a = netip.AddrFrom16(s.Addr)
		if s.Scope != 0 {
			a = a.WithZone(strconv.FormatUint(uint64(s.Scope), 10))
		}
	default:
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, s.Port)
}

// ConnParam is struct rdma_conn_param without its private data.
type ConnParam struct {
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8  // 0 to 7; ignored when accepting
	RNRRetryCount      uint8  // 0 to 7; 7 is "for ever"
	SRQ                bool   // ignored when the id has a QP
	QPNum              uint32 // ignored when the id has a QP
}

// UDParam is the way to the peer or the group of an id of datagrams.
type UDParam struct {
	AH          AHAttr
	QPNum, QKey uint32
}

// IDInfo is what user space can read of a cm_id, copied by value.
type IDInfo struct {
	Verbs       Context // nil handle when librdmacm knows no device
	Device      string
	DeviceIndex int // the kernel's index, -1 when unknown
	Transport   int // enum ibv_transport_type
	Port        uint8
	Local, Peer netip.AddrPort
	SGID, DGID  [16]byte
	PKey        uint16

	NumPaths           int
	PathMTU            uint8 // enum ibv_mtu
	PathHopLimit       uint8
	PathSGID, PathDGID [16]byte
}

// Event is an event that was copied and acknowledged.
type Event struct {
	Type   uint32 // enum rdma_cm_event_type
	Status int32  // negative errno, or for REJECTED a reason code
	Cookie uint64 // of the id; for CONNECT_REQUEST the listener's
	NewID  ID     // CONNECT_REQUEST only: the receiver owns it
	Conn   ConnParam
	UD     UDParam // of an id of datagrams
	Group  uint64  // of a multicast event: what JoinMulticast was given
	Arg    uint64  // of EventUser: what WriteEvent was given
	// PrivateData is the field as the wire has it, padding included.
	PrivateData []byte
	Info        IDInfo
}

// Values of rdma_cm_event_type.
const (
	EventAddrResolved uint32 = iota
	EventAddrError
	EventRouteResolved
	EventRouteError
	EventConnectRequest
	EventConnectResponse
	EventConnectError
	EventUnreachable
	EventRejected
	EventEstablished
	EventDisconnected
	EventDeviceRemoval
	EventMulticastJoin
	EventMulticastError
	EventAddrChange
	EventTimewaitExit
	EventAddrInfoResolved // these since rdma-core 60
	EventAddrInfoError
	EventUser
)

// Values of rdma_port_space.
const (
	PortSpaceIPoIB = 0x0002
	PortSpaceTCP   = 0x0106
	PortSpaceUDP   = 0x0111
	PortSpaceIB    = 0x013F
)

// Values of enum rdma_cm_mc_join_flags.
const (
	JoinFullMember uint32 = iota
	JoinSendOnlyFullMember
)

// Bits of rdma_addrinfo's ai_flags.
const (
	AIPassive     = 1
	AINumericHost = 2
	AINoRoute     = 4
	AIFamily      = 8
	AIService     = 16 // with ResolveAddrInfo only
)

// AddrInfo is struct rdma_addrinfo by value. Addresses of other families than
// IPv4 and IPv6 (AF_IB) are left zero.
type AddrInfo struct {
	Flags, Family, QPType, PortSpace int
	Src, Dst                         netip.AddrPort
	SrcName, DstName                 string
	Route, Connect                   []byte
}

// Levels and names of rdma_set_option.
const (
	OptionLevelID       = 0
	OptionTOS           = 0
	OptionReuseAddr     = 1
	OptionAFOnly        = 2
	OptionACKTimeout    = 3
	optionWireByteCount = 4
)

// IntOption and ByteOption encode an option's value as C has it.
func IntOption(v int) []byte {
	return binary.NativeEndian.AppendUint32(make([]byte, 0, optionWireByteCount), uint32(v))
}

// ByteOption encodes an eight-bit option (type of service, ACK timeout).
func ByteOption(v uint8) []byte { return []byte{v} }
