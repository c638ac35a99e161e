package policy

import (
	"net/netip"
	"syscall"
)

// Host is everything the policy asks the machine, in one network namespace.
//
// An error means that the machine could not be asked. A negative answer to a
// question is not an error: a Route of a negative kind, no owners.
type Host interface {
	// Route replays the kernel's output route look-up (RTM_GETROUTE, RTA_UID 0).
	Route(Query) (Route, error)
	// Owners returns the network devices that have the address, tentative and
	// failed IPv6 addresses left out. The zone of addr, if any, is ignored.
	Owners(addr netip.Addr) ([]Interface, error)
	// Interface returns the network device with that index, or an error that
	// matches ENODEV.
	Interface(index int) (Interface, error)
	// InterfaceByName returns the network device of that name, or an error that
	// matches ENODEV.
	InterfaceByName(name string) (Interface, error)
	// Interfaces returns all network devices.
	Interfaces() ([]Interface, error)
	// Addrs returns the addresses of a network device with their prefix
	// lengths, without zones, tentative and failed IPv6 addresses left out.
	Addrs(index int) ([]netip.Prefix, error)
	// RDMAPorts returns the ports of all RDMA devices that this process can
	// open, in a stable order.
	RDMAPorts() ([]RDMAPort, error)
}

// exclusiveHost is a Host that can tell, where there are no RDMA devices, whether
// each is seen in its own network namespace only (rdma system show).
type exclusiveHost interface{ ExclusiveRDMA() bool }

// inaccessibleHost is a Host that can tell of RDMA devices that this process cannot
// open, and that are none of its RDMAPorts. It is asked where no other is to be had.
type inaccessibleHost interface{ InaccessiblePorts() []InaccessiblePort }

// Query is one route look-up.
type Query struct {
	Dst netip.Addr // without zone
	Src netip.Addr // the zero Addr: the kernel chooses
	Oif int        // output network device, 0: none given
	// FIBMatch asks for the table entry that matched instead of the resolved
	// route: all next hops of a multipath route, and for IPv4 no on-link guess
	// in place of a missing route.
	FIBMatch bool
}

// Route is the answer to a Query.
type Route struct {
	Query   Query
	Kind    RouteKind
	Ifindex int    // output network device; for RouteLocal often that of lo
	Netdev  string // its name
	Gateway netip.Addr
	PrefSrc netip.Addr // the source that the kernel would choose
	Table   int
	Hops    []Hop         // the next hops of a multipath route (FIBMatch), else nil
	Errno   syscall.Errno // what the kernel answered where Kind is negative, else 0
}

// Hop is one next hop of a multipath route.
type Hop struct {
	Ifindex int
	Netdev  string
	Gateway netip.Addr
	Weight  int // 1 to 256
}

// Interface is a network device.
type Interface struct {
	Index     int
	Name      string
	MTU       int // bytes
	Up        bool
	Loopback  bool
	Kind      string // of the link, as iproute2 names it: veth, vlan, bond, vrf, "" for hardware
	Master    int    // index of the VRF, bridge or bond above it, 0: none
	Table     int    // routing table where Kind is vrf
	HWAddr    []byte // 20 bytes for IPoIB: flags and QP number, then the port's GID
	Broadcast []byte // for IPoIB it holds the partition key
}

// RDMAPort is one port of an RDMA device.
type RDMAPort struct {
	Device      string
	DeviceIndex int    // the kernel's index of the device, never reused while it exists
	GUID        uint64 // node GUID; 0 is a device that librdmacm cannot use
	Port        uint8  // from 1
	Transport   Transport
	Active      bool
	GIDs        []GIDRow
	Netdev      int // iWARP: index of the port's network device (RDMA netlink), 0: none
}

// InaccessiblePort is one port of an RDMA device that this process cannot open.
type InaccessiblePort struct {
	RDMAPort       // what the kernel shows of it all the same; no transport
	Err      error // why, and what to do about it; package cm gives an error of package ibv
}

// GIDRow is one row of a port's GID table.
type GIDRow struct {
	GID    GID
	Index  int
	Port   uint8
	Type   GIDType
	Netdev int // index of the row's network device, 0: none
}

// GID is a global identifier: for RoCE an IPv6 or an IPv4-mapped address.
type GID [16]byte

// GIDOf returns the RoCE GID of an address, the zero GID for the zero Addr.
func GIDOf(addr netip.Addr) GID {
	if !addr.IsValid() {
		return GID{}
	}
	return GID(addr.As16())
}

// Addr returns the address that the GID holds, IPv4-mapped ones as IPv4.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether no GID is there.
func (g GID) IsZero() bool { return g == GID{} }

// String returns the GID in IPv6 notation.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// MarshalText implements encoding.TextMarshaler with String; the zero GID is
// the empty text.
func (g GID) MarshalText() ([]byte, error) {
	if g.IsZero() {
		return nil, nil
	}
	return []byte(g.String()), nil
}
