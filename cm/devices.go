package cm

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/internal/route"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// devices holds the contexts that librdmacm opened. librdmacm closes one when
// its device is gone and no id uses it, also under memory that was registered
// there; so each is pinned (rdma_get_devices) until its last user lets go.
var devices struct {
	mu      sync.Mutex
	byRaw   map[cgo.Context]*device
	tried   map[int]bool // kernel indices that a refresh did not bring
	current *pin
}

// device is one borrowed context, with what never changes about it.
type device struct {
	ctx   *ibv.Context
	index int
	pin   *pin // guarded by pinMu
}

// pin is one rdma_get_devices list; it is freed when no device needs it.
type pin struct {
	list  cgo.DeviceList
	users int
}

var pinMu sync.Mutex

// repin moves d from the pin that holds it to p (nil: to none).
func (d *device) repin(p *pin) {
	pinMu.Lock()
	old := d.pin
	d.pin = p
	if p != nil {
		p.users++
	}
	free := false
	if old != nil {
		old.users--
		free = old.users == 0
	}
	pinMu.Unlock()
	if free {
		old.list.Free()
	}
}

// borrow returns the Go context of an id's verbs, pinned.
func borrow(raw cgo.Context) (*ibv.Context, error) {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	if d := devices.byRaw[raw]; d != nil {
		return d.ctx, d.ctx.Hold()
	}
	if err := refreshLocked(); err != nil {
		return nil, err
	}
	if d := devices.byRaw[raw]; d != nil {
		return d.ctx, d.ctx.Hold()
	}
	return nil, fmt.Errorf("cm: %w: the id's device is not among those that librdmacm lists", ibv.ErrDeviceRemoved)
}

// refreshLocked asks librdmacm again for its devices: new ones are added, ones
// that are gone are let go.
//
// What librdmacm cannot open it forgets, so that without room for the files of all
// of them it is not asked.
func refreshLocked() error {
	present, err := cgo.Devices()
	if err == nil {
		err = cgo.NoFiles(len(present) - len(devices.byRaw))
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("open the RDMA devices: %w", err)
	}
	list, raws, err := cgo.CMDevices()
	if err != nil {
		if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENOSYS) {
			return fmt.Errorf("%w: %w", ibv.ErrNoRDMA, err)
		}
		return err
	}
	p := &pin{list: list, users: 1} // held below until all are moved
	old := devices.byRaw
	devices.byRaw = make(map[cgo.Context]*device, len(raws))
	for _, raw := range raws {
		d := old[raw]
		if d == nil {
			d = &device{}
			d.ctx = ibv.Borrow(raw, func() { d.repin(nil) })
			d.index = d.ctx.Index()
		}
		d.repin(p)
		devices.byRaw[raw] = d
		delete(old, raw)
	}
	for _, gone := range old {
		gone.ctx.Drop() // the registry's own hold; children may keep it alive
	}
	pinMu.Lock()
	p.users--
	unused := p.users == 0
	pinMu.Unlock()
	if unused {
		list.Free()
	}
	return nil
}

// forgetRemoved lets go of devices that are gone and that no id uses: the kernel
// waits for that before it ends the removal.
func forgetRemoved() {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	_ = refreshLocked() // the next look-up tries again
}

// deviceGone says whether the device that the id is on has left the kernel's list.
// The event that tells of it may come later than the failure that it causes.
func (id *ID) deviceGone() bool {
	ctx := id.Context()
	if ctx == nil {
		return false
	}
	links, err := id.host.RDMALinks()
	return err == nil && !slices.ContainsFunc(links, func(l route.RDMALink) bool { return l.Index == ctx.Index() })
}

// knownDevices returns the borrowed contexts of the RDMA links that h sees; it
// asks librdmacm again where a link is new or gone.
func knownDevices(h *host, links []route.RDMALink) ([]*device, error) {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	before := h.listed
	h.listed = make(map[int]bool, len(links))
	for _, l := range links {
		h.listed[l.Index] = true
		delete(before, l.Index)
	}
	if len(before) > 0 {
		if err := refreshLocked(); err != nil {
			return nil, err
		}
	}
	byIndex := func() map[int]*device {
		m := make(map[int]*device, len(devices.byRaw))
		for _, d := range devices.byRaw {
			m[d.index] = d
		}
		return m
	}
	have := byIndex()
	for _, l := range links {
		if have[l.Index] != nil || devices.tried[l.Index] {
			continue
		}
		// (Without one device that opens, librdmacm gives an error and no empty list.)
		if err := refreshLocked(); err != nil && (!cgo.Available || !errors.Is(err, ibv.ErrNoRDMA) || noneOpens() == nil) {
			return nil, err
		}
		have = byIndex()
		devices.tried = make(map[int]bool)
		for _, l := range links {
			devices.tried[l.Index] = have[l.Index] == nil
		}
		break
	}
	var out []*device
	for _, l := range links {
		if d := have[l.Index]; d != nil && d.ctx.Hold() == nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// rdmaPorts lists the ports of the RDMA devices of h's namespace that this
// process can open. A device that goes away meanwhile is left out.
func rdmaPorts(h *host) ([]policy.RDMAPort, error) {
	links, err := h.RDMALinks()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("%w: %w", ibv.ErrNoRDMA, err)
	}
	if err != nil {
		return nil, err
	}
	if len(links) == 0 {
		// Opening the netlink socket loads ib_core: no links may mean no RDMA.
		_, err := ibv.Devices()
		return nil, err
	}
	devs, err := knownDevices(h, links)
	if err != nil {
		return nil, err
	}
	byIndex := make(map[int]route.RDMALink, len(links))
	for _, l := range links {
		byIndex[l.Index] = l
	}
	var out []policy.RDMAPort
	for _, d := range devs {
		ports, err := portsOf(d, byIndex[d.index])
		d.ctx.Drop()
		if err != nil && !gone(err) {
			return nil, err
		}
		out = append(out, ports...)
	}
	return out, nil
}

func gone(err error) bool {
	return errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EIO)
}

func portsOf(d *device, link route.RDMALink) ([]policy.RDMAPort, error) {
	attr, err := d.ctx.QueryDevice()
	if err != nil {
		return nil, err
	}
	rows, err := d.ctx.GIDTable()
	if err != nil {
		return nil, err
	}
	out := make([]policy.RDMAPort, 0, attr.PhysPortCount)
	for n := 1; n <= int(attr.PhysPortCount); n++ {
		port, err := d.ctx.QueryPort(uint8(n))
		if err != nil {
			return nil, err
		}
		p := policy.RDMAPort{
			Device:      d.ctx.Name(),
			DeviceIndex: d.index,
			GUID:        attr.NodeGUID,
			Port:        uint8(n),
			Transport:   transportOf(d.ctx.Transport(), port.LinkLayer),
			Active:      port.State == ibv.PortActive,
		}
		for _, l := range link.Ports {
			if l.Port == uint8(n) {
				p.Netdev = l.Netdev
			}
		}
		for _, r := range rows {
			if r.Port == uint8(n) {
				p.GIDs = append(p.GIDs, gidRow(r))
			}
		}
		out = append(out, p)
	}
	return out, nil
}

func transportOf(t ibv.Transport, layer ibv.LinkLayer) policy.Transport {
	switch {
	case t == ibv.TransportIWARP:
		return policy.IWARP
	case t == ibv.TransportIB && layer == ibv.LinkEthernet:
		return policy.RoCE
	case t == ibv.TransportIB:
		return policy.InfiniBand
	}
	return policy.TransportUnknown
}

func gidRow(r ibv.GIDEntry) policy.GIDRow {
	row := policy.GIDRow{GID: policy.GID(r.GID), Index: r.Index, Port: r.Port, Netdev: r.Netdev}
	switch r.Type {
	case ibv.GIDTypeIB:
		row.Type = policy.GIDTypeIB
	case ibv.GIDTypeRoCEv1:
		row.Type = policy.GIDTypeRoCEv1
	case ibv.GIDTypeRoCEv2:
		row.Type = policy.GIDTypeRoCEv2
	}
	return row
}

// channels holds one completion channel per device for the connections that
// bring no queues of their own: thousands of them are one descriptor and one
// goroutine.
var channels struct {
	mu sync.Mutex
	by map[*ibv.Context]*channelUse
}

type channelUse struct {
	ch    *ibv.CompChannel
	users int
}

// sharedChannel gives ctx's shared completion channel; done gives it back.
func sharedChannel(ctx *ibv.Context) (ch *ibv.CompChannel, done func(), err error) {
	channels.mu.Lock()
	defer channels.mu.Unlock()
	u := channels.by[ctx]
	if u == nil {
		ch, err := ctx.NewCompChannel()
		if err != nil {
			return nil, nil, err
		}
		u = &channelUse{ch: ch}
		if channels.by == nil {
			channels.by = make(map[*ibv.Context]*channelUse)
		}
		channels.by[ctx] = u
	}
	u.users++
	return u.ch, func() {
		channels.mu.Lock()
		defer channels.mu.Unlock()
		u.users--
		if u.users == 0 {
			delete(channels.by, ctx)
			_ = u.ch.Close() // it has no children left to refuse for
		}
	}, nil
}
