package cm

import (
	"net/netip"
	"strconv"
	"syscall"

	"github.com/railbind/railbind/cm/policy"
)

// kernelAddr prepares an address for the kernel: IPv4-mapped ones are unmapped,
// and a zone becomes an interface index, looked up now.
func kernelAddr(h policy.Host, ap netip.AddrPort) (netip.AddrPort, error) {
	a := ap.Addr().Unmap()
	if a.Zone() == "" && a.Is6() && a.IsLinkLocalUnicast() {
		return ap, &policy.Error{
			Op: "bind", Sentinel: ErrScope, Errno: syscall.EINVAL, Src: ap,
			Reason: "a link-local address is on every link",
			Remedy: "name the link: " + a.String() + "%NETDEV",
		}
	}
	if a.Zone() != "" {
		if _, err := strconv.ParseUint(a.Zone(), 10, 32); err != nil {
			link, err := h.InterfaceByName(a.Zone())
			if err != nil {
				return ap, err
			}
			a = a.WithZone(strconv.Itoa(link.Index))
		}
	}
	return netip.AddrPortFrom(a, ap.Port()), nil
}

// withZone puts a link-local address on its link.
func withZone(ap netip.AddrPort, zone string) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().WithZone(zone), ap.Port())
}
