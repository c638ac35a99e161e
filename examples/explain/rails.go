package main

import (
	"net/netip"
	"slices"

	"github.com/railbind/railbind/cm/policy"
)

// rail is a network device and the RDMA ports behind it.
type rail struct {
	policy.Interface
	addrs []netip.Prefix
	ports []policy.RDMAPort
}

// railsOf lists the network devices of a host, by index. What cannot be looked
// up is left out: the picture shows what there is.
func railsOf(h policy.Host) []rail {
	all, _ := h.Interfaces()
	ports, _ := h.RDMAPorts()
	var out []rail
	for _, i := range all {
		r := rail{Interface: i}
		r.addrs, _ = h.Addrs(i.Index)
		for _, p := range ports {
			if behind(p, i) {
				r.ports = append(r.ports, p)
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b rail) int { return a.Index - b.Index })
	return out
}

// behind says whether an RDMA port belongs to a network device.
func behind(p policy.RDMAPort, i policy.Interface) bool {
	if p.Netdev != 0 {
		return p.Netdev == i.Index
	}
	return slices.ContainsFunc(p.GIDs, func(g policy.GIDRow) bool {
		return g.Netdev == i.Index || p.Transport == policy.InfiniBand && len(i.HWAddr) == 20 && g.GID == policy.GID(i.HWAddr[4:])
	})
}

func (r rail) has(a netip.Addr) bool {
	return slices.ContainsFunc(r.addrs, func(p netip.Prefix) bool { return p.Addr() == a.WithZone("") })
}

// leads says whether a route leads through the rail; a local one leads to those
// that have the destination.
func (r rail) leads(route, table policy.Route) bool {
	switch route.Kind {
	case policy.RouteUnicast, policy.RouteMulticast, policy.RouteBroadcast, policy.RouteAnycast:
		return r.Index == route.Ifindex || slices.ContainsFunc(table.Hops, func(h policy.Hop) bool { return h.Ifindex == r.Index })
	case policy.RouteLocal:
		return r.has(route.Query.Dst)
	}
	return false
}

// gateway is the next hop on the rail, invalid where there is none.
func (r rail) gateway(route, table policy.Route) netip.Addr {
	for _, h := range table.Hops {
		if h.Ifindex == r.Index {
			return h.Gateway
		}
	}
	if route.Ifindex == r.Index {
		return route.Gateway
	}
	return netip.Addr{}
}
