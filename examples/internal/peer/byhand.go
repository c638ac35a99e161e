package peer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/railbind/railbind/examples/internal/program"
	"github.com/railbind/railbind/ibv"
)

// ByHand are the flags of commands whose ends meet over TCP, and connect their
// queue pairs without the connection manager.
type ByHand struct {
	Name     string        // of the command
	Host     string        // the server's; empty: this is it
	Addr     netip.Addr    // -b
	Device   string        // -d, or -device
	GIDIndex int           // -g, or as GIDFlag; -1: that of the address
	IBPort   uint8         // -i
	Port     uint16        // -p
	MTU      ibv.MTU       // -m; as the path has it, after Open
	Timeout  time.Duration // -timeout
	JSON     bool          // -json
	GIDFlag  string        // the letter of GIDIndex

	set               *flag.FlagSet
	addr              string
	ibPort, port, mtu uint
}

// mtus are the bytes that -m takes.
var mtus = map[uint]ibv.MTU{256: ibv.MTU256, 512: ibv.MTU512, 1024: ibv.MTU1024, 2048: ibv.MTU2048, 4096: ibv.MTU4096}

// Flags makes the set of those that all these commands have.
func (o *ByHand) Flags(name, gidFlag string, mtu uint, timeout time.Duration) *flag.FlagSet {
	o.Name, o.GIDFlag = name, gidFlag
	o.set = flag.NewFlagSet(name, flag.ContinueOnError)
	o.set.SetOutput(io.Discard)
	o.set.StringVar(&o.addr, "b", "", "")
	o.set.StringVar(&o.Device, "d", "", "")
	o.set.StringVar(&o.Device, "device", "", "")
	o.set.IntVar(&o.GIDIndex, gidFlag, -1, "")
	o.set.UintVar(&o.ibPort, "i", 1, "")
	o.set.UintVar(&o.port, "p", 18515, "")
	o.set.UintVar(&o.mtu, "m", mtu, "")
	o.set.DurationVar(&o.Timeout, "timeout", timeout, "")
	o.set.BoolVar(&o.JSON, "json", false, "")
	return o.set
}

// Parse reads the arguments.
func (o *ByHand) Parse(args []string) (err error) {
	if err := program.Parse(o.set, args); err != nil {
		return err
	}
	o.Host, o.IBPort, o.Port, o.MTU = o.set.Arg(0), uint8(o.ibPort), uint16(o.port), mtus[o.mtu]
	switch {
	case o.set.NArg() > 1:
		return fmt.Errorf("unexpected %q", o.set.Arg(1))
	case o.ibPort < 1 || o.ibPort > 255:
		return fmt.Errorf("-i %d: want 1 to 255", o.ibPort)
	case o.port < 1 || o.port > 65535:
		return fmt.Errorf("-p %d: want 1 to 65535", o.port)
	case o.MTU == 0:
		return fmt.Errorf("-m %d: want 256, 512, 1024, 2048 or 4096", o.mtu)
	case o.Timeout <= 0:
		return fmt.Errorf("-timeout %v: want more than 0", o.Timeout)
	}
	// (Together they may be given: of several addresses of a device, -b says which.)
	if _, err := program.Local("-b", "", o.Device); err != nil {
		return err
	}
	if o.Addr, err = program.Local("-b", o.addr, ""); err != nil {
		return err
	}
	return program.NoPort("HOST", o.Host)
}

// Role is the name of this end's role.
func (o *ByHand) Role() string {
	if o.Host == "" {
		return "server"
	}
	return "client"
}

// AnyDevice fails where there is no RDMA, before a server waits for nothing.
func AnyDevice() error {
	all, err := ibv.Devices()
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: there is no RDMA device (rdma link)", ibv.ErrNoRDMA)
	}
	return err
}

// Meet waits for the client, or goes to the server.
func (o *ByHand) Meet(ctx context.Context, stderr io.Writer) (net.Conn, error) {
	port := strconv.Itoa(int(o.Port))
	if o.Host != "" {
		d := net.Dialer{Timeout: o.Timeout}
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(o.Host, port))
		return bounded(ctx, c, err)
	}
	at := ""
	if o.Addr.IsValid() {
		at = o.Addr.String()
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(at, port))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	fmt.Fprintf(stderr, "%s: listening on %v (TCP)\n", o.Name, l.Addr())
	defer context.AfterFunc(ctx, func() { l.Close() })()
	c, err := l.Accept()
	return bounded(ctx, c, err)
}

// bounded ends a connection with the context.
func bounded(ctx context.Context, c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, OrEnded(ctx, err)
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// OrEnded is the end of the context, where that was the reason.
func OrEnded(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Late says of an error that the peer took too long, where it did.
func (o *ByHand) Late(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no answer within %v (-timeout): %w", o.Timeout, err)
	}
	return err
}

// Place is the device, and the address on it, that an end is at.
type Place struct {
	Ctx *ibv.Context
	LID uint16
	GID ibv.GIDEntry // zero on InfiniBand, unless one is asked for

	PortMTU ibv.MTU
}

// Open finds the device; local is the address to go by where none is named.
func (o *ByHand) Open(local netip.Addr) (p Place, err error) {
	which := ibv.Selector{Name: o.Device, Addr: o.Addr}
	if which == (ibv.Selector{}) {
		which.Addr = local
	}
	if p.Ctx, err = which.Open(); err != nil {
		return p, fmt.Errorf("%w (-b or -d says which device is meant)", err)
	}
	if p.Ctx.Transport() == ibv.TransportIWARP {
		return p, fmt.Errorf("%s: %w: iWARP connects by the connection manager only (rb-ucmatose)", p.Ctx.Name(), errors.ErrUnsupported)
	}
	port, err := p.Ctx.QueryPort(o.IBPort)
	if err != nil {
		return p, err
	}
	p.LID, p.PortMTU = port.LID, port.ActiveMTU
	o.MTU = min(o.MTU, p.PortMTU)
	switch {
	case o.GIDIndex >= 0:
		p.GID, err = p.Ctx.QueryGID(o.IBPort, o.GIDIndex)
	case port.LinkLayer != ibv.LinkInfiniBand:
		if o.Addr.IsValid() {
			local = o.Addr
		}
		p.GID, err = p.Ctx.LookupGID(ibv.GIDQuery{Addr: local, Port: o.IBPort})
	}
	if err != nil {
		return p, fmt.Errorf("%w (-b names the address to use on %s, -%s a row of its GID table)", err, p.Ctx.Name(), o.GIDFlag)
	}
	return p, nil
}

// At notes where an end is that connects by hand.
func (o *Outcome) At(p Place, port uint8) {
	o.Device, o.Port, o.Local = p.Ctx.Name(), port, p.GID.GID.Addr().String()
	if i, err := net.InterfaceByIndex(p.GID.Netdev); err == nil {
		o.Netdev = i.Name
	}
}
