//go:build linux

package route

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/policy"
)

// journal keeps what the kernel tells of changes. Nobody listens in between: the
// socket is read when somebody asks, and what has overrun it by then counts as
// ChangesLost. The kernel tells of a change after it holds and before the next
// one of the same thing can, so a look-up that is followed by a reading misses
// nothing that came and went before it.
type journal struct {
	mu   sync.Mutex
	file *os.File
	read Mark      // changes read so far
	last time.Time // when the last one was
	kept []policy.Change
	buf  []byte
}

// keep is how many changes are remembered; older marks see ChangesLost.
const keep = 512

// Mark is a moment, for Since.
type Mark uint64

// Mark is now.
func (h *Handle) Mark() Mark {
	m, _ := h.journal.now()
	return m
}

// now is the present mark, and since when it has been that.
func (j *journal) now() (Mark, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drain()
	return j.read, j.last
}

// Since gives the changes of links, addresses, routes, rules and nexthop objects
// after m, oldest first. It costs no netlink request where there are none.
func (h *Handle) Since(m Mark) []policy.Change {
	j := &h.journal
	j.mu.Lock()
	j.drain()
	n := int(j.read - m)
	var out []policy.Change
	if n > len(j.kept) {
		out, n = append(out, policy.Change{Kind: policy.ChangesLost}), len(j.kept)
	}
	out = append(out, j.kept[len(j.kept)-n:]...)
	j.mu.Unlock()
	for i := range out {
		if out[i].Netdev == "" && out[i].Ifindex != 0 {
			out[i].Netdev = h.name(out[i].Ifindex)
		}
	}
	return out
}

// drain reads what the socket holds. What cannot be read is lost.
func (j *journal) drain() {
	conn, err := j.file.SyscallConn()
	if err != nil {
		j.add(policy.Change{})
		return
	}
	if j.buf == nil {
		j.buf = make([]byte, 32<<10)
	}
	buf := j.buf
	for more := true; more; {
		err = conn.Control(func(fd uintptr) {
			n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EAGAIN):
				more = false
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.ENOBUFS):
				j.add(policy.Change{})
			case err != nil:
				more = false
				j.add(policy.Change{})
			default:
				j.take(buf[:n])
			}
		})
		if err != nil { // closed
			j.add(policy.Change{})
			return
		}
	}
}

func (j *journal) add(c policy.Change) {
	j.read, j.last = j.read+1, time.Now()
	if j.kept = append(j.kept, c); len(j.kept) >= 2*keep {
		j.kept = append([]policy.Change(nil), j.kept[keep:]...)
	}
}

func (j *journal) take(b []byte) {
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		j.add(policy.Change{})
		return
	}
	for _, m := range msgs {
		if c, ok := change(m.Header.Type, m.Data); ok {
			j.add(c)
		}
	}
}

// prefix is an address of that many bits, invalid where there is none.
func prefix(addr []byte, bits uint8) netip.Prefix {
	a, ok := netip.AddrFromSlice(addr)
	if !ok {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, int(bits))
}

// change reads one message; ok is false for one that changes no path.
func change(kind uint16, m []byte) (c policy.Change, ok bool) {
	family := func(size int) bool {
		if len(m) < size {
			return false
		}
		c.IPv6 = m[0] == unix.AF_INET6
		return c.IPv6 || m[0] == unix.AF_INET
	}
	switch kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if !family(unix.SizeofRtMsg) || binary.NativeEndian.Uint32(m[8:])&unix.RTM_F_CLONED != 0 {
			return c, false
		}
		a := parse(m, unix.SizeofRtMsg)
		dst, found := netip.AddrFromSlice(a[unix.RTA_DST])
		if !found {
			if dst = netip.IPv4Unspecified(); c.IPv6 {
				dst = netip.IPv6Unspecified()
			}
		}
		c.Kind, c.Deleted = policy.RouteChange, kind == unix.RTM_DELROUTE
		c.Prefix = netip.PrefixFrom(dst, int(m[1]))
		c.Ifindex, c.Table, c.Route, c.Gateway = int(u32(a[unix.RTA_OIF])), int(m[4]), kinds[m[7]], gateway(a)
		if t, ok := a[unix.RTA_TABLE]; ok {
			c.Table = int(u32(t))
		}
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		if !family(unix.SizeofRtMsg) {
			return c, false
		}
		a := parse(m, unix.SizeofRtMsg)
		c.Kind, c.Deleted, c.Number = policy.RuleChange, kind == unix.RTM_DELRULE, int(u32(a[unix.FRA_PRIORITY]))
		c.From, c.To, c.Table = prefix(a[unix.FRA_SRC], m[2]), prefix(a[unix.FRA_DST], m[1]), int(u32(a[unix.FRA_TABLE]))
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		c.Kind, c.Deleted = policy.NexthopChange, kind == unix.RTM_DELNEXTHOP
		c.Number = int(u32(parse(m, unix.SizeofNhmsg)[unix.NHA_ID]))
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if !family(unix.SizeofIfAddrmsg) {
			return c, false
		}
		a := parse(m, unix.SizeofIfAddrmsg)
		raw := a[unix.IFA_LOCAL]
		if raw == nil {
			raw = a[unix.IFA_ADDRESS]
		}
		addr, _ := netip.AddrFromSlice(raw)
		c.Kind, c.Deleted = policy.AddressChange, kind == unix.RTM_DELADDR
		c.Prefix, c.Ifindex = netip.PrefixFrom(addr, int(m[1])), int(binary.NativeEndian.Uint32(m[4:]))
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m) < unix.SizeofIfInfomsg {
			return c, false
		}
		c.Kind, c.Deleted = policy.LinkChange, kind == unix.RTM_DELLINK
		a := parse(m, unix.SizeofIfInfomsg)
		c.Ifindex, c.Netdev, c.MTU = int(binary.NativeEndian.Uint32(m[4:])), text(a[unix.IFLA_IFNAME]), int(u32(a[unix.IFLA_MTU]))
		c.Up = binary.NativeEndian.Uint32(m[8:])&(unix.IFF_UP|unix.IFF_RUNNING) == unix.IFF_UP|unix.IFF_RUNNING
	default:
		return c, false
	}
	return c, true
}
