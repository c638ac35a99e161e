package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// remedy is what to do: commands that mend by themselves, and words.
type remedy struct {
	commands []string
	note     string // about the commands
	instead  string // what else can be done
}

// String returns all of it on one line.
func (r remedy) String() string {
	parts := slices.Clone(r.commands)
	switch {
	case r.note != "" && len(parts) > 0:
		parts[len(parts)-1] += " (" + r.note + ")"
	case r.note != "":
		parts = append(parts, r.note)
	}
	if r.instead != "" {
		parts = append(parts, "or "+r.instead)
	}
	return strings.Join(parts, "; ")
}

// by is refuse with a remedy of commands.
func (e *Error) by(r remedy) *Error {
	e.Remedy, e.Commands = r.String(), r.commands
	return e
}

// keep gives the commands that keep a bound id's own look-up on its network
// device: routes in its VRF, or a rule by source.
func (d *Decision) keep() remedy {
	b, dst := d.Binding, d.Request.Dst.Addr()
	if b.VRF == "" || needsZone(dst) {
		return d.sourceRule()
	}
	r := d.routeTo(dst, "vrf "+b.VRF)
	if dst.Is6() {
		// Without a default of its own the VRF would leak to the main table.
		r.commands = append(r.commands, "ip -6 route replace unreachable default metric 4278198272 vrf "+b.VRF)
	}
	return r
}

// sourceRule gives the commands that make the host's routing agree with the
// binding: a rule by source, which an unbound look-up from there follows too.
func (d *Decision) sourceRule() remedy {
	b, dst := d.Binding, d.Request.Dst.Addr()
	if needsZone(dst) {
		return linkRoute(dst, b.Netdev, b.VRF)
	}
	table := 1000 + b.Ifindex
	r := d.routeTo(dst, fmt.Sprintf("table %d", table))
	rule := fmt.Sprintf("%s rule add from %s lookup %d", ipCommand(dst), b.Addr.Addr().WithZone(""), table)
	r.commands = append([]string{rule}, r.commands...)
	return r
}

// routeTo gives a host route through the bound network device, by the gateway
// that the table knows there.
func (d *Decision) routeTo(dst netip.Addr, table string) remedy {
	b := d.Binding
	gateway, known := d.gateway()
	r := remedy{commands: []string{hostRoute(dst, gateway, b.Netdev) + " " + table}}
	if !known {
		r.note = viaHint(b.Netdev)
	}
	return r
}

// gateway returns the next hop on the bound network device, invalid for the
// link itself; known is false where no route leads through it.
func (d *Decision) gateway() (gateway netip.Addr, known bool) {
	for _, h := range d.FIB.Hops {
		if h.Ifindex == d.Binding.Ifindex {
			return h.Gateway, true
		}
	}
	if d.FIB.Kind == RouteUnicast && d.Effective.Kind == RouteUnicast && d.Effective.Ifindex == d.Binding.Ifindex {
		return d.Effective.Gateway, true
	}
	return netip.Addr{}, false
}

// linkRoute gives the command that brings the route of link-local addresses
// back, which a network device has by nature.
func linkRoute(dst netip.Addr, netdev, vrf string) remedy {
	if dst.IsMulticast() {
		return remedy{note: "check the link and its routes: ip -6 route show table all dev " + netdev}
	}
	command := "ip -6 route replace fe80::/64 dev " + netdev
	if vrf != "" {
		command += " vrf " + vrf
	}
	return remedy{commands: []string{command}}
}

// hostRoute is a command up to the table.
func hostRoute(dst, gateway netip.Addr, netdev string) string {
	via := ""
	switch {
	case !gateway.IsValid():
	case gateway.Is4() == dst.Is4():
		via = fmt.Sprintf(" via %s", gateway)
	default:
		via = fmt.Sprintf(" via inet6 %s", gateway)
	}
	return fmt.Sprintf("%s route replace %s%s dev %s", ipCommand(dst), netip.PrefixFrom(dst, dst.BitLen()), via, netdev)
}

func ipCommand(a netip.Addr) string {
	if a.Is6() {
		return "ip -6"
	}
	return "ip"
}

func viaHint(netdev string) string {
	return fmt.Sprintf("with `via GATEWAY` where the peer is not on the link of %s", netdev)
}

func linkUp(i Interface) remedy {
	return remedy{commands: []string{"ip link set " + i.Name + " up"}}
}

// routeThrough gives the remedy of an unbound id without a route: one through
// the first rail that is up and has an address of that family.
func (v *view) routeThrough(dst netip.Addr, link int) remedy {
	if link != 0 {
		i, ok, err := v.iface(link)
		switch {
		case err != nil || !ok:
		case !i.Up:
			return linkUp(i)
		default:
			vrf, _ := v.vrf(i)
			return linkRoute(dst, i.Name, vrf)
		}
	}
	if rails := v.rails(dst.Is4()); len(rails) > 0 {
		r := remedy{commands: []string{hostRoute(dst, netip.Addr{}, rails[0])}, note: viaHint(rails[0]), instead: "bind an address of a rail"}
		if len(rails) > 1 {
			r.note += ", or through another rail: " + strings.Join(rails[1:], ", ")
		}
		return r
	}
	return remedy{note: "add a route to the destination, or bind an address of a rail"}
}

// rails returns the network devices outside of VRFs that are up and have an
// address of a family with one RDMA port behind it.
func (v *view) rails(v4 bool) (out []string) {
	all, err := v.interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		vrf, err := v.vrf(i)
		if err != nil || vrf != "" || !i.Up || i.Loopback {
			continue
		}
		addrs, err := v.addrs(i.Index)
		if err != nil {
			return nil
		}
		if slices.ContainsFunc(addrs, func(p netip.Prefix) bool {
			if p.Addr().Is4() != v4 || p.Addr().IsLinkLocalUnicast() {
				return false
			}
			here, err := v.behind(i, p.Addr())
			return err == nil && len(here) == 1
		}) {
			out = append(out, i.Name)
		}
	}
	return out
}
