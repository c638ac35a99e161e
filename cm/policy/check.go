package policy

import (
	"net/netip"
)

// Kernel is what the kernel's id says about itself.
type Kernel struct {
	Device      string // "" where id->verbs is nil
	DeviceIndex int
	Port        uint8
	Transport   Transport
	Local       netip.AddrPort
	Peer        netip.AddrPort
	SGID        GID // of the address or the path record
	DGID        GID
	PathMTU     int // bytes, 0 before ROUTE_RESOLVED
}

// CheckBound proves, after a successful bind of want, what the id is bound to.
// On an error the id must not be used.
//
// Errors: ErrDeviceSplit (another address, port or device), ErrAmbiguousDevice,
// ErrNotRDMA, ErrBindingLost, ErrLookup.
func CheckBound(h Host, want netip.AddrPort, got Kernel) (Binding, error) {
	return Binding{}, ErrLookup
}

// CheckResolved compares the id after ADDR_RESOLVED with the decision, and
// repeats the route look-ups, since a route can change in between. The decision
// it returns has Resolved set and, for FollowRoute, the binding that the kernel
// chose; on an error it is refused.
func CheckResolved(h Host, d Decision, got Kernel) (Decision, error) {
	return d, ErrLookup
}

// CheckRouted compares the path record after ROUTE_RESOLVED with the decision
// that CheckResolved returned: GIDs, and for RoCE the path MTU, which shows the
// network device that the kernel really used.
func CheckRouted(h Host, d Decision, got Kernel) error { return ErrLookup }

// CheckEstablished compares the connected QP with the decision: got.Port is the
// QP's port, row the GID table row of its sgid_index (RoCE; ignored otherwise).
func CheckEstablished(h Host, d Decision, got Kernel, row GIDRow) error { return ErrLookup }

// CheckRequest says where a CONNECT_REQUEST landed, and compares it with the
// listener's binding.
func CheckRequest(h Host, listener Binding, got Kernel) (Binding, error) {
	return Binding{}, ErrLookup
}
