package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

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
		return addrInfos(a.list), nil
	}
}

func addrInfos(list []cgo.AddrInfo) []AddrInfo {
	out := make([]AddrInfo, len(list))
	for i, c := range list {
		out[i] = AddrInfo{
			Passive: c.Flags&cgo.AIPassive != 0, PortSpace: PortSpace(c.PortSpace), QPType: ibv.QPType(c.QPType),
			Src: c.Src, Dst: c.Dst, Name: c.DstName, Route: c.Route, Connect: c.Connect,
		}
		if c.SrcName != "" {
			out[i].Name = c.SrcName
		}
	}
	return out
}

// ResolveAddrInfo is GetAddrInfo by way of the id's events. node is an address:
// librdmacm would ask name servers within the call, which no context ends. It
// needs rdma-core 60 and a kernel from 6.18 on; with older ones the error matches
// errors.ErrUnsupported. The id stays as it is, unless the answer does not come.
//
// Implements: int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints)
// and int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
func (id *ID) ResolveAddrInfo(ctx context.Context, node, service string, hints AddrInfoHints) ([]AddrInfo, error) {
	hints.NumericHost = true
	return id.askAddrInfo(ctx, "resolve address info of "+net.JoinHostPort(node, service), node, service, hints.toC(),
		StateIdle, StateBoundWildcard, StateBoundDevice)
}

// ResolveService asks InfiniBand's subnet administration, on the bound port, who
// offers a service, by its name or its number. Elsewhere, and with a kernel before
// 6.18 or rdma-core before 60, the error matches errors.ErrUnsupported.
//
// Implements: int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints)
// and int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
func (id *ID) ResolveService(ctx context.Context, service string) ([]AddrInfo, error) {
	return id.askAddrInfo(ctx, "resolve service "+service, "", service, cgo.AddrInfo{Flags: cgo.AIService}, StateBoundDevice)
}

func (id *ID) askAddrInfo(ctx context.Context, op, node, service string, hints cgo.AddrInfo, allowed ...State) (out []AddrInfo, err error) {
	if err := id.begin(op, allowed...); err != nil {
		return nil, err
	}
	defer id.step.Unlock()
	ev, err := id.await(ctx, op, id.cfg.Timeouts.ResolveAddr, func(h cgo.ID, _ time.Duration) error {
		return h.ResolveAddrInfo(node, service, hints)
	})
	var late *TimeoutError
	switch {
	case err == nil:
		err = eventError(&ev, cgo.EventAddrInfoResolved)
	case errors.As(err, &late) && !errors.Is(err, errNotAsked):
		return nil, id.poison(op, err) // librdmacm takes no second question before the answer
	}
	if err == nil {
		err = id.call(func(h cgo.ID) error {
			list, err := h.QueryAddrInfo()
			out = addrInfos(list)
			return err
		})
	}
	return out, id.fail(op, err)
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
