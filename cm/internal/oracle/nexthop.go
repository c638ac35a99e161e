//go:build linux

package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Nexthop is a nexthop object: a way out, a black hole, or a group of others.
type Nexthop struct {
	ID        int
	V6        bool // of its gateway; IPv4 routes may use those too
	Hop       Hop
	Blackhole bool
	Group     []Member
	Resilient bool // the group keeps a flow on its next hop when others change
}

// Member is one of a group.
type Member struct{ ID, Weight int }

func (s Nexthop) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%snexthop add id %d", ip6(s.V6 && s.Group == nil), s.ID)
	switch {
	case s.Blackhole:
		b.WriteString(" blackhole")
	case s.Group == nil:
		b.WriteString(s.Hop.String())
	}
	for i, m := range s.Group {
		between := "/"
		if i == 0 {
			between = " group "
		}
		fmt.Fprintf(&b, "%s%d,%d", between, m.ID, m.Weight)
	}
	if s.Resilient {
		b.WriteString(" type resilient")
	}
	return b.String()
}

func (s Nexthop) do(m *Machine) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	header := make([]byte, unix.SizeofNhmsg)
	header[2] = unix.RTPROT_BOOT
	if s.Group == nil {
		header[0] = family(s.V6)
	}
	req.AddRawData(header)
	req.AddData(attr32(unix.NHA_ID, s.ID))
	switch {
	case s.Blackhole:
		req.AddData(nl.NewRtAttr(unix.NHA_BLACKHOLE, nil))
	case s.Group != nil:
		var group []byte
		for _, member := range s.Group {
			group = binary.NativeEndian.AppendUint32(group, uint32(member.ID))
			group = append(group, byte(member.Weight-1), 0, 0, 0)
		}
		req.AddData(nl.NewRtAttr(unix.NHA_GROUP, group))
		if s.Resilient {
			req.AddData(nl.NewRtAttr(unix.NHA_GROUP_TYPE, nl.Uint16Attr(groupResilient)))
		}
	default:
		req.AddData(attr32(unix.NHA_OIF, m.link(s.Hop.Dev).Attrs().Index))
		if s.Hop.Via.IsValid() {
			req.AddData(nl.NewRtAttr(unix.NHA_GATEWAY, s.Hop.Via.AsSlice()))
		}
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func (s Nexthop) undo(*Machine) error {
	req := nl.NewNetlinkRequest(unix.RTM_DELNEXTHOP, unix.NLM_F_ACK)
	req.AddRawData(make([]byte, unix.SizeofNhmsg))
	req.AddData(attr32(unix.NHA_ID, s.ID))
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

const (
	rtaNHID        = 30 // RTA_NH_ID
	groupResilient = 1  // NEXTHOP_GRP_TYPE_RES
)

// byNexthop adds or deletes the route of a nexthop object.
func (s Route) byNexthop(cmd, flags int) error {
	req := nl.NewNetlinkRequest(cmd, flags|unix.NLM_F_ACK)
	msg := nl.NewRtMsg()
	msg.Family, msg.Dst_len = family(s.To.Addr().Is6()), uint8(s.To.Bits())
	msg.Table = unix.RT_TABLE_UNSPEC // the attribute has it
	req.AddData(msg)
	if s.To.Bits() > 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_DST, s.To.Addr().AsSlice()))
	}
	table := s.Table
	if table == 0 {
		table = unix.RT_TABLE_MAIN
	}
	req.AddData(attr32(unix.RTA_TABLE, table))
	if s.Metric != 0 {
		req.AddData(attr32(unix.RTA_PRIORITY, s.Metric))
	}
	if s.Src.IsValid() {
		req.AddData(nl.NewRtAttr(unix.RTA_PREFSRC, s.Src.AsSlice()))
	}
	req.AddData(attr32(rtaNHID, s.Nexthop))
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func attr32(kind, value int) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint32Attr(uint32(value))) }

func family(v6 bool) uint8 {
	if v6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// NoCarrier takes the carrier from a network device that stays up, as when its
// cable is pulled: routes through it become linkdown, nexthop objects on it go.
type NoCarrier struct{ Dev string }

func (s NoCarrier) String() string        { return fmt.Sprintf("link set %s carrier off", s.Dev) }
func (s NoCarrier) do(m *Machine) error   { return m.carrier(s.Dev, false) }
func (s NoCarrier) undo(m *Machine) error { return m.carrier(s.Dev, true) }

func (m *Machine) carrier(dev string, on bool) error {
	text := "0"
	if on {
		text = "1"
	}
	err := os.WriteFile("/sys/class/net/"+dev+"/carrier", []byte(text), 0)
	if errors.Is(err, unix.EINVAL) { // it is down, and has none to take
		return unix.ENODEV
	}
	if err != nil {
		return err
	}
	// The kernel tells the routing of it in its own time, up to a second later.
	return eventually("the carrier of "+dev, func() (string, error) {
		link, err := m.nl.LinkByName(dev)
		if err != nil || (link.Attrs().RawFlags&unix.IFF_RUNNING != 0) == on {
			return "", err
		}
		return "not what was set", nil
	})
}

// SkipLinkdown makes routes through a network device without carrier not count.
type SkipLinkdown struct{ Dev string }

func (s SkipLinkdown) String() string {
	return fmt.Sprintf("sysctl -w net.ipv4.conf.%[1]s.ignore_routes_with_linkdown=1 net.ipv6.conf.%[1]s.ignore_routes_with_linkdown=1", s.Dev)
}

func (s SkipLinkdown) do(*Machine) error   { return s.set("1") }
func (s SkipLinkdown) undo(*Machine) error { return s.set("0") }

func (s SkipLinkdown) set(text string) (err error) {
	for _, version := range []string{"ipv4", "ipv6"} {
		name := fmt.Sprintf("/proc/sys/net/%s/conf/%s/ignore_routes_with_linkdown", version, s.Dev)
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0))
	}
	return err
}

// command is the line that does the same in a shell.
func command(s Step) string {
	if _, ok := s.(SkipLinkdown); ok {
		return s.String()
	}
	return "ip " + s.String()
}

// nexthops draws nexthop objects, single ones and then groups of them.
func (d *dice) nexthops() (out []Step) {
	add := func(n Nexthop) {
		n.ID = len(d.objects) + 1
		out, d.objects = append(out, n), append(d.objects, n)
	}
	for range 2 + d.IntN(4) {
		n := Nexthop{V6: d.chance(50)}
		if n.Blackhole = d.chance(8); !n.Blackhole {
			n.Hop = d.hop(n.V6)
		}
		add(n)
	}
	single := len(d.objects)
	for range d.IntN(3) {
		group := Nexthop{V6: d.chance(50), Resilient: d.chance(20)}
		for i := range single {
			if d.objects[i].V6 == group.V6 && !d.objects[i].Blackhole {
				group.Group = append(group.Group, Member{i + 1, 1 + d.IntN(3)})
			}
		}
		if len(group.Group) > 0 {
			add(group)
		}
	}
	return out
}

// object draws a nexthop object that a route of the family can use, 0: none.
func (d *dice) object(v6 bool) int {
	var fit []int
	for _, n := range d.objects {
		if n.V6 == v6 || !v6 && d.chance(20) {
			fit = append(fit, n.ID)
		}
	}
	if len(fit) == 0 {
		return 0
	}
	return one(d, fit...)
}
