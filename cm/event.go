package cm

import (
	"strconv"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
)

// EventType is the kind of a connection manager event.
type EventType uint32

// The events of librdmacm.
const (
	EventAddrResolved    = EventType(cgo.EventAddrResolved)
	EventAddrError       = EventType(cgo.EventAddrError)
	EventRouteResolved   = EventType(cgo.EventRouteResolved)
	EventRouteError      = EventType(cgo.EventRouteError)
	EventConnectRequest  = EventType(cgo.EventConnectRequest)
	EventConnectResponse = EventType(cgo.EventConnectResponse)
	EventConnectError    = EventType(cgo.EventConnectError)
	EventUnreachable     = EventType(cgo.EventUnreachable)
	EventRejected        = EventType(cgo.EventRejected)
	EventEstablished     = EventType(cgo.EventEstablished)
	EventDisconnected    = EventType(cgo.EventDisconnected)
	EventDeviceRemoval   = EventType(cgo.EventDeviceRemoval)
	EventMulticastJoin   = EventType(cgo.EventMulticastJoin)
	EventMulticastError  = EventType(cgo.EventMulticastError)
	EventAddrChange      = EventType(cgo.EventAddrChange)
	EventTimewaitExit    = EventType(cgo.EventTimewaitExit)

	EventAddrInfoResolved = EventType(cgo.EventAddrInfoResolved)
	EventAddrInfoError    = EventType(cgo.EventAddrInfoError)
	EventUser             = EventType(cgo.EventUser)
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST",
	"CONNECT_RESPONSE", "CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED",
	"DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN", "MULTICAST_ERROR",
	"ADDR_CHANGE", "TIMEWAIT_EXIT", "ADDRINFO_RESOLVED", "ADDRINFO_ERROR", "USER",
}

// String gives the event's name in the field's spelling, without its prefix.
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "EVENT(" + strconv.FormatUint(uint64(t), 10) + ")"
}

// PortSpace is the namespace of ports an id lives in.
type PortSpace int

// The port spaces. TCP is reliable connected, and the zero value of a
// configuration means it; UDP is for datagrams and multicast groups. IB is
// reliable connected too, with service ids of its own; where the kernel wants
// CAP_NET_BIND_SERVICE or InfiniBand for it, binding says so. IPoIB is datagrams
// to the groups and peers of IP over InfiniBand, and of no use on other links.
const (
	PortSpaceTCP   = PortSpace(cgo.PortSpaceTCP)
	PortSpaceUDP   = PortSpace(cgo.PortSpaceUDP)
	PortSpaceIB    = PortSpace(cgo.PortSpaceIB)
	PortSpaceIPoIB = PortSpace(cgo.PortSpaceIPoIB)
)

func (p PortSpace) String() string {
	switch p {
	case PortSpaceTCP, 0:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	case PortSpaceIPoIB:
		return "IPoIB"
	}
	return "PortSpace(" + strconv.Itoa(int(p)) + ")"
}

func (p PortSpace) orTCP() PortSpace {
	if p == 0 {
		return PortSpaceTCP
	}
	return p
}

// datagrams reports whether ids of the port space have UD queue pairs, and no
// connection.
func (p PortSpace) datagrams() bool { return p == PortSpaceUDP || p == PortSpaceIPoIB }

// policy is the port space as the binding rule names it.
func (p PortSpace) policy() policy.PortSpace {
	switch p {
	case PortSpaceUDP:
		return policy.PortSpaceUDP
	case PortSpaceIB:
		return policy.PortSpaceIB
	case PortSpaceIPoIB:
		return policy.PortSpaceIPoIB
	}
	return policy.PortSpaceTCP
}
