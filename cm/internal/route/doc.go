// Package route asks the kernel, over netlink, what package policy wants to know
// about routes, addresses, network devices and RDMA devices.
//
// It speaks raw rtnetlink where a question needs an answer of one message
// exactly as the kernel gives it: the kind of a route, the errno of a refusal,
// the next hops of a nexthop object.
package route

import "github.com/railbind/railbind/cm/policy"

// RDMALink is an RDMA device as RDMA netlink describes it.
type RDMALink struct {
	Index int
	Name  string
	GUID  uint64 // node GUID, the first byte on the wire is the highest
	Ports []RDMALinkPort
}

// RDMALinkPort is one port of an RDMA device.
type RDMALinkPort struct {
	Port   uint8 // from 1
	Active bool
	Netdev int // index of the port's network device, 0: none or in another namespace
}

// Neighbour is an entry of the neighbour table.
type Neighbour struct {
	State  NeighbourState
	HWAddr []byte // nil where unknown
}

// NeighbourState tells whether the kernel knows the neighbour's hardware address.
type NeighbourState uint8

const (
	// NeighbourNone is no entry, or one that was never asked about.
	NeighbourNone NeighbourState = iota
	// NeighbourIncomplete is an entry that the kernel is asking about.
	NeighbourIncomplete
	// NeighbourValid is an entry whose address is known; sending does not wait.
	NeighbourValid
	// NeighbourFailed is an entry that nobody answered for.
	NeighbourFailed
)

// String returns the state's name in lower case.
func (s NeighbourState) String() string {
	switch s {
	case NeighbourNone:
		return "none"
	case NeighbourIncomplete:
		return "incomplete"
	case NeighbourValid:
		return "valid"
	case NeighbourFailed:
		return "failed"
	}
	return "unknown"
}

// The methods of a Handle that package policy asks for; the RDMA ports come from
// verbs and are added by package cm.
var _ interface {
	Route(policy.Query) (policy.Route, error)
	Interface(int) (policy.Interface, error)
	InterfaceByName(string) (policy.Interface, error)
	Interfaces() ([]policy.Interface, error)
} = (*Handle)(nil)
