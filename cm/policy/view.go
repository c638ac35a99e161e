package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// view asks a Host on behalf of one decision: it counts the look-ups, keeps the
// routes for the error text, asks for the RDMA ports once, and turns failures
// into ErrLookup.
type view struct {
	h       Host
	lookups int
	routes  []Route
	all     []RDMAPort
	asked   bool
}

func (v *view) route(q Query) (Route, *Error) {
	if v.h == nil {
		return Route{}, noHost()
	}
	v.lookups++
	r, err := v.h.Route(q)
	if q.Oif != 0 && errors.Is(err, syscall.ENODEV) {
		return Route{}, lost("network device %d is gone", q.Oif)
	}
	if err != nil {
		return Route{}, lookupFailed("the route to "+q.Dst.String(), err)
	}
	r.Query = q
	if r.Kind == RouteNotAsked {
		r.Kind = RouteOther // an answer is never "not asked"
	}
	v.routes = append(v.routes, r)
	return r, nil
}

// owners returns the network devices that have addr.
func (v *view) owners(addr netip.Addr) ([]Interface, *Error) {
	if v.h == nil {
		return nil, noHost()
	}
	v.lookups++
	out, err := v.h.Owners(addr.WithZone(""))
	if err != nil {
		return nil, lookupFailed("who has "+addr.String(), err)
	}
	return out, nil
}

// iface returns a network device; ok is false where there is none of that index.
func (v *view) iface(index int) (i Interface, ok bool, _ *Error) {
	if v.h == nil {
		return Interface{}, false, noHost()
	}
	v.lookups++
	i, err := v.h.Interface(index)
	return found(i, err, "network device "+strconv.Itoa(index))
}

// named returns a network device; ok is false where there is none of that name.
func (v *view) named(name string) (i Interface, ok bool, _ *Error) {
	if v.h == nil {
		return Interface{}, false, noHost()
	}
	v.lookups++
	i, err := v.h.InterfaceByName(name)
	return found(i, err, "network device "+name)
}

func found(i Interface, err error, what string) (Interface, bool, *Error) {
	switch {
	case err == nil:
		return i, true, nil
	case errors.Is(err, syscall.ENODEV):
		return Interface{}, false, nil
	}
	return Interface{}, false, lookupFailed(what, err)
}

func (v *view) interfaces() ([]Interface, *Error) {
	if v.h == nil {
		return nil, noHost()
	}
	v.lookups++
	out, err := v.h.Interfaces()
	if err != nil {
		return nil, lookupFailed("the network devices", err)
	}
	return out, nil
}

func (v *view) addrs(index int) ([]netip.Prefix, *Error) {
	if v.h == nil {
		return nil, noHost()
	}
	v.lookups++
	out, err := v.h.Addrs(index)
	if err != nil {
		return nil, lookupFailed("the addresses of network device "+strconv.Itoa(index), err)
	}
	return out, nil
}

func (v *view) ports() ([]RDMAPort, *Error) {
	if v.asked {
		return v.all, nil
	}
	if v.h == nil {
		return nil, noHost()
	}
	v.lookups++
	out, err := v.h.RDMAPorts()
	if err != nil {
		return nil, lookupFailed("the RDMA devices", err)
	}
	v.all, v.asked = out, true
	return out, nil
}

// shut refuses a device that this process cannot open where one of the ports that
// it cannot open is meant; nil where none is.
func (v *view) shut(what string, meant func(RDMAPort) bool) *Error {
	var names []string
	var why []error
	for _, p := range v.inaccessible() {
		if meant(p.RDMAPort) && !slices.Contains(names, p.Device) {
			names, why = append(names, p.Device), append(why, p.Err)
		}
	}
	if names == nil {
		return nil
	}
	cause := errors.Join(why...)
	e := refuse(ErrNotRDMA, fmt.Sprintf("%s, and this process cannot open the RDMA device %s: %s",
		what, strings.Join(names, ", "), strings.ReplaceAll(cause.Error(), "\n", "; ")),
		"let it open the device, as said there, or use another rail; "+v.devices())
	e.Cause = cause
	return e
}

func (v *view) inaccessible() []InaccessiblePort {
	if x, ok := v.h.(inaccessibleHost); ok {
		return x.InaccessiblePorts()
	}
	return nil
}

// shutBehind is shut for the devices behind network devices.
func (v *view) shutBehind(what string, netdevs []Interface) *Error {
	return v.shut(what, func(p RDMAPort) bool {
		return slices.ContainsFunc(netdevs, func(i Interface) bool { return touches(p, i) })
	})
}

// zoneIndex returns the index of the network device that a zone names.
func (v *view) zoneIndex(zone string) (int, *Error) {
	if n, err := strconv.ParseUint(zone, 10, 31); err == nil {
		_, ok, e := v.iface(int(n))
		if e != nil || ok {
			return int(n), e
		}
	} else {
		i, ok, e := v.named(zone)
		if e != nil || ok {
			return i.Index, e
		}
	}
	return 0, refuse(ErrScope, fmt.Sprintf("there is no network device %q", zone),
		"give the name or the index of the link that the address is on, as in fe80::1%eth0")
}

// vrf returns the name of the VRF that a network device belongs to, or "".
func (v *view) vrf(i Interface) (string, *Error) {
	if i.Master == 0 {
		return "", nil
	}
	master, ok, err := v.iface(i.Master)
	if err != nil || !ok || master.Kind != "vrf" {
		return "", err
	}
	return master.Name, nil
}

func noHost() *Error { return lookupFailed("this host", errors.New("no Host given")) }

func lookupFailed(what string, err error) *Error {
	e := refuse(ErrLookup, "cannot look up "+what+": "+err.Error(),
		"check that this process may open netlink sockets and that RDMA is there (rdma link)")
	e.Errno, e.Cause = syscall.EIO, err
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != 0 {
		e.Errno = errno
	}
	return e
}

// devices describes the RDMA ports by their network devices, for error texts.
func (v *view) devices() string {
	ports, err := v.ports()
	if err != nil || len(ports) == 0 {
		if x, ok := v.h.(exclusiveHost); ok && x.ExclusiveRDMA() {
			return "there are no RDMA devices in this network namespace, and those of others are not seen here, since RDMA's namespaces are exclusive" +
				" (rdma system show): run where the device is, or, if its driver can, move it here (rdma dev set NAME netns NAMESPACE)"
		}
		if len(v.inaccessible()) > 0 {
			return "there are no RDMA devices here that this process can open (rb-doctor says why)"
		}
		return "there are no RDMA devices here"
	}
	var out []string
	for _, p := range ports {
		on := map[int]bool{}
		if p.Netdev != 0 {
			on[p.Netdev] = true
		}
		for _, g := range p.GIDs {
			if g.Netdev != 0 {
				on[g.Netdev] = true
			}
		}
		var names []string
		for index := range on {
			if i, ok, _ := v.iface(index); ok {
				names = append(names, i.Name)
			}
		}
		slices.Sort(names)
		text := fmt.Sprintf("%s/%d", p.Device, p.Port)
		if len(names) > 0 {
			text += " on " + strings.Join(names, ", ")
		}
		out = append(out, text)
	}
	return "RDMA ports here: " + strings.Join(out, "; ")
}

func hasIndex(list []Interface, index int) bool {
	return slices.ContainsFunc(list, func(i Interface) bool { return i.Index == index })
}

func names(list []Interface) string {
	var out []string
	for _, i := range list {
		out = append(out, i.Name)
	}
	return strings.Join(out, ", ")
}
