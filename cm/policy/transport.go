package policy

import "fmt"

// CheckHas wants a binding's transport to have what an id is about to use, and
// says what to use instead: iWARP, which is TCP, has less than the others.
//
// Errors: ErrTransport.
func CheckHas(b Binding, what, instead string) error {
	if err := has(b.Transport, b.Device, what, instead); err != nil {
		err.Op, err.Src, err.Binding = "check the transport of", b.Addr, b
		return err
	}
	return nil
}

func has(t Transport, device, what, instead string) *Error {
	if t != IWARP {
		return nil
	}
	return refuse(ErrTransport, fmt.Sprintf("%s is %v, which has no %s", device, t, what), instead)
}

const (
	datagrams   = "datagrams, and no multicast"
	noDatagrams = "use the port space TCP, or an address of a RoCE device"
)

// CheckPortSpace wants a binding's transport to have what a port space is for.
//
// Errors: ErrTransport.
func CheckPortSpace(b Binding, p PortSpace) error {
	if !p.datagrams() {
		return nil
	}
	return CheckHas(b, datagrams, noDatagrams)
}

// boundSpace is CheckPortSpace for an id that is bound: it was said at the bind.
func (d *Decision) boundSpace() *Error {
	if !d.Request.PortSpace.datagrams() {
		return nil
	}
	return has(d.Binding.Transport, d.Binding.Device, datagrams, noDatagrams)
}

// space is CheckPortSpace wherever the connection may be.
func (d *Decision) space() *Error {
	if !d.Request.PortSpace.datagrams() {
		return nil
	}
	for _, t := range d.Predicted {
		if err := has(t.Transport, t.Device, datagrams, noDatagrams); err != nil {
			return err
		}
	}
	return nil
}

func (p PortSpace) datagrams() bool { return p == PortSpaceUDP || p == PortSpaceIPoIB }
