package cm

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// AddrInfoHints narrow a GetAddrInfo. The zero value asks for a destination in
// the TCP port space.
type AddrInfoHints struct {
	Passive     bool // for a listener: node is a local address, "" the wildcard
	NumericHost bool // node is an address: ask no name server
	NoRoute     bool // do not ask InfiniBand's helper (ibacm) for the path
	IPv4, IPv6  bool // one of the two: only that family
	PortSpace   PortSpace
	Src         netip.AddrPort // the source to be used
}

// AddrInfo is one answer of GetAddrInfo.
type AddrInfo struct {
	Passive   bool
	PortSpace PortSpace
	QPType    ibv.QPType
	// Src and Dst are zero where there is none, or where it is of the family
	// AF_IB, which this package does not address by.
	Src, Dst netip.AddrPort
	Name     string // canonical, where known
	Route    []byte // path records as InfiniBand's helper has them
	Connect  []byte // private data that has to go with a Connect
}

// GetAddrInfo looks a node and a service up as librdmacm does. It is here for
// programs that are used to it: a Dialer asks Go's resolver, because this one
// may put an address of another family first and knows no device.
//
// It may ask name servers and blocks an OS thread meanwhile; where ctx ends
// first, that thread is left to come back by itself.
//
// Implements: int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
// and void rdma_freeaddrinfo(struct rdma_addrinfo *res)
func GetAddrInfo(ctx context.Context, node, service string, hints AddrInfoHints) ([]AddrInfo, error) {
	type answer struct {
		list []cgo.AddrInfo
		err  error
	}
	op := &OpError{Op: "get address info of " + net.JoinHostPort(node, service)}
	if err := ctx.Err(); err != nil {
		op.Err = err
		return nil, op
	}
	done := make(chan answer, 1)
	go func() {
		list, err := cgo.GetAddrInfo(node, service, hints.toC())
		done <- answer{list, err}
	}()
	select {
	case <-ctx.Done():
		op.Err = ctx.Err()
		return nil, op
	case a := <-done:
		if a.err != nil {
			op.Err = fmt.Errorf("%w: no such node or service, of that family and port space", a.err)
			return nil, op
		}
		out := make([]AddrInfo, len(a.list))
		for i, c := range a.list {
			out[i] = AddrInfo{
				Passive: c.Flags&cgo.AIPassive != 0, PortSpace: PortSpace(c.PortSpace), QPType: ibv.QPType(c.QPType),
				Src: c.Src, Dst: c.Dst, Name: c.DstName, Route: c.Route, Connect: c.Connect,
			}
			if c.SrcName != "" {
				out[i].Name = c.SrcName
			}
		}
		return out, nil
	}
}

// Linux's address families: package syscall has other numbers elsewhere.
const (
	familyIPv4 = 2
	familyIPv6 = 10
)

func (h AddrInfoHints) toC() cgo.AddrInfo {
	c := cgo.AddrInfo{PortSpace: int(h.PortSpace.orTCP()), Src: h.Src, QPType: int(ibv.RC)}
	if h.PortSpace.datagrams() {
		c.QPType = int(ibv.UD)
	}
	for _, f := range []struct {
		on  bool
		bit int
	}{{h.Passive, cgo.AIPassive}, {h.NumericHost, cgo.AINumericHost}, {h.NoRoute, cgo.AINoRoute}, {h.IPv4 != h.IPv6, cgo.AIFamily}} {
		if f.on {
			c.Flags |= f.bit
		}
	}
	switch {
	case h.IPv4 && !h.IPv6:
		c.Family = familyIPv4
	case h.IPv6 && !h.IPv4:
		c.Family = familyIPv6
	}
	return c
}
