package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/railbind/railbind/cm/policy"
)

// fake is a host in memory: one table, longest prefix first; a bound look-up
// prefers the bound network device, and for IPv4 is forced there.
type fake struct {
	rails  []rail
	routes []fakeRoute
}

type fakeRoute struct {
	dst     netip.Prefix
	dev     int
	gateway netip.Addr
}

// add puts a network device with addresses on the host, and an RDMA device if
// that has a name.
func (h *fake) add(name, rdma string, mtu int, addrs ...string) *fake {
	r := rail{Interface: policy.Interface{Index: len(h.rails) + 1, Name: name, MTU: mtu, Up: true, Loopback: name == "lo"}}
	var gids []policy.GIDRow
	for n, a := range addrs {
		p := netip.MustParsePrefix(a)
		r.addrs = append(r.addrs, p)
		h.routes = append(h.routes, fakeRoute{dst: p.Masked(), dev: r.Index})
		gids = append(gids, policy.GIDRow{GID: policy.GIDOf(p.Addr()), Index: n, Port: 1, Type: policy.GIDTypeRoCEv2, Netdev: r.Index})
	}
	if rdma != "" {
		r.ports = []policy.RDMAPort{{Device: rdma, DeviceIndex: r.Index, GUID: 1, Port: 1, Transport: policy.RoCE, Active: true, GIDs: gids}}
	}
	h.rails = append(h.rails, r)
	return h
}

func (h *fake) route(dst, dev, gateway string) *fake {
	r := fakeRoute{dst: netip.MustParsePrefix(dst)}
	i, _ := h.InterfaceByName(dev)
	r.dev = i.Index
	r.gateway, _ = netip.ParseAddr(gateway)
	h.routes = append(h.routes, r)
	return h
}

func (h *fake) Route(q policy.Query) (policy.Route, error) {
	if owners, _ := h.Owners(q.Dst); len(owners) > 0 && (q.Oif == 0 || owners[0].Index == q.Oif || q.Dst.Is6()) {
		return policy.Route{Query: q, Kind: policy.RouteLocal, Ifindex: 1, Netdev: "lo", PrefSrc: q.Dst}, nil
	}
	var fits []fakeRoute
	for _, r := range h.routes {
		if r.dst.Contains(q.Dst) && (q.Oif == 0 || q.Dst.Is6() || r.dev == q.Oif) {
			fits = append(fits, r)
		}
	}
	slices.SortStableFunc(fits, func(a, b fakeRoute) int { return cmp.Compare(b.dst.Bits(), a.dst.Bits()) })
	switch {
	case len(fits) == 0 && q.Oif != 0 && q.Dst.Is4() && !q.FIBMatch:
		return policy.Route{Query: q, Kind: policy.RouteUnicast, Ifindex: q.Oif, Netdev: h.rails[q.Oif-1].Name}, nil
	case len(fits) == 0:
		return policy.Route{Query: q, Kind: policy.RouteNone, Errno: syscall.ENETUNREACH}, nil
	}
	r := fits[0]
	out := policy.Route{Query: q, Kind: policy.RouteUnicast, Ifindex: r.dev, Netdev: h.rails[r.dev-1].Name, Gateway: r.gateway}
	for _, a := range h.rails[r.dev-1].addrs {
		if a.Addr().Is4() == q.Dst.Is4() && !out.PrefSrc.IsValid() {
			out.PrefSrc = a.Addr()
		}
	}
	return out, nil
}

func (h *fake) Owners(a netip.Addr) (out []policy.Interface, _ error) {
	for _, r := range h.rails {
		if r.has(a) {
			out = append(out, r.Interface)
		}
	}
	return out, nil
}

func (h *fake) Interface(index int) (policy.Interface, error) {
	for _, r := range h.rails {
		if r.Index == index {
			return r.Interface, nil
		}
	}
	return policy.Interface{}, fmt.Errorf("network device %d: %w", index, syscall.ENODEV)
}

func (h *fake) InterfaceByName(name string) (policy.Interface, error) {
	for _, r := range h.rails {
		if r.Name == name {
			return r.Interface, nil
		}
	}
	return policy.Interface{}, fmt.Errorf("network device %q: %w", name, syscall.ENODEV)
}

func (h *fake) Interfaces() (out []policy.Interface, _ error) {
	for _, r := range h.rails {
		out = append(out, r.Interface)
	}
	return out, nil
}

func (h *fake) Addrs(index int) (out []netip.Prefix, _ error) {
	for _, r := range h.rails {
		if r.Index == index {
			out = r.addrs
		}
	}
	return out, nil
}

func (h *fake) RDMAPorts() (out []policy.RDMAPort, _ error) {
	for _, r := range h.rails {
		out = append(out, r.ports...)
	}
	return out, nil
}

// names makes the resolver know these names only, while the test runs.
func knowNames(t *testing.T, names map[string][]string) {
	old := lookupName
	t.Cleanup(func() { lookupName = old })
	lookupName = func(_ context.Context, _, name string) (out []netip.Addr, err error) {
		for _, a := range names[name] {
			out = append(out, netip.MustParseAddr(a))
		}
		if out == nil {
			err = fmt.Errorf("lookup %s: no such host", name)
		}
		return out, err
	}
}
