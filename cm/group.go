package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// groups are an id's multicast groups; id.mu guards them.
type groups struct {
	last uint64
	by   map[uint64]*Group
}

// Group is a membership in a multicast group. Its methods may be called
// concurrently.
type Group struct {
	id     *ID
	token  uint64
	addr   netip.AddrPort
	peer   UDPeer
	joined chan cgo.Event
	lost   chan struct{}

	heard bool  // the first event has come; id.mu guards it, and err
	err   error // why lost

	call  sync.Mutex // one of joining and leaving at a time
	asked bool       // the kernel knows of the membership
	gone  bool
}

// JoinConfig says how a group is joined. The zero value is a member that sends
// and receives.
type JoinConfig struct {
	// SendOnly joins for sending: the id's queue pair receives nothing.
	SendOnly bool
	// Timeout bounds the wait beside the context. 0: 5 s.
	Timeout time.Duration
}

// JoinMulticast joins a group, of an IPv4 or IPv6 multicast address, with an id
// of datagrams. The id is bound to a device, or has resolved the group's address
// and is on the device where its route led; the group is joined there and nowhere
// else, and that is checked. With a QP, that receives what is sent to the group,
// its own sends too, after ibv.GRHSize bytes.
//
// Errors: ErrState, a *TimeoutError, ErrDeviceSplit, the kernel's errno; on iWARP
// ErrTransport, on RoCE v2 for an IPv6 group errors.ErrUnsupported. The id remains
// usable.
//
// Implements: int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
// and int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
func (id *ID) JoinMulticast(ctx context.Context, group netip.Addr, cfg JoinConfig) (*Group, error) {
	const op = "join multicast group"
	if err := id.begin(op, StateBoundDevice, StateAddrResolved); err != nil {
		return nil, err
	}
	defer id.step.Unlock()
	if err := id.joinable(group); err != nil {
		return nil, id.fail(op, err)
	}
	to, err := kernelAddr(id.host, netip.AddrPortFrom(group, 0))
	if err != nil {
		return nil, id.fail(op, err)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	g := &Group{id: id, addr: to, joined: make(chan cgo.Event, 1), lost: make(chan struct{})}
	if err := g.join(ctx, op, cfg); err != nil {
		return nil, id.fail(op, errors.Join(fmt.Errorf("%v: %w", group, err), g.leave()))
	}
	return g, nil
}

func (id *ID) joinable(group netip.Addr) error {
	switch b := id.Binding(); {
	case b.Transport == policy.IWARP: // which no id of datagrams comes to
		return policy.CheckPortSpace(b, policy.PortSpaceUDP)
	case !id.cfg.PortSpace.datagrams():
		return fmt.Errorf("groups are for ids of datagrams, this one is of the port space %v: %w", id.cfg.PortSpace.orTCP(), errors.ErrUnsupported)
	case !group.Unmap().IsMulticast():
		return fmt.Errorf("%w: %v is no multicast address", ibv.ErrInvalid, group)
	case group.Unmap().Is4() != b.Addr.Addr().Unmap().Is4():
		return fmt.Errorf("%w: the id is bound to %v", ErrFamilyMismatch, b.Addr.Addr())
	}
	return nil
}

func (g *Group) join(ctx context.Context, op string, cfg JoinConfig) error {
	id, began := g.id, time.Now()
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if ctx.Err() != nil {
		return id.timedOut(ctx, op, began)
	}
	if err := id.stillBound(); err != nil {
		return err
	}
	id.mu.Lock()
	if id.closing {
		id.mu.Unlock()
		return ErrClosed
	}
	for _, o := range id.groups.by {
		if o.addr == g.addr {
			id.mu.Unlock()
			return fmt.Errorf("%w: the id is a member already", ErrState)
		}
	}
	id.groups.last++
	g.token = id.groups.last
	if id.groups.by == nil {
		id.groups.by = make(map[uint64]*Group)
	}
	id.groups.by[g.token] = g
	id.mu.Unlock()
	flags := cgo.JoinFullMember
	if cfg.SendOnly {
		flags = cgo.JoinSendOnlyFullMember
	}
	if err := g.ask(flags); err != nil {
		return err
	}
	ev, err := id.wait(ctx, g.joined, op, began)
	if err == nil {
		err = eventError(&ev, cgo.EventMulticastJoin)
	}
	if err != nil {
		return err
	}
	g.peer = udPeerOf(&ev)
	return id.checkGroup(g.peer.AH, ev.Info)
}

func (g *Group) ask(flags uint32) error {
	g.call.Lock()
	defer g.call.Unlock()
	if g.gone {
		return ErrClosed
	}
	err := g.id.call(func(h cgo.ID) error { return h.JoinMulticast(cgo.ToSockAddr(g.addr), flags, g.token) })
	g.asked = err == nil
	if errors.Is(err, errNotSupp) {
		err = fmt.Errorf("the kernel has no IPv6 groups on RoCE v2, join an IPv4 one: %w (%w)", errors.ErrUnsupported, err)
	}
	return err
}

// errNotSupp is the kernel's ENOTSUPP, which was never meant to be seen.
const errNotSupp = syscall.Errno(524)

// stillBound looks the bound address up again: it may have gone.
func (id *ID) stillBound() error {
	b := id.Binding()
	now, err := policy.ResolveBinding(id.host, b.Addr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBindingLost, err)
	}
	if now.Device != b.Device || now.Ifindex != b.Ifindex {
		return fmt.Errorf("%w: %v is on %s (%s) now", ErrBindingLost, b.Addr.Addr(), now.Device, now.Netdev)
	}
	return nil
}

// checkGroup proves that the group was joined on the bound device.
func (id *ID) checkGroup(ah ibv.AHAttr, info cgo.IDInfo) error {
	b := id.Binding()
	if info.Device != b.Device || ah.Port != b.Port {
		return fmt.Errorf("%w: the group was joined on %s/%d, the id is bound to %s/%d", ErrDeviceSplit, info.Device, ah.Port, b.Device, b.Port)
	}
	if b.Transport != policy.RoCE {
		return nil
	}
	row, err := id.Context().QueryGID(ah.Port, ah.SGIDIndex)
	if err == nil && row.Netdev != b.Ifindex {
		err = fmt.Errorf("%w: the group was joined through network device %d, the id is bound to %s (%d)", ErrDeviceSplit, row.Netdev, b.Netdev, b.Ifindex)
	}
	return err
}

// deliver takes a group's event; id.mu is held.
func (gs *groups) deliver(ev *cgo.Event) {
	g := gs.by[ev.Group]
	if g == nil {
		return
	}
	if !g.heard {
		g.heard = true
		g.joined <- *ev // has room for one
		return
	}
	if g.err == nil && ev.Type == cgo.EventMulticastError {
		g.err = statusError(ev)
		close(g.lost)
	}
}

// Peer is where datagrams to the group go.
func (g *Group) Peer() UDPeer {
	if g == nil {
		return UDPeer{}
	}
	return g.peer
}

// Addr is the group's address.
func (g *Group) Addr() netip.Addr {
	if g == nil {
		return netip.Addr{}
	}
	return g.addr.Addr()
}

// Lost is closed when the membership was lost (MULTICAST_ERROR): leave, and join
// again. Err says why.
func (g *Group) Lost() <-chan struct{} {
	if g == nil || g.id == nil {
		return none.Done()
	}
	return g.lost
}

// Err is nil until Lost is closed.
func (g *Group) Err() error {
	if g == nil || g.id == nil {
		return ErrClosed
	}
	g.id.mu.Lock()
	defer g.id.mu.Unlock()
	return g.err
}

// Leave ends the membership; the id's Close does as well. Leaving twice, or a nil
// Group, is fine.
//
// Implements: int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
func (g *Group) Leave() error {
	if g == nil || g.id == nil {
		return nil
	}
	return g.id.fail("leave multicast group", g.leave())
}

func (g *Group) leave() error {
	g.call.Lock()
	defer g.call.Unlock()
	if g.gone {
		return nil
	}
	g.gone = true
	g.id.mu.Lock()
	delete(g.id.groups.by, g.token)
	g.id.mu.Unlock()
	if !g.asked {
		return nil
	}
	return g.id.call(func(h cgo.ID) error {
		// The pump may be attaching the QP to this very group.
		return g.id.unfetched(func() error { return h.LeaveMulticast(cgo.ToSockAddr(g.addr)) })
	})
}

// leaveAll leaves what is joined: a queue pair in a group cannot be destroyed.
func (id *ID) leaveAll() {
	id.mu.Lock()
	var all []*Group
	for _, g := range id.groups.by {
		all = append(all, g)
	}
	id.mu.Unlock()
	for _, g := range all {
		_ = g.leave()
	}
}
