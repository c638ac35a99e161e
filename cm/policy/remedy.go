package policy

import (
	"fmt"
	"net/netip"
)

// keep gives the commands that keep a bound id's own look-up on its network
// device: routes in its VRF, or a rule by source.
func (d *Decision) keep() string {
	b, dst := d.Binding, d.Request.Dst.Addr()
	if b.VRF == "" || needsZone(dst) {
		return d.sourceRule()
	}
	to := netip.PrefixFrom(dst, dst.BitLen())
	if dst.Is4() {
		return fmt.Sprintf("ip route replace %s dev %s vrf %s%s", to, b.Netdev, b.VRF, viaHint(b))
	}
	// Without a default of its own the VRF would leak to the main table.
	return fmt.Sprintf("ip -6 route replace %s dev %s vrf %s; ip -6 route replace unreachable default metric 4278198272 vrf %s%s",
		to, b.Netdev, b.VRF, b.VRF, viaHint(b))
}

// sourceRule gives the commands that make the host's routing agree with the
// binding: a rule by source, which an unbound look-up from there follows too.
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
	table := 1000 + b.Ifindex
	return fmt.Sprintf("%s rule add from %s lookup %d; %s route replace %s dev %s table %d%s",
		ip, b.Addr.Addr(), table, ip, to, b.Netdev, table, viaHint(b))
}

func viaHint(b Binding) string {
	return fmt.Sprintf(" (with `via GATEWAY` where the peer is not on the link of %s)", b.Netdev)
}
