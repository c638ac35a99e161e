package ibv

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/railbind/railbind/cgo"
)

// FlowType says which frames a flow is about.
type FlowType uint32

// Kinds of flows.
const (
	FlowNormal           FlowType = 0 // those that its specs describe
	FlowAllDefault       FlowType = 1 // those that no other flow takes
	FlowMulticastDefault FlowType = 2 // multicast that no other flow takes
	FlowSniffer          FlowType = 3 // a copy of everything
)

// FlowConfig describes a flow. No software device steers: what is here was
// compiled, and never run on a device that does.
type FlowConfig struct {
	Type     FlowType
	Port     uint8  // Default 1
	Priority uint16 // the lowest wins
	Flags    uint32 // enum ibv_flow_flags
	Specs    []FlowSpec
}

// FlowSpec is a part of a flow's description, or what becomes of its frames; see
// FlowEth, FlowIPv4, FlowTCP, FlowUDP, FlowTag, FlowDrop and FlowCount.
type FlowSpec struct {
	raw      []byte
	counters *Counters
}

// Types of specs, enum ibv_flow_spec_type.
const (
	specEth   = 0x20
	specIPv4  = 0x30
	specTCP   = 0x40
	specUDP   = 0x41
	specTag   = 0x1000
	specDrop  = 0x1001
	specCount = 0x1003
)

func spec(typ uint32, size int) []byte {
	b := make([]byte, size)
	binary.NativeEndian.PutUint32(b, typ)
	binary.NativeEndian.PutUint16(b[4:], uint16(size))
	return b
}

// EthFilter is what a frame's header is compared with; of a mask, which bits count.
type EthFilter struct {
	Dst, Src  [6]byte
	EtherType uint16
	VLAN      uint16 // priority 3 bits, CFI 1, VLAN 12
}

// FlowEth describes frames by their header.
func FlowEth(val, mask EthFilter) FlowSpec {
	b := spec(specEth, 40)
	for i, f := range []EthFilter{val, mask} {
		at := b[6+16*i:]
		copy(at, f.Dst[:])
		copy(at[6:], f.Src[:])
		binary.BigEndian.PutUint16(at[12:], f.EtherType)
		binary.BigEndian.PutUint16(at[14:], f.VLAN)
	}
	return FlowSpec{raw: b}
}

// FlowIPv4 describes packets by their addresses; a zero prefix means any.
func FlowIPv4(src, dst netip.Prefix) FlowSpec {
	b := spec(specIPv4, 24)
	for i, p := range []netip.Prefix{src, dst} {
		if p.IsValid() && p.Addr().Is4() {
			a := p.Masked().Addr().As4()
			copy(b[8+4*i:], a[:])
			copy(b[16+4*i:], net.CIDRMask(p.Bits(), 32))
		}
	}
	return FlowSpec{raw: b}
}

// FlowTCP describes segments by their ports; 0 means any.
func FlowTCP(src, dst uint16) FlowSpec { return ports(specTCP, src, dst) }

// FlowUDP describes datagrams by their ports; 0 means any.
func FlowUDP(src, dst uint16) FlowSpec { return ports(specUDP, src, dst) }

func ports(typ uint32, src, dst uint16) FlowSpec {
	b := spec(typ, 16)
	for i, p := range []uint16{dst, src} {
		if p != 0 {
			binary.BigEndian.PutUint16(b[6+2*i:], p)
			binary.BigEndian.PutUint16(b[10+2*i:], 0xffff)
		}
	}
	return FlowSpec{raw: b}
}

// FlowTag lets completions of the flow's frames carry tag; see WithFlowTag.
func FlowTag(tag uint32) FlowSpec {
	b := spec(specTag, 12)
	binary.NativeEndian.PutUint32(b[8:], tag)
	return FlowSpec{raw: b}
}

// FlowDrop drops the flow's frames.
func FlowDrop() FlowSpec { return FlowSpec{raw: spec(specDrop, 8)} }

// FlowCount lets c count the flow's frames.
func FlowCount(c *Counters) FlowSpec {
	b := spec(specCount, 16)
	if c != nil {
		binary.NativeEndian.PutUint64(b[8:], uint64(c.h.Addr()))
	}
	return FlowSpec{b, c}
}

// Flow is a rule that steers frames to a queue pair. Safe for concurrent use.
type Flow struct {
	node *node
	h    cgo.Flow
}

func (f *Flow) life() *node {
	if f == nil {
		return nil
	}
	return f.node
}

// CreateFlow steers frames to the queue pair, a raw packet or UD one.
//
// Implements: struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow)
func (q *QP) CreateFlow(cfg FlowConfig) (*Flow, error) {
	const op = "create flow"
	if err := q.life().enter(op); err != nil {
		return nil, err
	}
	defer q.node.leave()
	if q.typ != RawPacket && q.typ != UD {
		return nil, invalid(op, q.node.name, ErrInvalid, "flows are for raw packet and UD queue pairs, not for %v", q.typ)
	}
	if len(cfg.Specs) > 255 {
		return nil, invalid(op, q.node.name, ErrInvalid, "%d specs", len(cfg.Specs))
	}
	parents := []*node{q.node}
	var specs []byte
	for i, s := range cfg.Specs {
		if len(s.raw) == 0 {
			return nil, invalid(op, q.node.name, ErrInvalid, "spec %d is empty", i)
		}
		if binary.NativeEndian.Uint32(s.raw) == specCount {
			if err := s.counters.life().enter(op); err != nil {
				return nil, err
			}
			defer s.counters.node.leave()
			parents = append(parents, s.counters.node)
		}
		specs = append(specs, s.raw...)
	}
	a := cgo.FlowAttr{Type: uint32(cfg.Type), Priority: cfg.Priority, Specs: uint8(len(cfg.Specs)), Port: or(cfg.Port, 1), Flags: cfg.Flags}
	h, err := q.h.CreateFlow(&a, specs)
	if err != nil {
		return nil, fail(op, q.node.name, err)
	}
	n := newNode("flow to "+q.node.name, nil, parents...)
	return watch(&Flow{n, h}, n), nil
}

// Close ends the flow.
//
// Implements: int ibv_destroy_flow(struct ibv_flow *flow_id)
func (f *Flow) Close() error {
	return f.life().close(func() error {
		if err := f.h.Destroy(); err != nil {
			return fail("destroy flow", f.node.name, err)
		}
		return nil
	})
}

// Counters count the frames of flows. Safe for concurrent use.
type Counters struct {
	node *node
	h    cgo.Counters
}

func (c *Counters) life() *node {
	if c == nil {
		return nil
	}
	return c.node
}

// CounterKind is what a counter counts.
type CounterKind uint32

// Kinds of counters.
const (
	CountPackets CounterKind = 0
	CountBytes   CounterKind = 1
)

func (k CounterKind) String() string {
	return name("CounterKind", map[CounterKind]string{CountPackets: "packets", CountBytes: "bytes"}, k)
}

// CreateCounters makes a set of counters for flows. No software device has them:
// errors.ErrUnsupported.
//
// Implements: struct ibv_counters *ibv_create_counters(struct ibv_context *context, struct ibv_counters_init_attr *init_attr)
func (c *Context) CreateCounters() (*Counters, error) {
	const op = "create counters"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	h, err := c.h.CreateCounters()
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	n := newNode("counters on "+c.name, nil, c.node)
	return watch(&Counters{n, h}, n), nil
}

// Attach lets place index of the set count k, of the flow that names the set in
// FlowCount and is made next.
//
// Implements: int ibv_attach_counters_point_flow(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
func (c *Counters) Attach(k CounterKind, index int) error {
	const op = "attach counter"
	if err := c.life().enter(op); err != nil {
		return err
	}
	defer c.node.leave()
	if index < 0 || index > 1<<20 {
		return invalid(op, c.node.name, ErrInvalid, "index %d", index)
	}
	if err := c.h.Attach(uint32(k), uint32(index), cgo.Flow{}); err != nil {
		return &Error{Op: op, Object: c.node.name, Err: err, Hint: fmt.Sprintf("%v at %d", k, index)}
	}
	return nil
}

// Read reads as many counters as values has room for; cached ones will do where
// that is faster.
//
// Implements: int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value, uint32_t ncounters, uint32_t flags)
func (c *Counters) Read(values []uint64, cached bool) error {
	const op = "read counters"
	if err := c.life().enter(op); err != nil {
		return err
	}
	defer c.node.leave()
	flags := uint32(0)
	if cached {
		flags = 1
	}
	if err := c.h.Read(values, flags); err != nil {
		return fail(op, c.node.name, err)
	}
	return nil
}

// Close destroys the set; a *BusyError names the flows that are left on it.
//
// Implements: int ibv_destroy_counters(struct ibv_counters *counters)
func (c *Counters) Close() error {
	return c.life().close(func() error {
		if err := c.h.Destroy(); err != nil {
			return fail("destroy counters", c.node.name, err)
		}
		return nil
	})
}
