package policy

import (
	"fmt"
	"net/netip"
)

// sourceRule gives the commands that make the host's routing agree with the
// binding: a rule by source, or for a VRF routes of its own.
func (d *Decision) sourceRule() string {
	b, dst := d.Binding, d.Request.Dst.Addr()
	ip := "ip"
	if dst.Is6() {
		ip = "ip -6"
	}
	if b.Addr.Addr().IsLinkLocalUnicast() || needsZone(dst) {
		return fmt.Sprintf("check the link and its routes: %s route show dev %s", ip, b.Netdev)
	}
	to := netip.PrefixFrom(dst, dst.BitLen())
	if b.VRF != "" {
		s := fmt.Sprintf("%s route replace %s dev %s vrf %s", ip, to, b.Netdev, b.VRF)
		if dst.Is6() {
			s += fmt.Sprintf("; ip -6 route replace unreachable default metric 4278198272 vrf %s", b.VRF)
		}
		return s + viaHint(b)
	}
	table := 1000 + b.Ifindex
	return fmt.Sprintf("%s rule add from %s lookup %d; %s route replace %s dev %s table %d%s",
		ip, b.Addr.Addr(), table, ip, to, b.Netdev, table, viaHint(b))
}

func viaHint(b Binding) string {
	return fmt.Sprintf(" (with `via GATEWAY` where the peer is not on the link of %s)", b.Netdev)
}
