package ibv

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// host is where Diagnose looks; tests give it another one.
type host struct {
	root string // before /sys, /proc and /dev
	// listed gives the devices that libibverbs has a provider for.
	listed func() ([]string, error)
	// open gives what only an open device tells.
	open func(device string) (opened, error)
	// netdevs gives the network devices of this namespace.
	netdevs func() []netdev
	// tables gives the VRFs, and sources those of the rules of IPv6.
	vrfs    func() []vrf
	sources func() []netip.Prefix
}

// opened is what only an open device tells.
type opened struct {
	guid      uint64
	transport Transport
	ports     []PortAttr // from port 1 on
	table     []GIDEntry
}

type netdev struct {
	net.Interface
	prefixes []netip.Prefix
}

// vrf is a VRF device; 4 and 6 tell whether its table answers every destination.
type vrf struct {
	name   string
	table  uint32
	v4, v6 bool
}

// path puts a path of the host together.
func (h *host) path(parts ...string) string {
	return filepath.Join(h.root, filepath.Join(parts...))
}

// read gives a file's text, without the end of the line; empty where there is none.
func (h *host) read(parts ...string) string {
	b, err := os.ReadFile(h.path(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (h *host) exists(parts ...string) bool {
	_, err := os.Stat(h.path(parts...))
	return err == nil
}

// names lists a folder.
func (h *host) names(parts ...string) (out []string) {
	entries, _ := os.ReadDir(h.path(parts...))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// field gives the rest of the line that starts with key.
func (h *host) field(file, key string) string {
	for line := range strings.Lines(h.read(file)) {
		if v, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// kernel tells whether the kernel is older than a version.
func (h *host) kernelBefore(major, minor int) bool {
	v := strings.SplitN(h.read("/proc/sys/kernel/osrelease"), ".", 3)
	if len(v) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(v[0])
	b, err2 := strconv.Atoi(strings.TrimRight(v[1], "-abcdefghijklmnopqrstuvwxyz+"))
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

// ownNamespace tells whether this process is in another network namespace than
// the machine's first, which alone has this setting.
func (h *host) ownNamespace() bool {
	return h.exists("/proc/sys/net/core") && !h.exists("/proc/sys/net/core/netdev_budget")
}

// contained tells whether this process is in a container: by the files that
// engines leave in one, or because it sees other processes than the machine's.
func (h *host) contained() bool {
	const first = "pid:[4026531836]" // the kernel's number for the machine's own namespace
	own, err := os.Readlink(h.path("/proc/self/ns/pid"))
	return h.exists("/.dockerenv") || h.exists("/run/.containerenv") || err == nil && own != first
}

// exclusive tells whether a device is seen in its own network namespace only.
func (h *host) exclusive() bool {
	return h.read("/sys/module/ib_core/parameters/netns_mode") == "N"
}

func hostNetdevs() (out []netdev) {
	list, _ := net.Interfaces()
	for _, i := range list {
		n := netdev{Interface: i}
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				n.prefixes = append(n.prefixes, p)
			}
		}
		out = append(out, n)
	}
	return out
}

func openDevice(name string) (in opened, err error) {
	c, err := Open(name)
	if err != nil {
		return in, err
	}
	defer func() { _ = c.Close() }() // nothing stands on it
	attr, err := c.QueryDevice()
	if err != nil {
		return in, err
	}
	in.guid, in.transport = attr.NodeGUID, c.Transport()
	for p := range attr.PhysPortCount {
		port, err := c.QueryPort(p + 1)
		if err != nil {
			return in, err
		}
		in.ports = append(in.ports, port)
	}
	in.table, err = c.GIDTable()
	return in, err
}

// thisHost is the one that this process runs on.
func thisHost() *host {
	return &host{root: "/", open: openDevice, netdevs: hostNetdevs, vrfs: hostVRFs, sources: ruleSources,
		listed: func() (names []string, err error) {
			list, err := Devices()
			for _, d := range list {
				names = append(names, d.Name)
			}
			return names, err
		}}
}
