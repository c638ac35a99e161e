package cm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// Dialer makes connections. The zero value, or nil, lets the route choose the device, as
// for an IP socket. With LocalAddr or LocalDevice the connection is bound there
// first, and keeps that device or is refused. A Dialer may be used by many
// goroutines at once as long as nobody changes it.
type Dialer struct {
	// LocalAddr is bound before anything else; port 0 lets the kernel choose.
	LocalAddr netip.AddrPort
	// LocalDevice, the name of an RDMA device or of a network device, picks the
	// address on it that fits the destination, and binds that. It goes with no
	// LocalAddr. Several addresses that fit equally are ErrAmbiguousDevice.
	LocalDevice string

	Policy             Policy
	AllowLocalCrossing bool // see IDConfig
	RequireOnLinkRoute bool // see IDConfig

	Timeouts Timeouts
	Options  Options
	Queues   QueueConfig
	Param    ConnParam
	// Resources, where given, brings the PD and the queues of the connection,
	// on the device it is given: the one the connection has come to be on.
	Resources func(*ibv.Context) (Resources, error)
	Channel   *EventChannel // nil: one that the process shares
	Logger    *slog.Logger  // see IDConfig

	stepHook func(step string) // see IDConfig
}

// tries is how often a dial is made that the peer refuses because it still
// remembers the QP number of an older connection, or during which the routing
// changed so that nothing can be promised.
const tries = 3

// Dial connects to "host:port". A name is looked up by Go's resolver; of its
// addresses those of the local address's family are tried in turn.
//
// Every error is an *OpError. It says whether the rule refused (a *PolicyError
// inside), the peer did (a *RejectError), or time ran out (a *TimeoutError).
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	const op = "dial"
	d = d.orZero()
	addrs, err := lookup(ctx, address)
	if err != nil {
		return nil, &OpError{Op: op, Err: err}
	}
	if local := d.LocalAddr.Addr().Unmap(); local.IsValid() && len(addrs) > 1 {
		var fit []netip.AddrPort
		for _, a := range addrs {
			if a.Addr().Is4() == local.Is4() {
				fit = append(fit, a)
			}
		}
		if len(fit) > 0 {
			addrs = fit
		}
	}
	var errs []error
	for i, a := range addrs {
		c, err := d.dialShare(ctx, a, len(addrs)-i)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	return nil, &OpError{Op: op, Local: d.LocalAddr, Device: d.LocalDevice, Err: fmt.Errorf("%s: %w", address, errors.Join(errs...))}
}

// dialShare is DialAddr within this address's share of the time: a silent one must
// leave some to those behind it.
func (d *Dialer) dialShare(ctx context.Context, a netip.AddrPort, left int) (*Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return d.DialAddr(ctx, a)
}

func lookup(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return nil, fmt.Errorf("%q has no host", address)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("port %q: want a number from 1 to 65535", service)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), uint16(port))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	out := make([]netip.AddrPort, len(ips))
	for i, a := range ips {
		out[i] = netip.AddrPortFrom(a.Unmap(), uint16(port))
	}
	return out, nil
}

// DialAddr is Dial with an address.
func (d *Dialer) DialAddr(ctx context.Context, dst netip.AddrPort) (*Conn, error) {
	d = d.orZero()
	for try := 1; ; try++ {
		c, err := d.dialOnce(ctx, dst)
		if err == nil || try == tries || ctx.Err() != nil || !worthRetry(err) {
			return c, err
		}
	}
}

// orZero takes a nil Dialer for a zero one.
func (d *Dialer) orZero() *Dialer {
	if d == nil {
		return &Dialer{}
	}
	return d
}

func worthRetry(err error) bool {
	var e *OpError
	return errors.Is(err, ErrStale) || errors.Is(err, ErrChanged) && errors.As(err, &e) && !e.Timeout()
}

// dialOnce runs all steps on an id of its own.
func (d *Dialer) dialOnce(ctx context.Context, dst netip.AddrPort) (*Conn, error) {
	id, err := d.resolve(ctx, dst)
	if err != nil {
		return nil, err
	}
	c, err := newConn(id, d.Queues, d.Resources)
	if err != nil {
		id.Close()
		return nil, &OpError{Op: "dial", Local: id.LocalAddr(), Remote: dst, Device: id.Binding().Device, Err: err}
	}
	if err := id.Connect(ctx, d.Param); err != nil {
		c.abandon()
		return nil, err
	}
	if c.m != nil && c.m.siw {
		go c.m.nudge()
	}
	return c, nil
}

// resolve gives an id that knows its path to dst.
func (d *Dialer) resolve(ctx context.Context, dst netip.AddrPort) (*ID, error) {
	id, err := NewID(IDConfig{
		Channel:            d.Channel,
		Policy:             d.Policy,
		AllowLocalCrossing: d.AllowLocalCrossing,
		RequireOnLinkRoute: d.RequireOnLinkRoute,
		Timeouts:           d.Timeouts,
		Options:            d.Options,
		Logger:             d.Logger,
		stepHook:           d.stepHook,
	})
	if err != nil {
		return nil, &OpError{Op: "dial", Remote: dst, Err: err}
	}
	src, err := d.source(id.host, dst)
	if err != nil {
		id.refused(err)
		id.Close()
		return nil, &OpError{Op: "dial", Local: d.LocalAddr, Remote: dst, Device: d.LocalDevice, Err: err}
	}
	err = id.ResolveAddr(ctx, src, dst)
	if err == nil {
		err = d.keptDevice(id, src, dst)
	}
	if err == nil {
		err = id.ResolveRoute(ctx)
	}
	if err != nil {
		id.Close()
		return nil, err
	}
	return id, nil
}

// keptDevice wants the address that was picked for LocalDevice to be there still:
// an address can move from one device to another at any time.
func (d *Dialer) keptDevice(id *ID, src, dst netip.AddrPort) error {
	b := id.Binding()
	if d.LocalDevice == "" || b.Device == d.LocalDevice || b.Netdev == d.LocalDevice {
		return nil
	}
	return id.refuse("dial", src, dst, &policy.Error{
		Op: "dial", Sentinel: ErrBindingLost, Errno: syscall.EADDRNOTAVAIL, Src: src, Dst: dst, Binding: b,
		Reason: fmt.Sprintf("%s was an address of %s and has moved to %s on %s", src.Addr(), d.LocalDevice, b.Device, b.Netdev),
		Remedy: "dial again: another address of " + d.LocalDevice + " may fit",
	})
}

// source is the address that the dialer binds, or none.
func (d *Dialer) source(h policy.Host, dst netip.AddrPort) (netip.AddrPort, error) {
	if d.LocalDevice == "" {
		return d.LocalAddr, nil
	}
	if d.LocalAddr.IsValid() {
		return netip.AddrPort{}, fmt.Errorf("%w: give LocalAddr or LocalDevice, not both", ErrSourceConflict)
	}
	a, err := policy.PickLocal(h, d.LocalDevice, dst.Addr())
	return netip.AddrPortFrom(a, 0), err
}
