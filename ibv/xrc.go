package ibv

import (
	"errors"
	"os"
	"runtime"

	"github.com/railbind/railbind/cgo"
)

// XRCD is a domain of extended reliable connections: whoever connects to a target
// queue pair of the domain can send into every SRQ of it. Safe for concurrent use.
type XRCD struct {
	node *node
	h    cgo.XRCD
	ctx  *Context
}

func (x *XRCD) life() *node {
	if x == nil {
		return nil
	}
	return x.node
}

// OpenXRCD opens a domain. Processes that give the same file share one; without
// a file, the domain is the process's own. Soft-RoCE and iWARP have no XRC: the
// error matches errors.ErrUnsupported.
//
// Implements: struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *xrcd_init_attr)
func (c *Context) OpenXRCD(file *os.File) (*XRCD, error) {
	const op = "open XRC domain"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	lim, err := c.known()
	if err != nil {
		return nil, err
	}
	if lim.dev.CapFlags&capXRC == 0 {
		return nil, invalid(op, c.name, errors.ErrUnsupported, "the device has no XRC")
	}
	fd := -1
	if file != nil {
		fd = int(file.Fd())
	}
	h, err := c.h.OpenXRCD(fd, os.O_CREATE)
	runtime.KeepAlive(file)
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	n := newNode("XRC domain on "+c.name, nil, c.node)
	return watch(&XRCD{node: n, h: h, ctx: c}, n), nil
}

// Close closes the domain; a *BusyError names the queue pairs and SRQs of this
// process that are left in it.
//
// Implements: int ibv_close_xrcd(struct ibv_xrcd *xrcd)
func (x *XRCD) Close() error {
	return x.life().close(func() error {
		if err := x.h.Close(); err != nil {
			return fail("close XRC domain", x.node.name, err)
		}
		return nil
	})
}

// OpenQP opens the XRC target queue pair with number num, which another process
// of the domain made, so that it lives as long as one of them wants it. It is
// there to be modified, queried and closed; what it receives goes to SRQs.
//
// Implements: struct ibv_qp *ibv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *qp_open_attr)
func (x *XRCD) OpenQP(pd *PD, num uint32) (*QP, error) {
	const op = "open QP"
	if err := x.life().enter(op); err != nil {
		return nil, err
	}
	defer x.node.leave()
	var h cgo.QP
	return NewQP(x.ctx, pd, QPConfig{Type: XRCRecv, XRCD: x},
		func(cgo.PD, *cgo.QPInitAttr) (_ cgo.QP, err error) {
			h, err = x.ctx.h.OpenQP(x.h, num, uint32(XRCRecv))
			return h, err
		},
		func() error { return h.Destroy() })
}

// SetSRQ sets which of the peer's SRQs request i of an XRC queue pair goes to, by
// its Number. It outlives a change of the operation.
func (b *SendBatch) SetSRQ(i int, number uint32) error {
	const op = "set SRQ"
	if err := b.base().check(op, i); err != nil {
		return err
	}
	if b.qp.typ != XRCSend {
		return invalid(op, b.q.node.name, ErrInvalid, "%v is no XRC initiator", b.qp.typ)
	}
	b.wrs[i].SetXRC(number)
	runtime.KeepAlive(b.mem)
	return nil
}
