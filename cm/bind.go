package cm

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
)

// Bind binds an idle id to a local address, and with it to the RDMA device that
// has it; from then on the id keeps that device. The unspecified address binds
// a port and no device. A link-local address needs its zone. A failure of the
// kernel poisons the id, because the kernel keeps part of it.
//
// Errors: ErrScope, ErrNotLocal, ErrNotRDMA, ErrAmbiguousDevice (several devices
// carry the address, and the kernel took whichever came first), EADDRINUSE (another
// id has the port, on this address or on the unspecified one), EACCES (a port below
// net.ipv4.ip_unprivileged_port_start), ibv.ErrDeviceNotAccessible (beside ErrNotRDMA: the device is there, and this
// process may not open it; libibverbs can wait 5 s before that is told),
// ErrTransport (the device is on iWARP, and the port space one of datagrams).
//
// Implements: int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
func (id *ID) Bind(addr netip.AddrPort) error {
	if err := id.begin("bind", StateIdle); err != nil {
		return err
	}
	defer id.step.Unlock()
	return id.bind(addr)
}

// bind is Bind within a step.
func (id *ID) bind(addr netip.AddrPort) error {
	const op = "bind"
	if !addr.Addr().IsValid() {
		return id.fail(op, fmt.Errorf("no address given: %w", syscall.EINVAL))
	}
	addr, err := kernelAddr(id.host, addr)
	if err != nil {
		return id.refuse(op, addr, netip.AddrPort{}, err)
	}
	if id.cfg.PortSpace.datagrams() {
		// (Where the look-up fails, the bind tells.)
		if b, err := policy.ResolveBinding(id.host, addr); err == nil {
			if err := policy.CheckPortSpace(b, id.cfg.PortSpace.policy()); err != nil {
				return id.refuse(op, addr, netip.AddrPort{}, err)
			}
		}
	}
	id.mu.Lock()
	id.info.Local = addr // so that an error names it
	id.mu.Unlock()

	since := id.host.Mark()
	var info cgo.IDInfo
	err = id.call(func(h cgo.ID) error {
		if err := h.Bind(cgo.ToSockAddr(addr)); err != nil {
			return err
		}
		info = h.Info()
		return nil
	})
	if id.cfg.PortSpace == PortSpaceIPoIB && errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("the port space IPoIB has addresses of IP over InfiniBand only: %w", err)
	}
	if err != nil {
		return id.poison(op, explainBind(id.host, addr, id.host.Since(since), err))
	}
	if err := id.setInfo(info); err != nil {
		return id.poison(op, err)
	}
	b, err := policy.CheckBound(id.host, addr, id.kernelView(info))
	if err != nil {
		return id.poison(op, err)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state != StateIdle {
		return nil // closed or removed meanwhile: that state stays
	}
	id.bound(b)
	id.state = StateBoundWildcard
	if b.State == policy.BoundDevice {
		id.state = StateBoundDevice
	}
	return nil
}

// explainBind says at which step between address and device a bind, or the listen
// after it, failed, where the look-ups can tell; changes are those since before it.
func explainBind(h policy.Host, addr netip.AddrPort, changes []policy.Change, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return portInUse(addr, err)
	case errors.Is(err, syscall.EACCES) && addr.Port() != 0:
		return fmt.Errorf("%w: ports below %s need CAP_NET_BIND_SERVICE", err, cmp.Or(line("/proc/sys/net/ipv4/ip_unprivileged_port_start"), "1024"))
	// (ENXIO was seen where the address went away meanwhile.)
	case !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.ENXIO):
		return err
	}
	if short := cgo.NoFiles(1); short != nil { // librdmacm could not open the device
		return fmt.Errorf("open its device: %w (the kernel said: %w)", short, err)
	}
	_, why := policy.ResolveBinding(h, addr)
	switch {
	case errors.Is(why, ErrLookup):
		return err
	case why == nil && errors.Is(err, syscall.EADDRNOTAVAIL) && (addr.Addr().IsUnspecified() ||
		addr.Port() != 0 && !cameOrWent(addr.Addr(), changes)):
		return portInUse(addr, err)
	case why == nil: // a GID table follows the addresses a moment later
		why = fmt.Errorf("%w: %s has only just come to its RDMA device; try again on a new id", ErrChanged, addr.Addr())
	}
	return fmt.Errorf("%w (the kernel said: %w)", why, err)
}

// portInUse is a failed bind or listen to a port that another id has. The kernel
// calls that EADDRINUSE for two specific addresses, and EADDRNOTAVAIL where one of
// the two is unspecified, whatever its family.
func portInUse(addr netip.AddrPort, err error) error {
	if addr.Port() == 0 {
		return fmt.Errorf("%w: no port is free (sysctl net.ipv4.ip_local_port_range; rdma resource show cm_id): %w", syscall.EADDRINUSE, err)
	}
	text := fmt.Sprintf("port %d is in use on this host (rdma resource show cm_id; on iWARP also ss -tln)", addr.Port())
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %s", err, text)
	}
	return fmt.Errorf("%w: %s; the kernel said: %w", syscall.EADDRINUSE, text, err)
}

// cameOrWent tells whether an address was added or deleted among the changes.
func cameOrWent(a netip.Addr, changes []policy.Change) bool {
	return slices.ContainsFunc(changes, func(c policy.Change) bool {
		return c.Kind == policy.ChangesLost || c.Kind == policy.AddressChange && c.Prefix.Addr() == a.WithZone("")
	})
}
