package ibv

import (
	"fmt"

	"github.com/railbind/railbind/cgo"
)

// AH is an address handle: where datagrams go. Safe for concurrent use.
type AH struct {
	held
	h       cgo.AH
	destroy func() error
}

// GRHSize is how many bytes at the head of a UD receive buffer the header takes
// that tells where a datagram came from. The message follows it, WC.Len counts
// it, and where WC.GRH is false its bytes mean nothing. Of a RoCE v2 packet over
// IPv4 the last 20 bytes are the IP header.
const GRHSize = 40

func (a *AH) life() *node {
	if a == nil {
		return nil
	}
	return a.node
}

// CreateAH creates an address handle for the destination that attr names. On
// RoCE the kernel looks the destination's Ethernet address up now, which can
// take as long as that takes.
//
// Implements: struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
func (p *PD) CreateAH(attr AHAttr) (*AH, error) {
	const op = "create AH"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	if attr.SGIDIndex < 0 || attr.SGIDIndex > 255 {
		return nil, invalid(op, p.node.name, ErrInvalid, "SGIDIndex is %d, it has 8 bits", attr.SGIDIndex)
	}
	c := attr.toC()
	h, err := p.h.CreateAH(&c)
	if err != nil {
		e := fail(op, p.node.name, err)
		e.Hint = or(e.Hint, or(p.ctx.beyondAH(&attr), or(p.ctx.noGID(&attr), attr.explain())))
		return nil, e
	}
	return newAH(p, h, attr.target(), h.Destroy), nil
}

func (a *AHAttr) toC() cgo.AHAttr {
	return cgo.AHAttr{
		DGID: a.DGID, FlowLabel: a.FlowLabel, DLID: a.DLID, SGIDIndex: uint8(a.SGIDIndex),
		HopLimit: a.HopLimit, TrafficClass: a.TrafficClass, SL: a.SL, SrcPathBits: a.SrcPathBits,
		StaticRate: a.StaticRate, Global: a.Global, Port: a.Port,
	}
}

func ahAttrOf(c cgo.AHAttr) AHAttr {
	return AHAttr{
		DGID: c.DGID, FlowLabel: c.FlowLabel, DLID: c.DLID, SGIDIndex: int(c.SGIDIndex),
		HopLimit: c.HopLimit, TrafficClass: c.TrafficClass, SL: c.SL, SrcPathBits: c.SrcPathBits,
		StaticRate: c.StaticRate, Global: c.Global, Port: c.Port,
	}
}

// target is the destination for people.
func (a *AHAttr) target() string {
	if a.Global {
		return a.DGID.String()
	}
	return fmt.Sprintf("LID %d", a.DLID)
}

func (a *AHAttr) explain() string {
	switch {
	case a.Port == 0:
		return "Port is 0, ports count from 1"
	case !a.Global && a.DLID == 0:
		return "no destination: RoCE needs Global and DGID, InfiniBand a DLID"
	case a.FlowLabel>>20 != 0:
		return fmt.Sprintf("FlowLabel %#x has more than 20 bits", a.FlowLabel)
	}
	return "to " + a.target()
}

// noGID says that the row of the own GID table that a names is empty, where it is.
func (c *Context) noGID(a *AHAttr) string {
	if !a.Global {
		return ""
	}
	if gid, err := c.QueryGIDOnly(a.Port, a.SGIDIndex); err != nil || !gid.IsZero() {
		return ""
	}
	return fmt.Sprintf("GIDIndex is %d, and port %d of %s has no GID in that row: FindGID gives the row of an address, GIDTable lists all", a.SGIDIndex, a.Port, c.name)
}

func newAH(p *PD, h cgo.AH, target string, destroy func() error) *AH {
	n := newNode(fmt.Sprintf("AH to %s on %s", target, p.ctx.name), nil, p.node)
	return watch(&AH{held: newHeld(n, p), h: h, destroy: destroy}, n)
}

// AHAttrFromWC tells how to answer a datagram: from its completion, and from the
// first GRHSize bytes of its receive buffer. Port is the one it came in by.
//
// Implements: int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
func (c *Context) AHAttrFromWC(wc WC, buf []byte, port uint8) (AHAttr, error) {
	const op = "read AH from completion"
	if err := c.life().enter(op); err != nil {
		return AHAttr{}, err
	}
	defer c.node.leave()
	grh, err := grhOf(op, c.name, &wc, buf)
	if err != nil {
		return AHAttr{}, err
	}
	a, err := c.h.InitAHFromWC(&wc.w, grh, port)
	if err != nil {
		return AHAttr{}, fail(op, c.name, err)
	}
	return ahAttrOf(a), nil
}

// CreateAHFromWC creates an address handle for the sender of a datagram; see
// AHAttrFromWC.
//
// Implements: struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
func (p *PD) CreateAHFromWC(wc WC, buf []byte, port uint8) (*AH, error) {
	const op = "create AH from completion"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	grh, err := grhOf(op, p.node.name, &wc, buf)
	if err != nil {
		return nil, err
	}
	h, err := p.h.CreateAHFromWC(&wc.w, grh, port)
	if err != nil {
		return nil, fail(op, p.node.name, err)
	}
	return newAH(p, h, fmt.Sprintf("the sender of a datagram, QP %d", wc.SrcQP()), h.Destroy), nil
}

// grhOf copies the header, so that C gets memory of a known size.
func grhOf(op, object string, wc *WC, buf []byte) (*[GRHSize]byte, error) {
	if !wc.OK() || wc.Opcode() != WCRecv {
		return nil, invalid(op, object, ErrInvalid, "not the completion of a received datagram")
	}
	if len(buf) < GRHSize {
		return nil, invalid(op, object, ErrInvalid, "%d bytes of the receive buffer, the header has %d", len(buf), GRHSize)
	}
	grh := [GRHSize]byte(buf)
	return &grh, nil
}

// Close destroys the address handle. It refuses with ErrBusy while a request
// that uses it is in flight.
//
// Implements: int ibv_destroy_ah(struct ibv_ah *ah)
func (a *AH) Close() error {
	return a.life().close(func() error { return a.closeWith("destroy AH", a.destroy) })
}
