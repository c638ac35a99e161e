package program

import (
	"fmt"
	"net"
	"net/netip"
)

// Address reads an address; what is the flag or argument that it was given as.
func Address(what, s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, fmt.Errorf("%s %q is not an address", what, s)
	}
	return a, nil
}

// AddrPort reads an address with its port.
func AddrPort(what, s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return a, fmt.Errorf("%s %q is not ADDR:PORT or [ADDR]:PORT", what, s)
	}
	return a, nil
}

// Local reads what to bind, of which at most one is given: the address of a flag, or
// the name of -device.
func Local(flag, addr, device string) (a netip.Addr, err error) {
	switch _, notName := netip.ParseAddr(device); {
	case addr != "" && device != "":
		return a, fmt.Errorf("give %s or -device, not both", flag)
	case device != "" && notName == nil:
		return a, fmt.Errorf("-device %q is not a name; %s takes an address", device, flag)
	case addr == "":
		return a, nil
	}
	if a, err = Address(flag, addr); err != nil {
		return a, fmt.Errorf("%w; -device takes a name", err)
	}
	return a, nil
}

// NoPort wants a host without its port, which has a flag of its own: -p.
func NoPort(what, host string) error {
	if _, _, err := net.SplitHostPort(host); err == nil { // (an address of IPv6 alone is no such)
		return fmt.Errorf("%s %q takes no port: give it with -p", what, host)
	}
	return nil
}
