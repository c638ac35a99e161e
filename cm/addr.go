package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/railbind/railbind/cm/policy"
)

// kernelAddr prepares an address for the kernel: IPv4-mapped ones are unmapped,
// and a zone becomes an interface index, looked up now. A zone that is missing,
// that names no link, or that the kernel would drop is refused.
func kernelAddr(h policy.Host, ap netip.AddrPort) (netip.AddrPort, error) {
	a := ap.Addr().Unmap()
	zone, onLink := a.Zone(), a.Is6() && a.IsLinkLocalUnicast()
	switch {
	case zone == "" && onLink:
		return ap, badZone(ap, "a link-local address is on every link", "name the link: "+a.String()+"%NETDEV", nil)
	case zone == "":
		return netip.AddrPortFrom(a, ap.Port()), nil
	case !onLink && !a.IsMulticast():
		return ap, badZone(ap, a.String()+" is not link-local, so the kernel drops its zone", "leave the zone out", nil)
	}
	index, err := linkIndex(h, zone)
	if errors.Is(err, syscall.ENODEV) {
		err = badZone(ap, fmt.Sprintf("there is no network device %q", zone), "give the name or the index of the link that the address is on", err)
	}
	if err != nil {
		return ap, err
	}
	return netip.AddrPortFrom(a.WithZone(strconv.Itoa(index)), ap.Port()), nil
}

// linkIndex is the index of the network device that a zone names.
func linkIndex(h policy.Host, zone string) (int, error) {
	if n, err := strconv.ParseUint(zone, 10, 31); err == nil {
		link, err := h.Interface(int(n))
		return link.Index, err
	}
	link, err := h.InterfaceByName(zone)
	return link.Index, err
}

func badZone(ap netip.AddrPort, reason, remedy string, cause error) error {
	return &policy.Error{Op: "bind", Sentinel: ErrScope, Errno: syscall.EINVAL, Src: ap, Reason: reason, Remedy: remedy, Cause: cause}
}

// withZone puts a link-local address on its link.
func withZone(ap netip.AddrPort, zone string) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().WithZone(zone), ap.Port())
}
