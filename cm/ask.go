package cm

import (
	"net/netip"

	"github.com/railbind/railbind/cm/policy"
)

// ask asks an open host; the answer of one that is nil, zero or closed is ErrClosed.
func ask[T any](h *Host, question func(*host) (T, error)) (answer T, err error) {
	if h == nil || h.host == nil || h.closed.Load() {
		return answer, ErrClosed
	}
	return question(h.host)
}

// Route implements policy.Host.
func (h *Host) Route(q policy.Query) (policy.Route, error) {
	return ask(h, func(o *host) (policy.Route, error) { return o.Route(q) })
}

// Owners implements policy.Host.
func (h *Host) Owners(addr netip.Addr) ([]policy.Interface, error) {
	return ask(h, func(o *host) ([]policy.Interface, error) { return o.Owners(addr) })
}

// Interface implements policy.Host.
func (h *Host) Interface(index int) (policy.Interface, error) {
	return ask(h, func(o *host) (policy.Interface, error) { return o.Interface(index) })
}

// InterfaceByName implements policy.Host.
func (h *Host) InterfaceByName(name string) (policy.Interface, error) {
	return ask(h, func(o *host) (policy.Interface, error) { return o.InterfaceByName(name) })
}

// Interfaces implements policy.Host.
func (h *Host) Interfaces() ([]policy.Interface, error) {
	return ask(h, (*host).Interfaces)
}

// Addrs implements policy.Host.
func (h *Host) Addrs(index int) ([]netip.Prefix, error) {
	return ask(h, func(o *host) ([]netip.Prefix, error) { return o.Addrs(index) })
}

// RDMAPorts implements policy.Host.
func (h *Host) RDMAPorts() ([]policy.RDMAPort, error) { return ask(h, (*host).RDMAPorts) }

// InaccessiblePorts lists the ports of the RDMA devices that this process cannot
// open, each with the reason: by it a refusal tells such a device from one that is
// not there. nil also where h is closed.
func (h *Host) InaccessiblePorts() []policy.InaccessiblePort {
	out, _ := ask(h, func(o *host) ([]policy.InaccessiblePort, error) { return o.InaccessiblePorts(), nil })
	return out
}

// KernelVersion is that of the running kernel, by which the rule knows what the
// kernel does; zeros where it is not known.
func (h *Host) KernelVersion() (major, minor int) {
	v, _ := ask(h, func(o *host) (v [2]int, _ error) {
		v[0], v[1] = o.KernelVersion()
		return v, nil
	})
	return v[0], v[1]
}

// ExclusiveRDMA reports whether the kernel shows RDMA devices in their own network
// namespace only; false also where it does not tell.
func (h *Host) ExclusiveRDMA() bool {
	x, _ := ask(h, func(o *host) (bool, error) { return o.ExclusiveRDMA(), nil })
	return x
}
