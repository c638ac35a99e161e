//go:build linux

package oracle

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Habit is what this host does with an ordinary UDP socket, for the judge to
// compare with: where its packets to the destination leave.
type Habit struct {
	Netdevs []string      // all that were seen, lo for a local destination
	Errno   syscall.Errno // of connect, where none was seen
	OnLink  bool          // a route through the bound network device leads to the destination

	Broadcast     bool // it is a broadcast address
	BroadcastHere bool // of the bound network device
}

// String returns the habit on one line.
func (h Habit) String() string {
	if len(h.Netdevs) == 0 {
		return "an IP socket gets " + unix.ErrnoName(h.Errno)
	}
	return "an IP socket leaves through " + strings.Join(h.Netdevs, ", ")
}

// probes is how many sockets look for the next hops of multipath routes. The
// smallest share drawn is one in nine.
const probes = 64

// habit connects UDP sockets from src, which no zone has: their path MTU is
// that of the network device which the route leads through.
func (m *Machine) habit(src, dst netip.AddrPort, multipath bool) (h Habit, err error) {
	n := 1
	if multipath && m.forks(src.Addr(), dst.Addr()) {
		n = probes
		if err := hashPorts("1\n"); err != nil {
			return h, err
		}
		defer func() { err = errors.Join(err, hashPorts("0\n")) }()
	}
	for i := range n {
		mtu, err := h.socketMTU(src.Addr(), netip.AddrPortFrom(dst.Addr(), dst.Port()+uint16(i)))
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			h.Errno = errno
			continue
		}
		dev := m.byMTU(mtu)
		if dev == "" {
			return h, fmt.Errorf("no network device has MTU %d", mtu)
		}
		h.add(dev)
	}
	if len(h.Netdevs) > 0 {
		h.Errno = 0
	}
	return h, nil
}

// forks says whether the route may have several next hops; it only saves time.
func (m *Machine) forks(src, dst netip.Addr) bool {
	routes, err := m.nl.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{SrcAddr: src.AsSlice(), FIBMatch: true})
	return err != nil || len(routes) != 1 || len(routes[0].MultiPath) > 1
}

// table asks the routing instead of a socket, which cannot be bound to a
// link-local address without being bound to its link.
func (m *Machine) table(src, dst netip.Addr) (h Habit) {
	for _, fib := range []bool{true, false} {
		routes, err := m.nl.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{SrcAddr: src.AsSlice(), FIBMatch: fib})
		if err != nil || len(routes) == 0 {
			errors.As(err, &h.Errno)
			return h
		}
		switch r := routes[0]; {
		case r.Type == unix.RTN_LOCAL:
			h.Netdevs = []string{"lo"}
		case len(r.MultiPath) > 0:
			for _, hop := range r.MultiPath {
				h.add(m.byIndex(hop.LinkIndex))
			}
		default:
			h.add(m.byIndex(r.LinkIndex))
		}
	}
	return h
}

func (h *Habit) add(dev string) {
	if !slices.Contains(h.Netdevs, dev) {
		h.Netdevs = append(h.Netdevs, dev)
		slices.Sort(h.Netdevs)
	}
}

func (m *Machine) byIndex(index int) string {
	for name, link := range m.links {
		if link.Attrs().Index == index {
			return name
		}
	}
	return ""
}

func (m *Machine) byMTU(mtu int) string {
	for _, n := range Netdevs {
		if n.MTU == mtu {
			return n.Name
		}
	}
	return map[int]string{loMTU: "lo", vrfMTU: vrfName}[mtu]
}

// hashPorts makes next hops depend on the ports too, or not.
func hashPorts(on string) error {
	return errors.Join(os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_policy", []byte(on), 0),
		os.WriteFile("/proc/sys/net/ipv6/fib_multipath_hash_policy", []byte(on), 0))
}

func (h *Habit) socketMTU(src netip.Addr, dst netip.AddrPort) (int, error) {
	family, level, freebind, mtu := unix.AF_INET, unix.SOL_IP, unix.IP_FREEBIND, unix.IP_MTU
	if dst.Addr().Is6() {
		family, level, freebind, mtu = unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_FREEBIND, unix.IPV6_MTU
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	if src.IsValid() {
		// An address in a VRF is none to a socket outside of it.
		if err := unix.SetsockoptInt(fd, level, freebind, 1); err != nil {
			return 0, err
		}
		if err := unix.Bind(fd, socketAddr(netip.AddrPortFrom(src, 0))); err != nil {
			return 0, err
		}
	}
	err = unix.Connect(fd, socketAddr(dst))
	if errors.Is(err, unix.EACCES) { // a prohibit route, or a broadcast address
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
			return 0, err
		}
		err = unix.Connect(fd, socketAddr(dst))
		h.Broadcast = err == nil
	}
	if err != nil {
		return 0, err
	}
	return unix.GetsockoptInt(fd, level, mtu)
}

func socketAddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// onLink says whether the tables have a route to the destination that leads
// through the network device, and whether it is a broadcast there.
func (m *Machine) onLink(src, dst netip.Addr, dev string) (has, broadcast bool) {
	routes, err := m.nl.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{
		OifIndex: m.link(dev).Attrs().Index, SrcAddr: src.AsSlice(), FIBMatch: true,
	})
	has = err == nil && len(routes) > 0
	return has, has && routes[0].Type == unix.RTN_BROADCAST
}
