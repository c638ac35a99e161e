//go:build linux

package oracle

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/railbind/railbind/cm/policy"
)

// Call is what a program asks of one id: an optional bind, then a resolve.
type Call struct {
	Bind          netip.AddrPort // the zero AddrPort: none
	Src, Dst      netip.AddrPort
	Policy        policy.Policy
	PortSpace     policy.PortSpace // TCP or UDP
	LocalCrossing bool
	RequireOnLink bool
}

// String returns the call in words.
func (c Call) String() string {
	var b strings.Builder
	if c.Bind.IsValid() {
		fmt.Fprintf(&b, "bind %s, ", c.Bind)
	}
	b.WriteString("resolve ")
	if c.Src.IsValid() {
		fmt.Fprintf(&b, "%s -> ", c.Src)
	}
	fmt.Fprintf(&b, "%s, policy %s", c.Dst, c.Policy)
	if c.PortSpace != policy.PortSpaceTCP {
		fmt.Fprintf(&b, ", port space %s", c.PortSpace)
	}
	if c.LocalCrossing {
		b.WriteString(", AllowLocalCrossing")
	}
	if c.RequireOnLink {
		b.WriteString(", RequireOnLinkRoute")
	}
	return b.String()
}

// local is the address that the call's id has or gets before it resolves: the
// bound one, or the source that an idle id is to be bound to.
func (c Call) local() netip.AddrPort {
	if !c.Bind.IsValid() && specific(c.Src) {
		return c.Src
	}
	return c.Bind
}

func specific(a netip.AddrPort) bool { return a.IsValid() && !a.Addr().IsUnspecified() }

// unmap makes IPv4 of an IPv4-mapped address.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
