//go:build linux

package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Neighbour returns the entry of one neighbour, of state NeighbourNone where
// there is none.
func (h *Handle) Neighbour(ifindex int, addr netip.Addr) (Neighbour, error) {
	addr = addr.Unmap().WithZone("")
	msgs, err := h.request(unix.NETLINK_ROUTE, unix.RTM_GETNEIGH, 0, unix.RTM_NEWNEIGH,
		ndmsg(ifindex, addr, 0, 0), attr{unix.NDA_DST, addr.AsSlice()})
	if errors.Is(err, unix.ENOENT) {
		return Neighbour{}, nil
	}
	if err != nil {
		return Neighbour{}, fmt.Errorf("look up neighbour %s on network device %d: %w", addr, ifindex, err)
	}
	for _, m := range msgs {
		if len(m) < unix.SizeofNdMsg {
			continue
		}
		a := parse(m, unix.SizeofNdMsg)
		return Neighbour{State: stateOf(binary.NativeEndian.Uint16(m[8:])), HWAddr: a[unix.NDA_LLADDR]}, nil
	}
	return Neighbour{}, nil
}

func stateOf(nud uint16) NeighbourState {
	const valid = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_PROBE | unix.NUD_STALE | unix.NUD_DELAY
	switch {
	case nud&valid != 0:
		return NeighbourValid
	case nud&unix.NUD_INCOMPLETE != 0:
		return NeighbourIncomplete
	case nud&unix.NUD_FAILED != 0:
		return NeighbourFailed
	}
	return NeighbourNone
}

// Nudge makes the kernel ask for a neighbour's hardware address, as a packet to
// it would. It does not wait for the answer. It needs CAP_NET_ADMIN; without it
// the error matches EPERM.
func (h *Handle) Nudge(ifindex int, addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	_, err := h.request(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_ACK, 0,
		ndmsg(ifindex, addr, unix.NUD_NONE, unix.NTF_USE), attr{unix.NDA_DST, addr.AsSlice()})
	if err != nil {
		return fmt.Errorf("nudge neighbour %s on network device %d: %w", addr, ifindex, err)
	}
	return nil
}

// ndmsg is a struct ndmsg.
func ndmsg(ifindex int, addr netip.Addr, state uint16, flags uint8) []byte {
	b := make([]byte, unix.SizeofNdMsg)
	b[0] = unix.AF_INET
	if addr.Is6() {
		b[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(ifindex))
	binary.NativeEndian.PutUint16(b[8:], state)
	b[10] = flags
	return b
}
