package cm

import (
	"errors"
	"fmt"
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
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST",
	"CONNECT_RESPONSE", "CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED",
	"DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN", "MULTICAST_ERROR",
	"ADDR_CHANGE", "TIMEWAIT_EXIT",
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

// The port spaces of this package's ids. TCP is reliable connected, and the
// zero value of a configuration means it. UDP is for datagrams: so far its ids
// can be bound and resolved, under the same rule, and not connected.
const (
	PortSpaceTCP = PortSpace(cgo.PortSpaceTCP)
	PortSpaceUDP = PortSpace(cgo.PortSpaceUDP)
)

func (p PortSpace) String() string {
	switch p {
	case PortSpaceTCP, 0:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	}
	return "PortSpace(" + strconv.Itoa(int(p)) + ")"
}

func (p PortSpace) orTCP() PortSpace {
	if p == 0 {
		return PortSpaceTCP
	}
	return p
}

// needTCP is what the steps of a connection say to an id of another port space.
func (p PortSpace) needTCP() error {
	if p.orTCP() == PortSpaceTCP {
		return nil
	}
	return fmt.Errorf("connections are made in the TCP port space, the id is of %v: %w", p, errors.ErrUnsupported)
}

// policy is the port space as the binding rule names it.
func (p PortSpace) policy() policy.PortSpace {
	if p == PortSpaceUDP {
		return policy.PortSpaceUDP
	}
	return policy.PortSpaceTCP
}
