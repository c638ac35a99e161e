package ibv

import (
	"errors"
	"fmt"

	"github.com/railbind/railbind/cgo"
)

// QPType is the service that a queue pair gives. The zero value means RC.
type QPType uint32

// Services of queue pairs.
const (
	RC        QPType = 2  // reliable, connected
	UC        QPType = 3  // connected; what is lost is lost
	UD        QPType = 4  // datagrams of at most a packet
	RawPacket QPType = 8  // Ethernet frames; needs CAP_NET_RAW
	XRCSend   QPType = 9  // the initiator of an extended reliable connection
	XRCRecv   QPType = 10 // its target, which receives into the domain's SRQs
)

func (t QPType) String() string {
	return name("QPType", map[QPType]string{0: "RC", RC: "RC", UC: "UC", UD: "UD", RawPacket: "raw packet",
		XRCSend: "XRC send", XRCRecv: "XRC receive"}, t)
}

// prefix makes the name of a queue pair that is none of the usual ones.
func (t QPType) prefix() string {
	if t == RC {
		return ""
	}
	return t.String() + " "
}

// Bits of DeviceAttr.CapFlags.
const (
	capMemWindow     = 1 << 17
	capXRC           = 1 << 20
	capMemExtensions = 1 << 21
	capMemWindow2A   = 1 << 23
	capMemWindow2B   = 1 << 24
)

// Bits of DeviceAttrEx.CapFlagsEx.
const (
	capFlushGlobal     = 1 << 38
	capFlushPersistent = 1 << 39
	capAtomicWrite     = 1 << 40
)

// wrOpcode is the C opcode of each operation.
var wrOpcode = [...]uint32{
	OpSend: cgo.WRSend, OpSendImm: cgo.WRSendImm, OpWrite: cgo.WRWrite, OpWriteImm: cgo.WRWriteImm, OpRead: cgo.WRRead,
	OpCompareSwap: cgo.WRCompSwap, OpFetchAdd: cgo.WRFetchAdd, OpSendInv: cgo.WRSendInv, OpLocalInv: cgo.WRLocalInv,
	OpBindMW: cgo.WRBindMW, OpAtomicWrite: cgo.WRAtomicWrite, OpTSO: cgo.WRTSO, OpFlush: cgo.WRFlush,
}

// rcOnly says why a device has no queue pairs of type t at all, or "".
func rcOnly(transport Transport, t QPType) string {
	if transport != TransportIWARP || t == RC {
		return ""
	}
	return fmt.Sprintf("iWARP has RC queue pairs only, not %v", t)
}

// lack says why a queue pair of type t cannot do op on a device, or "".
func lack(transport Transport, lim *limits, t QPType, op Opcode) string {
	dev := &lim.dev
	iwarp := transport == TransportIWARP
	switch {
	case t == XRCSend && dev.CapFlags&capXRC == 0:
		return "the device has no XRC"
	case t == XRCRecv:
		return "the target of an XRC sends nothing"
	case rcOnly(transport, t) != "":
		return rcOnly(transport, t)
	}
	switch op {
	case OpSend:
		return ""
	case OpSendImm:
		if iwarp {
			return "iWARP has no immediate data"
		}
		if t == RawPacket {
			return "a frame has no immediate data"
		}
		return ""
	}
	if op == OpTSO {
		return lackTSO(&lim.tso, t)
	}
	if t == UD || t == RawPacket {
		return fmt.Sprintf("%v does SEND only, not %v", t, op)
	}
	switch op {
	case OpWriteImm:
		if iwarp {
			return "iWARP has no immediate data"
		}
	case OpRead:
		if t == UC {
			return "UC has no READ"
		}
	case OpCompareSwap, OpFetchAdd:
		switch {
		case iwarp:
			return "iWARP has no atomics"
		case t == UC:
			return "UC has no atomics"
		case dev.AtomicCap == AtomicNone:
			return "the device has no atomics"
		}
	case OpSendInv, OpLocalInv:
		if dev.CapFlags&(capMemExtensions|capMemWindow2A|capMemWindow2B) == 0 {
			return "the device cannot invalidate"
		}
	case OpBindMW:
		if dev.CapFlags&(capMemWindow|capMemWindow2A|capMemWindow2B) == 0 {
			return "the device has no memory windows"
		}
	case OpAtomicWrite:
		switch {
		case t == UC:
			return "UC has no atomics"
		case lim.flags&capAtomicWrite == 0:
			return "the device has no atomic writes"
		}
	case OpFlush:
		switch {
		case t == UC:
			return "UC has no FLUSH"
		case lim.flags&(capFlushGlobal|capFlushPersistent) == 0:
			return "the device has no FLUSH"
		}
	}
	return ""
}

// Can tells beforehand whether queue pairs of type t (zero: RC) can do op on the
// device: nil, or an error that matches errors.ErrUnsupported and says why not.
// The builders of SendBatch give the same error.
func (c *Context) Can(t QPType, op Opcode) error {
	const what = "query capability"
	if err := c.life().enter(what); err != nil {
		return err
	}
	defer c.node.leave()
	lim, err := c.known()
	if err != nil {
		return err
	}
	if s := lack(c.transport(), lim, or(t, RC), op); s != "" {
		return invalid(what, c.name, errors.ErrUnsupported, "%s", s)
	}
	return nil
}

func (c *Context) transport() Transport { return Transport(c.h.Transport()) }

// opsOf is what a queue pair can do, a bit for each C opcode.
func opsOf(transport Transport, lim *limits, t QPType) (mask uint32) {
	for op, wr := range wrOpcode {
		if lack(transport, lim, t, Opcode(op)) == "" {
			mask |= 1 << wr
		}
	}
	return mask
}

// cannot is the refusal of an operation that the queue pair does not have.
func (q *QP) cannot(wr uint32) error {
	for op, w := range wrOpcode {
		if w != wr {
			continue
		}
		lim, err := q.pd.ctx.known()
		if err != nil {
			return err
		}
		return invalid("set request", q.node.name, errors.ErrUnsupported, "%s",
			or(lack(q.pd.ctx.transport(), lim, q.typ, Opcode(op)), notMadeFor(Opcode(op))))
	}
	return invalid("set request", q.node.name, ErrInvalid, "opcode %d", wr)
}
