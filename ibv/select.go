package ibv

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Selector says which device is meant, by whatever is known of it: all that is
// set must fit. Names, indices and addresses are looked up at each call.
type Selector struct {
	Name   string     // the kernel's name of the device, "rxe0"
	Netdev string     // a network device that the RDMA device uses, "eth0"
	Addr   netip.Addr // an IP address that the device has; a link-local one with its zone
	GID    GID        // a GID that the device has
	PCI    string     // its PCI slot, "0000:3b:00.0" or "3b:00.0"
	GUID   uint64     // its node GUID
	Index  int        // the kernel's index of the device, counted from 1 here: Device.Index + 1
}

func (s Selector) String() string {
	var parts []string
	add := func(set bool, format string, v any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(s.Name != "", "name %s", s.Name)
	add(s.Netdev != "", "netdev %s", s.Netdev)
	add(s.Addr.IsValid(), "address %v", s.Addr)
	add(!s.GID.IsZero(), "GID %v", s.GID)
	add(s.PCI != "", "PCI slot %s", s.PCI)
	add(s.GUID != 0, "node GUID %#x", s.GUID)
	add(s.Index != 0, "index %d", s.Index-1)
	if parts == nil {
		return "any device"
	}
	return strings.Join(parts, ", ")
}

// Find returns the device that fits. The error matches ErrNoDevice where none
// does, and ErrAmbiguousDevice where several do, whose names it tells; an empty
// Selector finds the only device of a machine. What
// keeps other devices from being looked into is told too.
func (s Selector) Find() (Device, error) {
	const op = "find device"
	list, err := Devices()
	if err != nil {
		return Device{}, err
	}
	var fit []Device
	var names, shut []string
	for _, d := range list {
		names = append(names, d.Name)
		if !s.fitsDevice(d) {
			continue
		}
		ok, err := s.fitsOpen(d)
		if err != nil {
			shut = append(shut, err.Error())
		} else if ok {
			fit = append(fit, d)
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		hint := fmt.Sprintf("none of %s has %v", strings.Join(names, ", "), s)
		if len(names) == 0 {
			hint = "there is no RDMA device here"
		}
		if shut = append(shut, thisHost().unlisted(names)...); shut != nil {
			hint += "; not looked into: " + strings.Join(shut, "; ")
		}
		return Device{}, &Error{Op: op, Kind: ErrNoDevice, Hint: hint}
	}
	var several []string
	for _, d := range fit {
		several = append(several, d.Name)
	}
	return Device{}, &Error{Op: op, Kind: ErrAmbiguousDevice, Hint: fmt.Sprintf("%s have %v", strings.Join(several, ", "), s)}
}

// Open opens the device that fits; see Find and Open.
//
// Implements: struct ibv_context *ibv_open_device(struct ibv_device *device)
func (s Selector) Open() (*Context, error) {
	d, err := s.Find()
	if err != nil {
		return nil, err
	}
	return Open(d.Name)
}

// fitsDevice looks at what the list of devices tells.
func (s Selector) fitsDevice(d Device) bool {
	return (s.Name == "" || s.Name == d.Name) && (s.GUID == 0 || s.GUID == d.GUID) &&
		(s.Index == 0 || s.Index == d.Index+1) && (s.PCI == "" || samePCI(s.PCI, d.PCI()))
}

// fitsOpen looks at what only an open device tells.
func (s Selector) fitsOpen(d Device) (bool, error) {
	if s.Netdev == "" && !s.Addr.IsValid() && s.GID.IsZero() {
		return true, nil
	}
	c, err := Open(d.Name)
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }() // nothing stands on it
	table, err := c.GIDTable()
	if err != nil {
		return false, err
	}
	host, err := net.Interfaces()
	if err != nil {
		return false, err
	}
	return s.fitsTable(d.Transport, table, host), nil
}

// fitsTable decides by the device's GID table and the host's network devices.
func (s Selector) fitsTable(t Transport, table []GIDEntry, host []net.Interface) bool {
	if !s.GID.IsZero() {
		if _, ok := lookupGID(table, GIDQuery{GID: s.GID}); !ok {
			return false
		}
	}
	uses := netdevsOf(t, table, host)
	if s.Netdev != "" && !uses[s.Netdev] {
		return false
	}
	if !s.Addr.IsValid() {
		return true
	}
	if t == TransportIWARP { // its GIDs are no IP addresses
		for _, i := range host {
			if uses[i.Name] && hasAddr(i, s.Addr) {
				return true
			}
		}
		return false
	}
	for _, e := range table {
		if e.GID != GIDOf(s.Addr.WithZone("")) {
			continue
		}
		if s.Addr.Zone() == "" || e.Netdev == zoneIndex(s.Addr.Zone(), host) {
			return true
		}
	}
	return false
}

// netdevsOf names the network devices that a device uses: those of its GIDs. An
// iWARP device's GID begins with the hardware address of its network device.
func netdevsOf(t Transport, table []GIDEntry, host []net.Interface) map[string]bool {
	uses := map[string]bool{}
	for _, e := range table {
		for _, i := range host {
			mac := i.HardwareAddr
			if e.Netdev != 0 && e.Netdev == i.Index ||
				t == TransportIWARP && len(mac) == 6 && string(e.GID[:6]) == string(mac) {
				uses[i.Name] = true
			}
		}
	}
	return uses
}

func hasAddr(i net.Interface, a netip.Addr) bool {
	addrs, _ := i.Addrs()
	for _, x := range addrs {
		if n, ok := x.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a.WithZone("").Unmap() {
				return a.Zone() == "" || a.Zone() == i.Name || a.Zone() == strconv.Itoa(i.Index)
			}
		}
	}
	return false
}

func zoneIndex(zone string, host []net.Interface) int {
	for _, i := range host {
		if i.Name == zone {
			return i.Index
		}
	}
	n, _ := strconv.Atoi(zone)
	return n
}

// sysfs is where the kernel describes RDMA devices.
var sysfs = "/sys/class/infiniband"

// PCI is the device's slot, "0000:3b:00.0"; empty for one that has none, as
// software devices.
func (d Device) PCI() string {
	at, err := filepath.EvalSymlinks(filepath.Join(sysfs, d.Name, "device"))
	if err != nil {
		return ""
	}
	slot := filepath.Base(at)
	if strings.Count(slot, ":") != 2 {
		return ""
	}
	return slot
}

// NUMANode is the node of the device's bus, for the memory that it shall use; -1
// where there is none.
func (d Device) NUMANode() int {
	b, err := os.ReadFile(filepath.Join(sysfs, d.Name, "device", "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// samePCI compares slots; the domain may be missing.
func samePCI(a, b string) bool {
	full := func(s string) string {
		if strings.Count(s, ":") == 1 {
			s = "0000:" + s
		}
		return strings.ToLower(s)
	}
	return b != "" && full(a) == full(b)
}
