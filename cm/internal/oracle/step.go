//go:build linux

package oracle

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Step is one change that makes a host what it is. Its String is the arguments
// of the ip command that does the same; see command.
type Step interface {
	fmt.Stringer
	do(*Machine) error
	undo(*Machine) error
}

// VRF makes a VRF and puts network devices into it.
type VRF struct {
	Name   string
	Table  int
	Member string
}

// Address is an address of a network device.
type Address struct {
	Dev    string
	Prefix netip.Prefix
}

// Route is a route.
type Route struct {
	To     netip.Prefix
	Type   string // unreachable, blackhole, prohibit, throw, local; "": unicast
	Dev    string
	Via    netip.Addr
	Src    netip.Addr
	Onlink bool // the gateway is on the link, whatever the addresses say
	Metric int
	Table  int // 0: main
	Hops   []Hop

	Nexthop int // the nexthop object that it leads to, 0: none
}

// Hop is one next hop of a multipath route.
type Hop struct {
	Dev    string
	Via    netip.Addr
	Weight int
}

// Rule is a policy rule: a table, or a refusal.
type Rule struct {
	From, To  netip.Prefix // the zero Prefix: any
	V6        bool
	Oif       string
	Table     int
	Refuse    string
	NoDefault bool // suppress_prefixlength 0
	Pref      int
}

// Down takes a network device down.
type Down struct{ Dev string }

func (s VRF) String() string {
	return fmt.Sprintf("link add %s mtu 1400 type vrf table %d; ip link set %[1]s up; ip link set %[3]s master %[1]s", s.Name, s.Table, s.Member)
}

func (s VRF) do(m *Machine) error {
	if err := m.nl.LinkAdd(&netlink.Vrf{LinkAttrs: netlink.LinkAttrs{Name: s.Name, MTU: vrfMTU}, Table: uint32(s.Table)}); err != nil {
		return err
	}
	vrf, err := m.nl.LinkByName(s.Name)
	if err != nil {
		return err
	}
	if err := m.nl.LinkSetUp(vrf); err != nil {
		return err
	}
	m.links[s.Name], m.member = vrf, s.Member
	return m.nl.LinkSetMaster(m.link(s.Member), vrf)
}

func (s VRF) undo(m *Machine) error {
	vrf := m.links[s.Name]
	delete(m.links, s.Name)
	m.member = ""
	return m.nl.LinkDel(vrf)
}

func (s Address) String() string {
	text := fmt.Sprintf("addr add %s dev %s", s.Prefix, s.Dev)
	if s.Prefix.Addr().Is6() {
		text += " nodad"
	}
	return text
}

func (s Address) netlink() *netlink.Addr {
	a := &netlink.Addr{IPNet: ipNet(s.Prefix), Broadcast: net.IPv4zero}
	if s.Prefix.Addr().Is6() {
		a.Flags, a.Broadcast = unix.IFA_F_NODAD, nil
	}
	return a
}

func (s Address) do(m *Machine) error {
	if err := m.nl.AddrAdd(m.link(s.Dev), s.netlink()); err != nil || s.Prefix.Addr().Is4() {
		return err
	}
	return s.awaitLocal(m)
}

func (s Address) undo(m *Machine) error { return m.nl.AddrDel(m.link(s.Dev), s.netlink()) }

// awaitLocal waits for the route that makes an address of IPv6 local: the kernel adds
// it from a work queue, some time after the address. A prediction and the kernel
// would else be asked on either side of it.
func (s Address) awaitLocal(m *Machine) error {
	link, err := m.nl.LinkByName(s.Dev)
	if err != nil || link.Attrs().Flags&net.FlagUp == 0 {
		return err
	}
	want := &netlink.Route{Type: unix.RTN_LOCAL, LinkIndex: link.Attrs().Index,
		Dst: ipNet(netip.PrefixFrom(s.Prefix.Addr(), 128))} // in any table: a VRF has its own
	for end := time.Now().Add(10 * time.Second); ; {
		list, err := m.nl.RouteListFiltered(netlink.FAMILY_V6, want,
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE|netlink.RT_FILTER_OIF|netlink.RT_FILTER_DST)
		if err != nil || len(list) > 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%v has not become local", s)
		}
	}
}

func (s Route) String() string {
	var b strings.Builder
	b.WriteString(ip6(s.To.Addr().Is6()) + "route add ")
	if s.Type != "" {
		b.WriteString(s.Type + " ")
	}
	if s.To.Bits() == 0 {
		b.WriteString("default")
	} else {
		b.WriteString(s.To.String())
	}
	b.WriteString(Hop{Dev: s.Dev, Via: s.Via}.String())
	if s.Nexthop != 0 {
		fmt.Fprintf(&b, " nhid %d", s.Nexthop)
	}
	if s.Onlink {
		b.WriteString(" onlink")
	}
	if s.Src.IsValid() {
		fmt.Fprintf(&b, " src %s", s.Src)
	}
	if s.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", s.Metric)
	}
	if s.Table != 0 {
		fmt.Fprintf(&b, " table %d", s.Table)
	}
	for _, h := range s.Hops {
		b.WriteString(" nexthop" + h.String())
	}
	return b.String()
}

// String returns the hop as in an ip command, with a space before.
func (h Hop) String() string {
	text := ""
	if h.Via.IsValid() {
		text += " via " + h.Via.String()
	}
	if h.Dev != "" {
		text += " dev " + h.Dev
	}
	if h.Weight > 0 {
		text += fmt.Sprintf(" weight %d", h.Weight)
	}
	return text
}

// ip6 is the flag that iproute2 needs where no address tells the family.
func ip6(v6 bool) string {
	if v6 {
		return "-6 "
	}
	return ""
}

// types are the kinds of routes, and of rules, by name.
var types = map[string]int{
	"unreachable": unix.RTN_UNREACHABLE, "blackhole": unix.RTN_BLACKHOLE, "prohibit": unix.RTN_PROHIBIT,
	"throw": unix.RTN_THROW, "local": unix.RTN_LOCAL,
}

func (s Route) netlink(m *Machine) *netlink.Route {
	r := &netlink.Route{
		Dst: ipNet(s.To), Family: unix.AF_INET, Table: s.Table, Priority: s.Metric, Type: types[s.Type],
		Gw: ip(s.Via), Src: ip(s.Src), Protocol: unix.RTPROT_BOOT,
	}
	if s.To.Addr().Is6() {
		r.Family = unix.AF_INET6
	}
	if s.Dev != "" {
		r.LinkIndex = m.link(s.Dev).Attrs().Index
		if !s.Via.IsValid() {
			r.Scope = netlink.SCOPE_LINK
		}
	}
	if s.Onlink {
		r.Flags = unix.RTNH_F_ONLINK
	}
	for _, h := range s.Hops {
		r.MultiPath = append(r.MultiPath, &netlink.NexthopInfo{LinkIndex: m.link(h.Dev).Attrs().Index, Gw: ip(h.Via), Hops: max(h.Weight-1, 0)})
	}
	switch {
	case r.Family == unix.AF_INET6:
		r.Scope = netlink.SCOPE_UNIVERSE
	case s.Type == "local":
		r.Scope = netlink.SCOPE_HOST
	}
	return r
}

func (s Route) do(m *Machine) error {
	if s.Nexthop != 0 {
		return s.byNexthop(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	}
	return m.nl.RouteAdd(s.netlink(m))
}

func (s Route) undo(m *Machine) error {
	if s.Nexthop != 0 {
		return s.byNexthop(unix.RTM_DELROUTE, 0)
	}
	return m.nl.RouteDel(s.netlink(m))
}

func (s Rule) String() string {
	var b strings.Builder
	b.WriteString(ip6(s.V6) + "rule add ")
	if s.From.IsValid() {
		fmt.Fprintf(&b, "from %s ", s.From)
	}
	if s.To.IsValid() {
		fmt.Fprintf(&b, "to %s ", s.To)
	}
	if s.Oif != "" {
		fmt.Fprintf(&b, "oif %s ", s.Oif)
	}
	if s.Refuse != "" {
		b.WriteString(s.Refuse)
	} else {
		fmt.Fprintf(&b, "lookup %d", s.Table)
	}
	if s.NoDefault {
		b.WriteString(" suppress_prefixlength 0")
	}
	fmt.Fprintf(&b, " pref %d", s.Pref)
	return b.String()
}

func (s Rule) netlink() *netlink.Rule {
	r := netlink.NewRule()
	r.Priority, r.Table, r.OifName, r.Type = s.Pref, s.Table, s.Oif, uint8(types[s.Refuse])
	r.Family = unix.AF_INET
	if s.V6 {
		r.Family = unix.AF_INET6
	}
	if s.NoDefault {
		r.SuppressPrefixlen = 0
	}
	if s.From.IsValid() {
		r.Src = ipNet(s.From)
	}
	if s.To.IsValid() {
		r.Dst = ipNet(s.To)
	}
	return r
}

func (s Rule) do(m *Machine) error   { return m.nl.RuleAdd(s.netlink()) }
func (s Rule) undo(m *Machine) error { return m.nl.RuleDel(s.netlink()) }

func (s Down) String() string        { return fmt.Sprintf("link set %s down", s.Dev) }
func (s Down) do(m *Machine) error   { return m.nl.LinkSetDown(m.link(s.Dev)) }
func (s Down) undo(m *Machine) error { return m.nl.LinkSetUp(m.link(s.Dev)) }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func ip(a netip.Addr) net.IP {
	if !a.IsValid() {
		return nil
	}
	return a.AsSlice()
}
