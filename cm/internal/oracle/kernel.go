//go:build linux

package oracle

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// patience bounds one step of a raw id. Nothing here waits for a peer, so it
// only ends a case where the kernel does not answer at all.
const patience = 3 * time.Second

// Truth is what the kernel made of a call, with no policy between.
type Truth struct {
	Failed string        // the step that failed: bind, resolve address, resolve route; or ""
	Errno  syscall.Errno // why
	Async  bool          // by an event
	Bound  bool          // the bind succeeded

	Device  string
	Local   netip.AddrPort
	SGID    policy.GID // of the path
	DGID    policy.GID
	PathMTU int // bytes
}

// String returns the truth on one line.
func (t Truth) String() string {
	if t.Failed != "" {
		how := ""
		if t.Async {
			how = " by an event"
		}
		return fmt.Sprintf("%s fails%s: %s", t.Failed, how, unix.ErrnoName(t.Errno))
	}
	return fmt.Sprintf("%s at %s, path MTU %d, SGID %s, DGID %s", t.Device, t.Local, t.PathMTU, t.SGID, t.DGID)
}

// at says whether this is the device, and its path the network device's.
func (t Truth) at(device, netdev string) bool {
	if iwarp {
		return t.Device == device && device == deviceOf(netdev)
	}
	return t.Device == device && t.PathMTU == pathMTU(netdev)
}

// raw makes calls on ids of one event channel of its own.
type raw struct {
	ch     cgo.EventChannel
	reader *cgo.EventReader
	fd     int
}

func newRaw() (*raw, error) {
	ch, err := cgo.CreateEventChannel()
	if err != nil {
		return nil, err
	}
	fd, err := ch.DupFD()
	if err != nil {
		cgo.DestroyEventChannel(ch)
		return nil, err
	}
	return &raw{ch, cgo.NewEventReader(ch), int(fd)}, nil
}

func (r *raw) close() error {
	r.reader.Free()
	err := unix.Close(r.fd)
	cgo.DestroyEventChannel(r.ch)
	return err
}

// try makes the calls: an idle id with a source is bound to it first, as the
// rule has it; a bound id's source is passed on, for the kernel to ignore.
func (r *raw) try(m *Machine, c Call) (t Truth, err error) {
	space := cgo.PortSpaceTCP
	if c.PortSpace == policy.PortSpaceUDP {
		space = cgo.PortSpaceUDP
	}
	id, err := cgo.CreateID(r.ch, 1, space)
	if err != nil {
		return Truth{}, err
	}
	defer func() { err = errors.Join(err, id.Destroy()) }()
	local, src := c.local(), c.Src
	if local.IsValid() {
		if local == src {
			src = netip.AddrPort{}
		}
		if t.fail("bind", id.Bind(m.sockAddr(local))) {
			return t, nil
		}
		t.Bound = true
	}
	start := func() error {
		return id.ResolveAddr(m.sockAddr(src), m.sockAddr(c.Dst), int(patience.Milliseconds()))
	}
	if ok, err := r.step(&t, "resolve address", cgo.EventAddrResolved, start); !ok {
		return t, err
	}
	start = func() error { return id.ResolveRoute(int(patience.Milliseconds())) }
	_, err = r.step(&t, "resolve route", cgo.EventRouteResolved, start)
	return t, err
}

// step starts something and waits for its event; ok says that it was want.
func (r *raw) step(t *Truth, name string, want uint32, start func() error) (ok bool, err error) {
	if t.fail(name, start()) {
		return false, nil
	}
	ev, err := r.next()
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	if ev.Type != want {
		t.Failed, t.Errno, t.Async = name, syscall.Errno(max(-ev.Status, 0)), true
		return false, nil
	}
	t.Device, t.Local = ev.Info.Device, ev.Info.Local
	t.SGID, t.DGID = policy.GID(ev.Info.PathSGID), policy.GID(ev.Info.PathDGID)
	if !iwarp { // which has no path
		t.PathMTU = ibv.MTU(ev.Info.PathMTU).Bytes()
	}
	return true, nil
}

func (t *Truth) fail(step string, err error) bool {
	if err != nil {
		t.Failed = step
		errors.As(err, &t.Errno)
	}
	return err != nil
}

func (r *raw) next() (cgo.Event, error) {
	for deadline := time.Now().Add(2 * patience); ; {
		ev, ok, err := r.reader.Next()
		if ok || err != nil {
			return ev, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return ev, unix.ETIMEDOUT
		}
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return ev, err
		}
	}
}

// sockAddr makes the zone a number, as the C structure has it.
func (m *Machine) sockAddr(a netip.AddrPort) cgo.SockAddr {
	if link := m.links[a.Addr().Zone()]; link != nil {
		a = netip.AddrPortFrom(a.Addr().WithZone(strconv.Itoa(link.Attrs().Index)), a.Port())
	}
	return cgo.ToSockAddr(a)
}
