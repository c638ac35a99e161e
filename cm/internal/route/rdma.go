//go:build linux

package route

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of RDMA netlink that this package reads (enum rdma_nldev_attr).
const (
	attrDevIndex   = 1
	attrDevName    = 2
	attrPortIndex  = 3
	attrNodeGUID   = 6
	attrPortState  = 12
	attrNdevIndex  = 50
	attrNetnsMode  = 66
	cmdDevGet      = 1 // RDMA_NLDEV_CMD_GET
	cmdPortGet     = 5 // RDMA_NLDEV_CMD_PORT_GET
	cmdSysGet      = 6 // RDMA_NLDEV_CMD_SYS_GET
	portStateReady = 4 // IB_PORT_ACTIVE
)

// nldev is the message type of a command of RDMA netlink's device client.
func nldev(cmd int) int { return nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT | cmd }

// RDMALinks lists the RDMA devices that this network namespace sees, with the
// network device of each port. A kernel without RDMA gives an error that matches
// errors.ErrUnsupported.
func (h *Handle) RDMALinks() ([]RDMALink, error) {
	msgs, err := h.request(unix.NETLINK_RDMA, nldev(cmdDevGet), unix.NLM_F_DUMP, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	var out []RDMALink
	for _, m := range msgs {
		a := parse(m, 0)
		l := RDMALink{Index: int(u32(a[attrDevIndex])), Name: text(a[attrDevName])}
		if guid := a[attrNodeGUID]; len(guid) == 8 {
			l.GUID = binary.NativeEndian.Uint64(guid)
		}
		// A port changes its network device with an event of that, which is heard of.
		ports, err := remember(h, portsOf(l.Index), func() ([]RDMALinkPort, error) { return h.rdmaPorts(l.Index) }, nil)
		if errnoOf(err) == unix.ENODEV || errnoOf(err) == unix.EINVAL {
			continue // gone in between
		}
		if err != nil {
			return nil, fmt.Errorf("list the ports of %s: %w", l.Name, err)
		}
		l.Ports = ports
		out = append(out, l)
	}
	return out, nil
}

func (h *Handle) rdmaPorts(device int) ([]RDMALinkPort, error) {
	msgs, err := h.request(unix.NETLINK_RDMA, nldev(cmdPortGet), unix.NLM_F_DUMP, 0, nil, attr32(attrDevIndex, uint32(device)))
	if err != nil {
		return nil, err
	}
	var out []RDMALinkPort
	for _, m := range msgs {
		a := parse(m, 0)
		p := RDMALinkPort{Port: uint8(u32(a[attrPortIndex])), Netdev: int(u32(a[attrNdevIndex]))}
		if state := a[attrPortState]; len(state) > 0 {
			p.Active = state[0] == portStateReady
		}
		out = append(out, p)
	}
	return out, nil
}

// ExclusiveRDMA reports whether the kernel shows RDMA devices in their own network
// namespace only; false also where it does not tell.
func (h *Handle) ExclusiveRDMA() bool {
	msgs, err := h.request(unix.NETLINK_RDMA, nldev(cmdSysGet), 0, 0, nil)
	if err != nil || len(msgs) == 0 {
		return false
	}
	mode := parse(msgs[0], 0)[attrNetnsMode]
	return len(mode) > 0 && mode[0] == 0
}
