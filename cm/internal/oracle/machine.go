//go:build linux

package oracle

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
)

// Netdev is one of the bare network devices that hosts are drawn on.
type Netdev struct {
	Name   string
	MTU    int
	Device string // RDMA device on it, or ""; on iWARP siw0 for rxe0
}

// iwarp says whether the guest's devices are siw's: no path, one GID each.
var iwarp = os.Getenv("RAILBIND_TRANSPORT") == "siw"

// Netdevs are those of the guest's topology `oracle`. Their MTUs make three
// different path MTUs, by which a path record shows its network device.
var Netdevs = []Netdev{{"a0", 4200, "rxe0"}, {"b0", 2200, "rxe1"}, {"c0", 1500, ""}}

// MTUs of others, different too, and with c0's path MTU.
const (
	loMTU  = 1300 // as the topology sets it
	vrfMTU = 1400
)

// Machine is the kernel that hosts are set up in.
type Machine struct {
	nl     *netlink.Handle
	look   *cm.Host
	links  map[string]netlink.Link
	done   []Step
	member string                  // of the VRF, or ""
	owner  map[netip.Addr][]string // of the host set up: who has an address
}

// Open finds the bare network devices.
func Open() (*Machine, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	look, err := cm.OpenHost()
	if err != nil {
		nl.Close()
		return nil, err
	}
	m := &Machine{nl: nl, look: look, links: map[string]netlink.Link{}}
	for _, name := range []string{"lo", "a0", "b0", "c0"} {
		link, err := nl.LinkByName(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("network device %s: %w", name, err), m.Close())
		}
		m.links[name] = link
	}
	return m, nil
}

// Close takes the last host down.
func (m *Machine) Close() error {
	err := m.reset()
	m.nl.Close()
	return errors.Join(err, m.look.Close())
}

func (m *Machine) link(name string) netlink.Link { return m.links[name] }

// Set makes the machine the host of these steps and returns those that the
// kernel took: it refuses a gateway that nothing leads to, a nexthop object that
// is not there, what is there already, and an address of a VRF that was left out.
func (m *Machine) Set(steps []Step) (taken []Step, err error) {
	if err := m.reset(); err != nil {
		return nil, err
	}
	for _, s := range steps {
		err := s.do(m)
		_, route := s.(Route)
		_, nexthop := s.(Nexthop)
		if err != nil && !route && !nexthop && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENODEV) {
			return nil, fmt.Errorf("%s: %w", command(s), err)
		}
		if err == nil {
			m.done = append(m.done, s)
		}
	}
	return slices.Clone(m.done), m.settle()
}

// reset takes the steps back. Some went with others: the routes of a network
// device that went down, the addresses of one that left its VRF, a nexthop object
// on a link that lost its carrier.
func (m *Machine) reset() error {
	for _, s := range slices.Backward(m.done) {
		err := s.undo(m)
		for _, gone := range []error{unix.ESRCH, unix.ENOENT, unix.EADDRNOTAVAIL, unix.ENETUNREACH} {
			if errors.Is(err, gone) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("undo %s: %w", command(s), err)
		}
	}
	m.done = nil
	return nil
}

// settle waits until the GID tables have what the addresses say, which the
// kernel does in its own time.
func (m *Machine) settle() error {
	m.owner = map[netip.Addr][]string{}
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		link := m.links[name]
		list, err := m.nl.AddrList(link, netlink.FAMILY_ALL)
		for errors.Is(err, netlink.ErrDumpInterrupted) {
			list, err = m.nl.AddrList(link, netlink.FAMILY_ALL)
		}
		if err != nil {
			return err
		}
		for _, a := range list {
			addr, _ := netip.AddrFromSlice(a.IP)
			m.owner[addr.Unmap()] = append(m.owner[addr.Unmap()], name)
		}
	}
	return eventually("the GID tables", m.unsettled)
}

// eventually polls until nothing is odd any more.
func eventually(what string, look func() (odd string, err error)) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		odd, err := look()
		if err != nil || odd == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: after 30 s: %s", what, odd)
		}
		time.Sleep(time.Millisecond) // between two polls
	}
}

// unsettled names a GID that is missing or left over, or "".
func (m *Machine) unsettled() (string, error) {
	ports, err := m.look.RDMAPorts()
	if err != nil {
		return "", err
	}
	for name, link := range m.links {
		device := m.deviceOf(name)
		if iwarp {
			break // no addresses in them
		}
		i := slices.IndexFunc(ports, func(p policy.RDMAPort) bool { return p.Device == device })
		if i < 0 {
			continue
		}
		attrs := link.Attrs()
		has := map[netip.Addr]bool{defaultGID(attrs.HardwareAddr): true}
		for _, g := range ports[i].GIDs {
			addr := g.GID.Addr()
			if g.Netdev != attrs.Index || has[addr] {
				continue
			}
			if !slices.Contains(m.owner[addr], name) {
				return fmt.Sprintf("%s still has %s", device, addr), nil
			}
			has[addr] = true
		}
		for addr, owners := range m.owner {
			if slices.Contains(owners, name) && !has[addr] {
				return fmt.Sprintf("%s has no %s", device, addr), nil
			}
		}
	}
	return "", nil
}

// deviceOf names the RDMA device behind a network device.
func (m *Machine) deviceOf(netdev string) string {
	return deviceInVRF(netdev, m.member)
}

// defaultGID is the link-local address of a MAC address, which stands in the
// GID table whether a network device has it or not.
func defaultGID(mac []byte) netip.Addr {
	if len(mac) != 6 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
}
