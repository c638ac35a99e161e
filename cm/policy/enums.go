package policy

import (
	"fmt"
	"strconv"
)

// Policy says what the routing table may do to a connection.
type Policy uint8

const (
	// Auto is PinBound where the id is bound to a device or a source is given,
	// and FollowRoute on an idle or wildcard-bound id. It is the zero value.
	Auto Policy = iota
	// PinBound keeps the bound device, also where the host would route through
	// another one, and refuses where the kernel would not keep it.
	PinBound
	// RequireRoute is PinBound and, besides, the host's own route for the
	// destination must lead through the bound network device.
	RequireRoute
	// FollowRoute lets the route decide the device, as for an IP socket; the id
	// must not be bound to a device.
	FollowRoute
)

var policyNames = []string{"auto", "pin", "route", "follow"}

// String returns the name that ParsePolicy reads: auto, pin, route or follow.
func (p Policy) String() string { return name(policyNames, uint8(p)) }

// MarshalText implements encoding.TextMarshaler with String.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParsePolicy.
func (p *Policy) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePolicy(string(text))
	return err
}

// ParsePolicy reads auto, pin, route or follow. The empty string is Auto.
func ParsePolicy(s string) (Policy, error) {
	if s == "" {
		return Auto, nil
	}
	for i, n := range policyNames {
		if s == n {
			return Policy(i), nil
		}
	}
	return Auto, fmt.Errorf("policy %q is unknown; use auto, pin, route or follow", s)
}

// Transport is the wire protocol of an RDMA port. What proves a binding differs
// by transport.
type Transport uint8

// The transports.
const (
	TransportUnknown Transport = iota
	RoCE
	IWARP
	InfiniBand
)

// String returns the transport's usual name.
func (t Transport) String() string {
	return name([]string{"unknown", "RoCE", "iWARP", "InfiniBand"}, uint8(t))
}

// MarshalText implements encoding.TextMarshaler with String.
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// BindState says to what an id is bound.
type BindState uint8

const (
	// Unbound is an id with no address and no device.
	Unbound BindState = iota
	// BoundWildcard is an id that has taken a port and chosen no device.
	BoundWildcard
	// BoundDevice is an id bound to one address of one network device of one RDMA port.
	BoundDevice
	// BoundUnknown is an id on which a step failed: the kernel may have kept a
	// part of a binding that nobody can ask for. Only closing it is safe.
	BoundUnknown
)

// String returns unbound, wildcard, device or unknown.
func (s BindState) String() string {
	return name([]string{"unbound", "wildcard", "device", "unknown"}, uint8(s))
}

// MarshalText implements encoding.TextMarshaler with String.
func (s BindState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// PortSpace is the CM port space of the id. The zero value is TCP.
type PortSpace uint8

// The port spaces.
const (
	PortSpaceTCP PortSpace = iota
	PortSpaceUDP
	PortSpaceIPoIB
	PortSpaceIB
)

// String returns the name of the port space in lower case.
func (p PortSpace) String() string {
	return name([]string{"tcp", "udp", "ipoib", "ib"}, uint8(p))
}

// GIDType is the type of a GID table row.
type GIDType uint8

// The types of GID table rows.
const (
	GIDTypeUnknown GIDType = iota
	GIDTypeIB
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

// String returns the type's usual name.
func (t GIDType) String() string {
	return name([]string{"unknown", "IB", "RoCE v1", "RoCE v2"}, uint8(t))
}

// MarshalText implements encoding.TextMarshaler with String.
func (t GIDType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// RouteKind is the kind of answer to a route look-up.
type RouteKind uint8

// The kinds of answers.
const (
	// RouteNotAsked is the zero value: the look-up was not made.
	RouteNotAsked RouteKind = iota
	RouteUnicast
	// RouteLocal says that the destination is an address of this host.
	RouteLocal
	RouteMulticast
	RouteBroadcast
	RouteAnycast
	// RouteNone says that no route matches.
	RouteNone
	RouteUnreachable
	RouteBlackhole
	RouteProhibit
	// RouteOther is a kind that this package does not know.
	RouteOther
)

// String returns the name that iproute2 uses for the kind.
func (k RouteKind) String() string {
	return name([]string{"not asked", "unicast", "local", "multicast", "broadcast", "anycast",
		"no route", "unreachable", "blackhole", "prohibit", "other"}, uint8(k))
}

// MarshalText implements encoding.TextMarshaler with String.
func (k RouteKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Verdict is the outcome of a decision.
type Verdict uint8

// The verdicts.
const (
	// Undecided is the zero value: Decide has not been called.
	Undecided Verdict = iota
	Accepted
	Refused
)

// String returns undecided, accepted or refused.
func (v Verdict) String() string {
	return name([]string{"undecided", "accepted", "refused"}, uint8(v))
}

// MarshalText implements encoding.TextMarshaler with String.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// name returns names[v], or the number where there is no name for it.
func name(names []string, v uint8) string {
	if int(v) < len(names) {
		return names[v]
	}
	return strconv.Itoa(int(v))
}
