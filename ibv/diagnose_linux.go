package ibv

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// What package syscall has no names for.
const (
	iflaInfoKind, iflaInfoData = 1, 2
	iflaVRFTable               = 1
	rtmGetRule                 = 34
	fraSrc                     = 2
	rtmsgSize                  = syscall.SizeofRtMsg // of a rule's header, too
)

// dump asks the kernel for all of a kind, and passes on each answer's header and
// attributes.
func dump(kind, family, header int, each func(head []byte, attrs map[uint16][]byte)) {
	rib, err := syscall.NetlinkRIB(kind, family)
	if err != nil {
		return
	}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return
	}
	for _, m := range messages {
		if len(m.Data) >= header && m.Header.Type != syscall.NLMSG_DONE && m.Header.Type != syscall.NLMSG_ERROR {
			each(m.Data[:header], attributes(m.Data[header:]))
		}
	}
}

func attributes(b []byte) map[uint16][]byte {
	out := map[uint16][]byte{}
	for len(b) >= syscall.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < syscall.SizeofRtAttr || n > len(b) {
			break
		}
		out[binary.NativeEndian.Uint16(b[2:])&^(1<<15)] = b[syscall.SizeofRtAttr:n]
		b = b[min((n+3)&^3, len(b)):]
	}
	return out
}

// text is a name that the kernel ends with a zero.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

func number(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func hostVRFs() (out []vrf) {
	dump(syscall.RTM_GETLINK, syscall.AF_UNSPEC, syscall.SizeofIfInfomsg, func(_ []byte, link map[uint16][]byte) {
		info := attributes(link[syscall.IFLA_LINKINFO])
		if text(info[iflaInfoKind]) == "vrf" {
			out = append(out, vrf{name: text(link[syscall.IFLA_IFNAME]), table: number(attributes(info[iflaInfoData])[iflaVRFTable])})
		}
	})
	for i := range out {
		out[i].v4 = hasDefault(syscall.AF_INET, out[i].table)
		out[i].v6 = hasDefault(syscall.AF_INET6, out[i].table)
	}
	return out
}

// hasDefault tells whether a table has a route for every destination, be it one
// that refuses.
func hasDefault(family int, table uint32) (has bool) {
	dump(syscall.RTM_GETROUTE, family, rtmsgSize, func(head []byte, attrs map[uint16][]byte) {
		if head[1] == 0 && number(attrs[syscall.RTA_TABLE]) == table {
			has = true
		}
	})
	return has
}

// ruleSources are the sources of the IPv6 rules that have one.
func ruleSources() (out []netip.Prefix) {
	dump(rtmGetRule, syscall.AF_INET6, rtmsgSize, func(head []byte, attrs map[uint16][]byte) {
		if a, ok := netip.AddrFromSlice(attrs[fraSrc]); ok {
			out = append(out, netip.PrefixFrom(a, int(head[2])))
		}
	})
	return out
}
