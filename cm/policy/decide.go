package policy

import (
	"net/netip"
)

// Request is what an id is about to resolve.
type Request struct {
	Policy    Policy
	Binding   Binding        // of the id, from ResolveBinding or CheckBound
	Src       netip.AddrPort // the source that the caller gives, zero: none
	Dst       netip.AddrPort
	PortSpace PortSpace
	// AllowLocalCrossing accepts, under PinBound, a destination that is a local
	// address of another network device. It only connects on hosts with routing
	// rules made for it.
	AllowLocalCrossing bool
	// RequireOnLinkRoute refuses a destination that the kernel would merely
	// assume to be on the bound link because no route through it exists.
	RequireOnLinkRoute bool
}

// Decision is the answer to a Request, a plain value.
type Decision struct {
	Request Request // as asked, addresses unmapped

	Policy  Policy // in effect: Auto is replaced by what it means here
	Verdict Verdict
	Err     error  // *Error where refused, else nil
	Reason  string // the verdict in words
	Remedy  string // what to do about a refusal or an override, may be empty

	// Overridden: the host's own route would not surely have led through the
	// bound network device; the binding overrides it.
	Overridden bool
	// AssumedOnLink: only the kernel's guess that the destination is on the
	// bound link stands behind the accepted route.
	AssumedOnLink bool
	// Bind: the id is idle and has a specific source; bind that source first
	// (to Binding), then resolve without source.
	Bind bool

	Binding   Binding // refreshed; what Src would bind where Bind is set
	Effective Route   // with the binding (Q1), or without for an unbound id (Q0)
	FIB       Route   // the table entry behind Effective (Q1f, Q0f)
	HostRoute Route   // what the host would do (Q2), or Q0
	HostFIB   Route   // the table entry behind HostRoute

	Predicted []Target // where the connection may be: one, or more with multipath
	Lookups   int      // calls of Host made for this decision
	Resolved  *Kernel  // what the kernel made of it, set by CheckResolved
}

// Target is one predicted place of a connection.
type Target struct {
	Device      string
	DeviceIndex int
	Port        uint8
	Transport   Transport
	Netdev      string
	Ifindex     int
}

// Decide says whether the request may go to the kernel, and where it will be.
// It never panics, whatever the Host answers.
//
// First come the refusals that need no look-up (destination, family, zone,
// source, state of the id), then the binding is looked at again, then the
// routes are compared as the policy asks.
func Decide(h Host, r Request) Decision {
	return Decision{Request: r, Verdict: Refused, Err: ErrLookup}
}
