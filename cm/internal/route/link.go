//go:build linux

package route

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/policy"
)

// Interface returns the network device with that index, or an error that
// matches ENODEV.
func (h *Handle) Interface(index int) (policy.Interface, error) {
	if !isIndex(index) {
		return policy.Interface{}, fmt.Errorf("network device %d: %w", index, unix.ENODEV)
	}
	return remember(h, linkOf(index), func() (policy.Interface, error) { return h.link(index) }, nil)
}

// InterfaceByName returns the network device of that name or alternative name,
// or an error that matches ENODEV.
func (h *Handle) InterfaceByName(name string) (policy.Interface, error) {
	if !isName(name) {
		return policy.Interface{}, fmt.Errorf("network device %q: %w", name, unix.ENODEV)
	}
	kind := uint16(unix.IFLA_IFNAME)
	if len(name) >= unix.IFNAMSIZ {
		kind = unix.IFLA_ALT_IFNAME
	}
	i, err := h.link(0, attr{kind, append([]byte(name), 0)})
	if errnoOf(err) == unix.ENODEV && kind == unix.IFLA_IFNAME {
		// Short alternative names are looked up only under their own attribute.
		if alt, e := h.link(0, attr{unix.IFLA_ALT_IFNAME, append([]byte(name), 0)}); e == nil {
			return alt, nil
		}
	}
	if err != nil {
		return i, fmt.Errorf("network device %q: %w", name, err)
	}
	return i, nil
}

// isIndex says whether a number can be a network device's: the kernel's have 31
// bits, and of a larger one it would see a part.
func isIndex(n int) bool { return n > 0 && n <= math.MaxInt32 }

// isName says the same of a text, which ends for the kernel at its first zero.
func isName(s string) bool { return s != "" && len(s) < altNameSize && strings.IndexByte(s, 0) < 0 }

// altNameSize is ALTIFNAMSIZ.
const altNameSize = 128

// Interfaces returns all network devices.
func (h *Handle) Interfaces() ([]policy.Interface, error) {
	msgs, err := h.request(unix.NETLINK_ROUTE, unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.RTM_NEWLINK, ifinfo(0))
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	var out []policy.Interface
	for _, m := range msgs {
		if i, ok := parseLink(m); ok {
			out = append(out, i)
		}
	}
	return out, nil
}

func (h *Handle) link(index int, attrs ...attr) (policy.Interface, error) {
	msgs, err := h.request(unix.NETLINK_ROUTE, unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, ifinfo(index), attrs...)
	if err != nil {
		return policy.Interface{}, fmt.Errorf("look up network device %d: %w", index, err)
	}
	for _, m := range msgs {
		if i, ok := parseLink(m); ok {
			return i, nil
		}
	}
	return policy.Interface{}, fmt.Errorf("network device %d: %w", index, unix.ENODEV)
}

// ifinfo is a struct ifinfomsg.
func ifinfo(index int) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	return b
}

func parseLink(m []byte) (policy.Interface, bool) {
	if len(m) < unix.SizeofIfInfomsg {
		return policy.Interface{}, false
	}
	flags := binary.NativeEndian.Uint32(m[8:])
	a := parse(m, unix.SizeofIfInfomsg)
	i := policy.Interface{
		Index:     int(binary.NativeEndian.Uint32(m[4:])),
		Name:      text(a[unix.IFLA_IFNAME]),
		MTU:       int(u32(a[unix.IFLA_MTU])),
		Up:        flags&unix.IFF_UP != 0,
		Loopback:  flags&unix.IFF_LOOPBACK != 0,
		Master:    int(u32(a[unix.IFLA_MASTER])),
		HWAddr:    a[unix.IFLA_ADDRESS],
		Broadcast: a[unix.IFLA_BROADCAST],
	}
	info := parse(a[unix.IFLA_LINKINFO], 0)
	i.Kind = text(info[unix.IFLA_INFO_KIND])
	if i.Kind == "vrf" {
		i.Table = int(u32(parse(info[unix.IFLA_INFO_DATA], 0)[iflaVRFTable]))
	}
	return i, i.Index > 0
}

// iflaVRFTable is IFLA_VRF_TABLE.
const iflaVRFTable = 1

// address is one row of the address table.
type address struct {
	index  int
	prefix netip.Prefix
}

// addresses lists the addresses that can be bound: the kernel's own check leaves
// out tentative IPv6 addresses, unless they are optimistic.
func (h *Handle) addresses(family uint8) ([]address, error) {
	return remember(h, addressesOf(family), func() ([]address, error) { return h.dumpAddresses(family) }, nil)
}

func (h *Handle) dumpAddresses(family uint8) ([]address, error) {
	header := make([]byte, unix.SizeofIfAddrmsg)
	header[0] = family
	msgs, err := h.request(unix.NETLINK_ROUTE, unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.RTM_NEWADDR, header)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []address
	for _, m := range msgs {
		if len(m) < unix.SizeofIfAddrmsg || m[0] != unix.AF_INET && m[0] != unix.AF_INET6 {
			continue
		}
		a := parse(m, unix.SizeofIfAddrmsg)
		flags := uint32(m[2])
		if f, ok := a[unix.IFA_FLAGS]; ok {
			flags = u32(f)
		}
		if flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0 || flags&unix.IFA_F_DADFAILED != 0 {
			continue
		}
		// Point-to-point links have the peer in IFA_ADDRESS.
		raw, ok := a[unix.IFA_LOCAL]
		if !ok {
			raw = a[unix.IFA_ADDRESS]
		}
		if addr, ok := netip.AddrFromSlice(raw); ok {
			index := int(binary.NativeEndian.Uint32(m[4:]))
			out = append(out, address{index, netip.PrefixFrom(addr, int(m[1]))})
		}
	}
	return out, nil
}

// Addrs returns the addresses of a network device with their prefix lengths.
func (h *Handle) Addrs(index int) ([]netip.Prefix, error) {
	all, err := h.addresses(unix.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, a := range all {
		if a.index == index {
			out = append(out, a.prefix)
		}
	}
	return out, nil
}

// Owners returns the network devices that have the address, its zone ignored.
func (h *Handle) Owners(addr netip.Addr) ([]policy.Interface, error) {
	addr = addr.Unmap().WithZone("")
	family := uint8(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	all, err := h.addresses(family)
	if err != nil {
		return nil, err
	}
	var out []policy.Interface
	seen := map[int]bool{}
	for _, a := range all {
		if a.prefix.Addr() != addr || seen[a.index] {
			continue
		}
		seen[a.index] = true
		i, err := h.Interface(a.index)
		if errnoOf(err) == unix.ENODEV {
			continue // gone in between
		}
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}
