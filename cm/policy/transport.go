package policy

import "fmt"

// CheckHas wants a binding's transport to have what an id is about to use, and
// says what to use instead: iWARP, which is TCP, has less than the others.
//
// Errors: ErrTransport.
func CheckHas(b Binding, what, instead string) error {
	return ofBinding(b, has(b.Transport, b.Device, what, instead))
}

func ofBinding(b Binding, err *Error) error {
	if err == nil {
		return nil
	}
	err.Op, err.Src, err.Binding = "check the transport of", b.Addr, b
	return err
}

func has(t Transport, device, what, instead string) *Error {
	if t != IWARP {
		return nil
	}
	return refuse(ErrTransport, fmt.Sprintf("%s is %v, which has no %s", device, t, what), instead)
}

// CheckPortSpace wants a binding's transport to have what a port space is for.
//
// Errors: ErrTransport.
func CheckPortSpace(b Binding, p PortSpace) error {
	return ofBinding(b, p.carried(b.Transport, b.Device))
}

// carried wants one device's transport to have what the port space is for.
func (p PortSpace) carried(t Transport, device string) *Error {
	if !p.datagrams() {
		return nil
	}
	return has(t, device, "datagrams, and no multicast", "use the port space TCP, or an address of a RoCE device")
}

// boundSpace is CheckPortSpace for an id that is bound: it was said at the bind.
func (d *Decision) boundSpace() *Error {
	return d.Request.PortSpace.carried(d.Binding.Transport, d.Binding.Device)
}

// space is CheckPortSpace wherever the connection may be.
func (d *Decision) space() *Error {
	for _, t := range d.Predicted {
		if err := d.Request.PortSpace.carried(t.Transport, t.Device); err != nil {
			return err
		}
	}
	return nil
}

func (p PortSpace) datagrams() bool { return p == PortSpaceUDP || p == PortSpaceIPoIB }
