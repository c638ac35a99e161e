package ibv

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// WCFields are what completions of an extended CQ say beyond WC.
type WCFields uint64

// Fields of extended completions. Which ones there are is the device's matter.
const (
	WithTimestamp WCFields = 1 << 7  // WCExtra.Timestamp
	WithCVLAN     WCFields = 1 << 8  // WCExtra.CVLAN
	WithFlowTag   WCFields = 1 << 9  // WCExtra.FlowTag
	WithTag       WCFields = 1 << 10 // WCExtra.Tag and TagPriv
	WithWallclock WCFields = 1 << 11 // WCExtra.Wallclock
)

// WCExtra is what an extended completion says beyond WC; 0 where it does not.
type WCExtra struct{ x cgo.WCExtra }

// Timestamp is when the request completed, by the device's clock.
func (e *WCExtra) Timestamp() uint64 { return e.x.Timestamp }

// Wallclock is when the request completed, by the device's idea of the time.
func (e *WCExtra) Wallclock() time.Time { return time.Unix(0, int64(e.x.Wallclock)) }

// CVLAN is the VLAN tag of a received frame.
func (e *WCExtra) CVLAN() uint16 { return e.x.CVLAN }

// FlowTag is what the flow says that took a received frame.
func (e *WCExtra) FlowTag() uint32 { return e.x.FlowTag }

// Tag is the tag of a message that an SRQ has matched, and what came with it.
func (e *WCExtra) Tag() (tag uint64, priv uint32) { return e.x.Tag, e.x.TagPriv }

// createEx creates the handle of an extended CQ.
func (c *Context) createEx(cfg *CQConfig, cookie uint64, ch cgo.CompChannel) (cgo.CQ, error) {
	a := cgo.CQInitAttr{CQE: cfg.Size, Vector: cfg.Vector, Fields: uint64(cfg.Fields) | cgo.WCStandard}
	if cfg.IgnoreOverrun {
		a.Flags = 1 << 1
	}
	return c.h.CreateCQEx(&a, cookie, ch)
}

// PollEx is Poll of an extended CQ, with what its completions say beyond WC: it
// takes up to the shorter slice's length. One crossing starts, steps and ends the
// device's way of polling; it does not allocate.
//
// Implements: int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
// and int ibv_next_poll(struct ibv_cq_ex *cq)
// and void ibv_end_poll(struct ibv_cq_ex *cq)
func (c *CQ) PollEx(wcs []WC, extra []WCExtra) (int, error) {
	if c == nil || c.rec == nil {
		return 0, errNilCQ
	}
	if !c.extended {
		return 0, &Error{Op: "poll", Object: c.node.name, Kind: ErrInvalid, Hint: "it was not made with CQConfig.Extended"}
	}
	room := min(len(wcs), len(extra))
	if room == 0 {
		return 0, nil
	}
	n := c.rec.PollEx((*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), (*cgo.WCExtra)(unsafe.Pointer(unsafe.SliceData(extra))), room)
	if n < 0 {
		return 0, c.pollError(n)
	}
	return n, nil
}

// Resize changes how many completions the CQ has room for; the device may grant
// more, see Size. What it holds stays.
//
// Implements: int ibv_resize_cq(struct ibv_cq *cq, int cqe)
func (c *CQ) Resize(size int) error {
	const op = "resize CQ"
	if err := c.life().enter(op); err != nil {
		return err
	}
	defer c.node.leave()
	if size <= 0 || size > 1<<30 {
		return invalid(op, c.node.name, ErrInvalid, "size %d", size)
	}
	if err := c.rec.Resize(size); err != nil {
		return c.ctx.cqError(op, c.node.name, err, limitOf{"Size", size, 0})
	}
	c.size.Store(int64(c.h.Size()))
	return nil
}

// cqError names what is beyond the device's limits; that of Size is looked up.
func (c *Context) cqError(op, object string, err error, asked ...limitOf) error {
	e := fail(op, object, err)
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
		return e
	}
	if lim, lerr := c.known(); lerr == nil {
		asked[len(asked)-1].on = lim.dev.MaxCQE
		e.Hint = beyond("", asked...)
	}
	return e
}

// Moderate lets the CQ raise its event only once count completions are there, or
// period (in whole microseconds) after the first of them. Both have 16 bits.
// Soft-RoCE and soft-iWARP have no such thing: errors.ErrUnsupported.
//
// Implements: int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
func (c *CQ) Moderate(count int, period time.Duration) error {
	const op = "moderate CQ"
	if err := c.life().enter(op); err != nil {
		return err
	}
	defer c.node.leave()
	us := period.Microseconds()
	if count < 0 || count > 0xffff || us < 0 || us > 0xffff {
		return invalid(op, c.node.name, ErrInvalid, "count %d, period %v: both have 16 bits", count, period)
	}
	if err := c.h.Moderate(uint16(count), uint16(us)); err != nil {
		return fail(op, c.node.name, err)
	}
	return nil
}

// poison ends the use of a CQ that lost completions: Poll and Wait fail with
// ErrCQFailed from now on, instead of waiting for what will not come.
func (c *CQ) poison() {
	c.rec.Poison()
	if c.bell != nil {
		c.bell.fail(c.errFailed)
	}
}
