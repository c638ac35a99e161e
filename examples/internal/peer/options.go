package peer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/program"
)

// Usage is the end of the usage of the commands that have Options.
const Usage = `  -device NAME  bind the fitting address of this RDMA or network device
  -policy P     auto (default: pin where -b or -device is given, follow
                otherwise), pin, route or follow
  -timeout D    most time for connecting, and for each wait of the peer that is
                there (default 15s); a server waits for the first until
                interrupted
  -json         print the result as JSON

Exit status: 0 all went right; 1 the connection or the data failed; 2 misuse;
3 no RDMA here; 4 refused by the binding rule; 130 interrupted before the end.
`

// Options are the flags that the counterparts of rdma-core's examples share,
// with the letters that those have.
type Options struct {
	Name    string        // of the command
	Server  string        // -s: where the server is; empty: this is it
	Bind    netip.Addr    // -b
	Device  string        // -device
	Policy  cm.Policy     // -policy
	Port    uint16        // -p
	TOS     uint8         // -t
	Timeout time.Duration // -timeout
	JSON    bool          // -json

	// Of those that send messages.
	Connections int // -c
	Count       int // -C
	Size        int // -S

	set       *flag.FlagSet
	bind      string
	port, tos uint
	serves    bool // it has -s
}

// maxBytes bounds the memory for messages, so that a slip of the finger does not
// take the machine's.
const maxBytes = 1 << 30

// Flags makes the set of those that all commands have.
func (o *Options) Flags(name string) *flag.FlagSet {
	o.Name = name
	o.set = flag.NewFlagSet(name, flag.ContinueOnError)
	o.set.SetOutput(io.Discard)
	o.set.StringVar(&o.bind, "b", "", "")
	o.set.StringVar(&o.Device, "device", "", "")
	o.set.TextVar(&o.Policy, "policy", cm.Auto, "")
	o.set.DurationVar(&o.Timeout, "timeout", 15*time.Second, "")
	o.set.BoolVar(&o.JSON, "json", false, "")
	return o.set
}

// ServerFlags are those of commands with a server.
func (o *Options) ServerFlags(port uint) {
	o.serves = true
	o.set.StringVar(&o.Server, "s", "", "")
	o.set.UintVar(&o.port, "p", port, "")
	o.set.UintVar(&o.tos, "t", 0, "")
}

// MessageFlags are those of commands that send messages.
func (o *Options) MessageFlags() {
	o.set.IntVar(&o.Connections, "c", 1, "")
	o.set.IntVar(&o.Count, "C", 10, "")
	o.set.IntVar(&o.Size, "S", 100, "")
}

// Parse reads the arguments.
func (o *Options) Parse(args []string) (err error) {
	if err := program.Parse(o.set, args); err != nil {
		return err
	}
	switch {
	case o.set.NArg() > 0:
		return fmt.Errorf("unexpected %q", o.set.Arg(0))
	case o.Timeout <= 0:
		return fmt.Errorf("-timeout %v: want more than 0", o.Timeout)
	case o.port > 65535 || o.port == 0 && o.Server != "":
		return fmt.Errorf("-p %d: want 1 to 65535", o.port)
	case o.tos > 255:
		return fmt.Errorf("-t %d: want 0 to 255", o.tos)
	case o.serves && o.Server == "" && o.Given("policy"):
		return errors.New("-policy is the client's, which needs -s")
	}
	if o.Bind, err = program.Local("-b", o.bind, o.Device); err != nil {
		return err
	}
	if err := program.NoPort("-s", o.Server); err != nil {
		return err
	}
	o.Port, o.TOS = uint16(o.port), uint8(o.tos)
	return o.checkMessages()
}

func (o *Options) checkMessages() error {
	if o.set.Lookup("C") == nil {
		return nil
	}
	switch {
	case o.Connections < 1:
		return fmt.Errorf("-c %d: want 1 or more", o.Connections)
	case o.Count < 0:
		return fmt.Errorf("-C %d: want 0 or more", o.Count)
	case o.Size < 0:
		return fmt.Errorf("-S %d: want 0 or more", o.Size)
	case o.Size > 0 && o.Count > 0 && o.Connections > maxBytes/o.Size/o.Count:
		return fmt.Errorf("-c %d -C %d -S %d: messages of more than %d bytes in all", o.Connections, o.Count, o.Size, maxBytes)
	}
	if o.Size == 0 {
		o.Count = 0 // as the C programs have it
	}
	return nil
}

// Given reports whether a flag was given.
func (o *Options) Given(name string) (given bool) {
	o.set.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Role is the name of this end's role.
func (o *Options) Role() string {
	if o.Server == "" {
		return "server"
	}
	return "client"
}

// Outcome is the beginning of a result.
func (o *Options) Outcome() Outcome { return Outcome{Role: o.Role(), Policy: o.Policy} }

// Steps bounds the steps of a connection.
func (o *Options) Steps() cm.Timeouts {
	return cm.Timeouts{ResolveAddr: o.Timeout, ResolveRoute: o.Timeout, Connect: o.Timeout}
}

// Local is the address that a server listens on: all, where none is given.
func (o *Options) Local() (netip.AddrPort, error) {
	a := o.Bind
	if !a.IsValid() {
		a = netip.IPv4Unspecified()
	}
	if o.Device != "" {
		var err error
		if a, err = AddressOf(o.Device, a); err != nil {
			return netip.AddrPort{}, err
		}
	}
	return netip.AddrPortFrom(a, o.Port), nil
}

// Listen starts a listener for connections, as the flags have it.
func (o *Options) Listen() (*cm.Listener, error) {
	at, err := o.Local()
	if err != nil {
		return nil, err
	}
	return cm.Listen(at, cm.ListenConfig{Timeouts: o.Steps(), Options: cm.Options{TypeOfService: o.TOS}})
}

// AcceptAll calls f for each connection. The first may be long in coming; when it
// is there, the client is.
func (o *Options) AcceptAll(ctx context.Context, f func(context.Context) error) error {
	for i := range o.Connections {
		var err error
		if i == 0 {
			err = f(ctx)
		} else {
			err = WithLimit(ctx, o.Timeout, f)
		}
		if err != nil {
			return fmt.Errorf("connection %d of %d (-c): %w", i+1, o.Connections, err)
		}
	}
	return nil
}

// Dialer makes connections as the flags have it.
func (o *Options) Dialer() cm.Dialer {
	d := cm.Dialer{LocalDevice: o.Device, Policy: o.Policy, Timeouts: o.Steps(), Options: cm.Options{TypeOfService: o.TOS}}
	if o.Bind.IsValid() {
		d.LocalAddr = netip.AddrPortFrom(o.Bind, 0)
	}
	return d
}

// Target is the server as Dial wants it.
func (o *Options) Target() string { return net.JoinHostPort(o.Server, strconv.Itoa(int(o.Port))) }

// Lookup finds the address of a host: of the bound address's family, where one is given.
func (o *Options) Lookup(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range all {
		if a = a.Unmap(); !o.Bind.IsValid() || a.Is4() == o.Bind.Is4() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address of the family of %v", host, o.Bind)
}

// Source is the address to bind for a destination, or none.
func (o *Options) Source(dst netip.Addr) (netip.AddrPort, error) {
	a := o.Bind
	if o.Device != "" {
		family := netip.IPv6Unspecified()
		if dst.Is4() {
			family = netip.IPv4Unspecified()
		}
		var err error
		if a, err = AddressOf(o.Device, family); err != nil {
			return netip.AddrPort{}, err
		}
	}
	if !a.IsValid() {
		return netip.AddrPort{}, nil
	}
	return netip.AddrPortFrom(a, 0), nil
}

// Resolve makes an id that knows the device for dst.
func (o *Options) Resolve(ctx context.Context, ps cm.PortSpace, dst netip.AddrPort) (*cm.ID, error) {
	src, err := o.Source(dst.Addr())
	if err != nil {
		return nil, err
	}
	id, err := cm.NewID(cm.IDConfig{PortSpace: ps, Policy: o.Policy, Timeouts: o.Steps(), Options: cm.Options{TypeOfService: o.TOS}})
	if err != nil {
		return nil, err
	}
	if err := id.ResolveAddr(ctx, src, dst); err != nil {
		id.Close()
		return nil, err
	}
	return id, nil
}
