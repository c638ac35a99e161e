package policy

import (
	"net/netip"
)

// Binding says to what an id is bound. The zero value is an unbound id.
type Binding struct {
	State       BindState
	Addr        netip.AddrPort // local address with its zone, and port
	Device      string         // RDMA device, "" unless State is BoundDevice
	DeviceIndex int
	Port        uint8 // of the device, from 1
	Transport   Transport
	Netdev      string // network device that owns the address
	Ifindex     int
	MTU         int // of the network device, bytes
	GID         GID
	GIDIndex    int // at the time of the look-up: rows move, never store it
	GIDType     GIDType
}

// ResolveBinding says what binding local would bind: the network device that
// owns the address, the RDMA port behind it and its GID. A wildcard address
// gives a wildcard binding. It makes no kernel call but look-ups.
//
// Errors: ErrNotLocal, ErrNotRDMA (the text says at which step), ErrAmbiguousDevice
// (listing the candidates), ErrScope, ErrLookup.
func ResolveBinding(h Host, local netip.AddrPort) (Binding, error) {
	return Binding{}, ErrLookup
}

// PickLocal returns the address, with its zone if link-local, of a local device
// that fits the destination. The device is the name of an RDMA device or of a
// network device. An address whose subnet holds the destination, or else the
// gateway to it, fits better than others; among those the longest prefix.
//
// Errors: ErrNotRDMA, ErrNotLocal (no address of that family), ErrAmbiguousDevice
// (several fit equally; the text lists them), ErrScope, ErrLookup.
func PickLocal(h Host, device string, dst netip.Addr) (netip.Addr, error) {
	return netip.Addr{}, ErrLookup
}
