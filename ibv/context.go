package ibv

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// Context is an open device. Safe for concurrent use.
type Context struct {
	node     *node
	h        cgo.Context
	name     string
	borrowed bool
	destroy  func() error
	async    *asyncEvents
	ballast  *ballast

	// How these are destroyed on the fake provider; nil elsewhere.
	fakeDereg   func(cgo.MR) error
	fakeDealloc func(cgo.PD) error
	fakeRereg   func(flags uint32, r region) (lkey, rkey uint32, code int, err error)

	mu     sync.Mutex
	limits *limits
}

// limits is what object creation needs to know of a device.
type limits struct {
	dev    DeviceAttr
	tso    TSOCaps
	flags  uint64 // DeviceAttrEx.CapFlagsEx
	maxMsg uint32 // the largest of the ports'
	maxMTU uint32 // the largest active MTU of the ports, in bytes
}

func (c *Context) life() *node {
	if c == nil {
		return nil
	}
	return c.node
}

// Open opens the device called name. The error matches ErrNoDevice (and lists
// those there are), ErrDeviceNotAccessible or ErrNoRDMA. Close it when its
// children are closed.
//
// Implements: struct ibv_context *ibv_open_device(struct ibv_device *device)
func Open(name string) (*Context, error) {
	h, err := cgo.Open(name)
	if err != nil {
		return nil, openError(name, err)
	}
	return newContext(name, h, h.Close), nil
}

func newContext(name string, h cgo.Context, destroy func() error) *Context {
	n := newNode("context of "+name, nil)
	b := &ballast{}
	return watch(&Context{node: n, h: h, name: name, async: newAsyncEvents(), ballast: b, destroy: func() error {
		return errors.Join(b.drop(), destroy())
	}}, n)
}

// Borrow is for package cm: it wraps a context that librdmacm opened. Users
// cannot close it; release runs once its last child is closed and no Hold is
// left. The caller has one hold from the start.
func Borrow(h cgo.Context, release func()) *Context {
	if h.IsNil() {
		return nil
	}
	name := h.Name()
	n := newNode("context of "+name+" (connection manager's)", nil)
	async, b := newAsyncEvents(), &ballast{}
	n.release = func() error {
		async.close()
		err := b.drop()
		if release != nil {
			release()
		}
		return err
	}
	n.hold()
	return &Context{node: n, h: h, name: name, borrowed: true, async: async, ballast: b}
}

// Hold keeps a borrowed context from being released, for one more id.
func (c *Context) Hold() error {
	if err := c.life().enter("hold context"); err != nil {
		return err
	}
	c.node.hold()
	c.node.leave()
	return nil
}

// Drop gives one hold back.
func (c *Context) Drop() {
	if n := c.life(); n != nil {
		n.drop()
	}
}

// Close closes the device. It refuses with a *BusyError while the context has
// children, and with ErrBorrowed on a connection manager's context.
//
// Implements: int ibv_close_device(struct ibv_context *context)
func (c *Context) Close() error {
	if c == nil {
		return nil
	}
	if c.borrowed {
		return &Error{Op: "close device", Object: c.name, Kind: ErrBorrowed}
	}
	return c.node.close(func() error {
		c.async.close()
		if err := c.destroy(); err != nil {
			return fail("close device", c.name, err)
		}
		return nil
	})
}

// Name returns the device's name.
func (c *Context) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// Raw is for package cm: the handle below.
func (c *Context) Raw() cgo.Context {
	if c == nil {
		return cgo.Context{}
	}
	return c.h
}

// sameContext refuses objects of two contexts in one call, which a device
// answers with a bare EINVAL at best.
func sameContext(op, object string, a, b *Context) error {
	if a.h == b.h {
		return nil
	}
	hint := a.name + " and " + b.name
	if a.name == b.name {
		hint = a.name + " twice: the same device, opened twice; the connection manager has a context of its own"
	}
	return &Error{Op: op, Object: object, Kind: ErrForeignContext, Hint: hint}
}

// DeviceAttr tells the limits of a device.
type DeviceAttr struct {
	FirmwareVersion                   string
	NodeGUID, SysImageGUID            uint64
	MaxMRSize, PageSizeCap            uint64 // bytes; a bit mask of page sizes
	VendorID, VendorPartID, HWVersion uint32
	CapFlags                          uint32 // enum ibv_device_cap_flags
	AtomicCap                         AtomicCap
	MaxQP, MaxQPWR                    int // queue pairs; requests in a queue
	MaxSGE, MaxSGERead                int // entries in a request; in a READ
	MaxCQ, MaxCQE                     int // completion queues; entries in one
	MaxMR, MaxPD, MaxAH, MaxMW        int
	MaxQPReadAtomic                   int // READs and atomics a QP serves at once
	MaxQPInitReadAtomic               int // READs and atomics a QP starts at once
	MaxResReadAtomic                  int // READs and atomics the device serves at once
	MaxSRQ, MaxSRQWR, MaxSRQSGE       int
	MaxMcastGroups, MaxMcastQPAttach  int
	MaxPKeys                          uint16
	LocalCAAckDelay                   uint8
	PhysPortCount                     uint8
}

// QueryDevice asks for the device's limits.
//
// Implements: int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
func (c *Context) QueryDevice() (DeviceAttr, error) {
	const op = "query device"
	if err := c.life().enter(op); err != nil {
		return DeviceAttr{}, err
	}
	defer c.node.leave()
	a, err := c.h.QueryDevice()
	if err != nil {
		return DeviceAttr{}, fail(op, c.name, err)
	}
	return deviceAttr(a), nil
}

func deviceAttr(a cgo.DeviceAttr) DeviceAttr {
	return DeviceAttr{
		FirmwareVersion: a.FirmwareVersion, NodeGUID: a.NodeGUID, SysImageGUID: a.SysImageGUID,
		MaxMRSize: a.MaxMRSize, PageSizeCap: a.PageSizeCap,
		VendorID: a.VendorID, VendorPartID: a.VendorPartID, HWVersion: a.HWVersion,
		CapFlags: a.CapFlags, AtomicCap: AtomicCap(a.AtomicCap),
		MaxQP: a.MaxQP, MaxQPWR: a.MaxQPWR, MaxSGE: a.MaxSGE, MaxSGERead: a.MaxSGERead,
		MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD, MaxAH: a.MaxAH, MaxMW: a.MaxMW,
		MaxQPReadAtomic: a.MaxQPReadAtomic, MaxQPInitReadAtomic: a.MaxQPInitReadAtomic,
		MaxResReadAtomic: a.MaxResReadAtomic,
		MaxSRQ:           a.MaxSRQ, MaxSRQWR: a.MaxSRQWR, MaxSRQSGE: a.MaxSRQSGE,
		MaxMcastGroups: a.MaxMcastGroups, MaxMcastQPAttach: a.MaxMcastQPAttach,
		MaxPKeys: a.MaxPKeys, LocalCAAckDelay: a.LocalCAAckDelay, PhysPortCount: a.PhysPortCount,
	}
}

// PortAttr tells the state and the limits of a port.
type PortAttr struct {
	State                    PortState
	MaxMTU, ActiveMTU        MTU
	LinkLayer                LinkLayer
	GIDTableLen              int
	PKeyTableLen             int
	MaxMsgSize               uint32 // bytes
	CapFlags                 uint32 // enum ibv_port_cap_flags
	LID, SMLID               uint16 // InfiniBand only
	LMC                      uint8
	ActiveWidth, ActiveSpeed uint8 // as coded by InfiniBand; see Width and LaneMbps
	PhysicalState            uint8

	CapFlags2     uint16 // enum ibv_port_cap_flags2
	MaxVLs        uint8  // virtual lanes, as coded by InfiniBand
	SMSL          uint8  // service level to the subnet manager
	SubnetTimeout uint8
	InitTypeReply uint8
	Flags         uint8 // IBV_QPF_GRH_REQUIRED
	// Packets dropped for a wrong P_Key, for a wrong Q_Key.
	BadPKeys, QKeyViolations uint32
}

// QueryPort asks for the state and the limits of a port; ports count from 1.
//
// Implements: int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr)
func (c *Context) QueryPort(port uint8) (PortAttr, error) {
	const op = "query port"
	if err := c.life().enter(op); err != nil {
		return PortAttr{}, err
	}
	defer c.node.leave()
	a, err := c.h.QueryPort(port)
	if err != nil {
		return PortAttr{}, fail(op, c.name, err)
	}
	return PortAttr{
		State: PortState(a.State), MaxMTU: MTU(a.MaxMTU), ActiveMTU: MTU(a.ActiveMTU),
		LinkLayer: LinkLayer(a.LinkLayer), GIDTableLen: a.GIDTableLen, PKeyTableLen: int(a.PKeyTableLen),
		MaxMsgSize: a.MaxMsgSize, CapFlags: a.CapFlags, LID: a.LID, SMLID: a.SMLID, LMC: a.LMC,
		ActiveWidth: a.ActiveWidth, ActiveSpeed: a.ActiveSpeed, PhysicalState: a.PhysicalState,
		CapFlags2: a.CapFlags2, MaxVLs: a.MaxVLs, SMSL: a.SMSL, SubnetTimeout: a.SubnetTimeout,
		InitTypeReply: a.InitTypeReply, Flags: a.Flags, BadPKeys: a.BadPKeys, QKeyViolations: a.QKeyViolations,
	}, nil
}

// GIDTable reads the valid rows of the GID tables of all ports. Rows move when
// addresses come and go: look a GID up when it is needed, and keep no index.
//
// Implements: ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags)
func (c *Context) GIDTable() ([]GIDEntry, error) {
	const op = "query GID table"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	room := 64
	for {
		buf := make([]cgo.GIDEntry, room)
		n, err := c.h.QueryGIDTable(buf)
		if errors.Is(err, syscall.EINVAL) && room < 1<<16 { // no room for all
			room *= 4
			continue
		}
		if err != nil {
			return nil, fail(op, c.name, err)
		}
		out := make([]GIDEntry, n)
		for i := range out {
			out[i] = gidEntry(buf[i])
		}
		return out, nil
	}
}

// QueryGID reads one row of a port's GID table.
//
// Implements: int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
func (c *Context) QueryGID(port uint8, index int) (GIDEntry, error) {
	const op = "query GID"
	if err := c.life().enter(op); err != nil {
		return GIDEntry{}, err
	}
	defer c.node.leave()
	e, err := c.h.QueryGID(port, index)
	if err != nil {
		return GIDEntry{}, fail(op, c.name, err)
	}
	return gidEntry(e), nil
}

// FindGID looks up the row that has the IP address addr, a RoCE v2 one where
// there are several. The error matches ErrNoDevice where the device does not
// have the address.
func (c *Context) FindGID(addr netip.Addr) (GIDEntry, error) {
	table, err := c.GIDTable()
	if err != nil {
		return GIDEntry{}, err
	}
	var found *GIDEntry
	for i, e := range table {
		if e.GID == GIDOf(addr) && (found == nil || e.Type > found.Type) {
			found = &table[i]
		}
	}
	if found == nil {
		return GIDEntry{}, invalid("find GID", c.name, ErrNoDevice, "no row of its GID table has %v", addr)
	}
	return *found, nil
}

// QueryPKey reads one row of a port's P_Key table, in host order.
//
// Implements: int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
func (c *Context) QueryPKey(port uint8, index int) (uint16, error) {
	const op = "query P_Key"
	if err := c.life().enter(op); err != nil {
		return 0, err
	}
	defer c.node.leave()
	k, err := c.h.QueryPKey(port, index)
	if err != nil {
		return 0, fail(op, c.name, err)
	}
	return k, nil
}

// known returns the device's limits, asked for once. The caller is in a call.
func (c *Context) known() (*limits, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits != nil {
		return c.limits, nil
	}
	a, err := c.h.QueryDevice()
	if err != nil {
		return nil, fail("query device", c.name, err)
	}
	l := &limits{dev: deviceAttr(a)}
	if _, x, err := c.h.QueryDeviceEx(); err == nil {
		l.tso, l.flags = TSOCaps{x.TSOMax, QPTypes(x.TSOQPTypes)}, x.CapFlagsEx
	}
	for port := uint8(1); port <= a.PhysPortCount; port++ {
		p, err := c.h.QueryPort(port)
		if err != nil {
			return nil, fail("query port", c.name, err)
		}
		l.maxMsg = max(l.maxMsg, p.MaxMsgSize)
		l.maxMTU = max(l.maxMTU, uint32(MTU(p.ActiveMTU).Bytes()))
		if port == 255 {
			break
		}
	}
	c.limits = l
	return l, nil
}
