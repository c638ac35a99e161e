package ibv

import (
	"errors"
	"strings"
)

// Access says what a memory region, a window, or a queue pair for its peer, may
// be used for. Reading by the local device is always allowed.
type Access uint32

// Access rights. RemoteWrite and RemoteAtomic imply LocalWrite, which the verbs
// demand beside them, and HugeTLB implies OnDemand: whoever takes an Access adds
// what is implied.
const (
	LocalWrite   Access = 1 << 0 // receives and results of READs and atomics
	RemoteWrite  Access = 1 << 1 // RDMA WRITE by the peer
	RemoteRead   Access = 1 << 2 // RDMA READ by the peer
	RemoteAtomic Access = 1 << 3 // atomics by the peer
	MWBind       Access = 1 << 4 // memory windows may be bound to the region
	ZeroBased    Access = 1 << 5 // addresses count from 0, for a window and for device memory
	OnDemand     Access = 1 << 6 // pages are not pinned: the device asks for those it needs
	HugeTLB      Access = 1 << 7 // with OnDemand, all pages are huge ones

	// FlushGlobal and FlushPersistent let the peer make earlier writes visible,
	// or durable; known since rdma-core 46.
	FlushGlobal     Access = 1 << 8
	FlushPersistent Access = 1 << 9

	// RelaxedOrdering lets the device's writes pass each other on the bus; it is
	// ignored where device or kernel know no such thing.
	RelaxedOrdering Access = 1 << 20
)

var accessNames = []bitName[Access]{
	{LocalWrite, "LocalWrite"}, {RemoteWrite, "RemoteWrite"}, {RemoteRead, "RemoteRead"},
	{RemoteAtomic, "RemoteAtomic"}, {MWBind, "MWBind"}, {ZeroBased, "ZeroBased"}, {OnDemand, "OnDemand"},
	{HugeTLB, "HugeTLB"}, {FlushGlobal, "FlushGlobal"}, {FlushPersistent, "FlushPersistent"},
	{RelaxedOrdering, "RelaxedOrdering"},
}

// full adds what the rights imply.
func (a Access) full() Access {
	if a&(RemoteWrite|RemoteAtomic) != 0 {
		a |= LocalWrite
	}
	if a&HugeTLB != 0 {
		a |= OnDemand
	}
	return a
}

func (a Access) String() string {
	return or(strings.Join(bitNames(a, accessNames), "|"), "LocalRead")
}

// demand refuses on-demand paging where the device has none, which the kernel
// answers with a bare EINVAL. The caller is in a call of p.
func (p *PD) demand(op string, access Access, implicit bool) error {
	if access&OnDemand == 0 {
		return nil
	}
	_, x, err := p.ctx.h.QueryDeviceEx()
	if err != nil {
		return fail(op, p.node.name, err)
	}
	odp := ODPCaps{General: ODPGeneral(x.ODPGeneral)}
	if odp.General&ODPSupport == 0 {
		return &Error{Op: op, Object: p.node.name, Kind: errors.ErrUnsupported, Hint: "the device has no on-demand paging"}
	}
	if implicit && odp.General&ODPImplicit == 0 {
		return &Error{Op: op, Object: p.node.name, Kind: errors.ErrUnsupported,
			Hint: "the device pages on demand, but has no region of the whole address space"}
	}
	return nil
}
