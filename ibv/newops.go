package ibv

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// AtomicWrite makes request i a WRITE of the 64-bit word value, in host order, to
// the peer's memory at r, aligned to 8 bytes: whoever reads the word there sees
// all of it or nothing. It counts among the READs and atomics in flight. It needs
// QPConfig.ExtendedPost, and a device that has it (Context.Can): Soft-RoCE from
// kernel 6.2 on.
func (b *SendBatch) AtomicWrite(i int, r Remote, value uint64) error {
	const op = "ATOMIC WRITE"
	if err := b.local(op, i, cgo.WRAtomicWrite, 0, nil); err != nil {
		return err
	}
	if r.Addr%8 != 0 {
		b.clear(i)
		return invalid(op, b.q.node.name, ErrInvalid, "request %d: the remote address %#x is not aligned to 8", i, r.Addr)
	}
	b.wrs[i].SetAtomic(r.Addr, r.RKey, value, 0)
	runtime.KeepAlive(b.mem)
	return nil
}

// Flush makes request i a FLUSH: it completes when what was written before it to
// length bytes of the peer's memory at r (0: to the whole region of r's key) is as
// good as how says: seen by everybody there (FlushGlobal), durable
// (FlushPersistent). The peer's region and queue pair must allow how (Access). It
// counts among the READs and atomics in flight. It needs QPConfig.ExtendedPost,
// and a device that has it (Context.Can): Soft-RoCE from kernel 6.2 on, which makes
// durable what is persistent memory.
func (b *SendBatch) Flush(i int, r Remote, length int, how Access) error {
	const op = "FLUSH"
	if err := b.local(op, i, cgo.WRFlush, 0, nil); err != nil {
		return err
	}
	switch {
	case how == 0 || how&^(FlushGlobal|FlushPersistent) != 0:
		b.clear(i)
		return invalid(op, b.q.node.name, ErrInvalid, "request %d: %v is neither FlushGlobal nor FlushPersistent", i, how)
	case length < 0:
		b.clear(i)
		return invalid(op, b.q.node.name, ErrInvalid, "request %d: %d bytes", i, length)
	case uint64(length) > maxLength:
		b.clear(i)
		return b.tooLong(op, i, uint64(length), maxLength)
	}
	const ofRange, ofRegion = 0, 1
	selectivity := uint8(ofRange)
	if length == 0 {
		selectivity = ofRegion
	}
	b.wrs[i].SetFlush(r.Addr, r.RKey, uint32(length), uint8(how/FlushGlobal), selectivity)
	runtime.KeepAlive(b.mem)
	return nil
}

// SendTSO makes request i a SEND that the device cuts into TCP segments of mss
// bytes of data each, and puts header, Ethernet's to TCP's, before every one of
// them, with lengths, numbers and checksums set right. The header is copied into
// the batch, which needs BatchConfig.Inline for it. It needs
// QPConfig.MaxTSOHeader, and a device that has it (Context.Can, DeviceAttrEx.TSO);
// no software device has.
func (b *SendBatch) SendTSO(i int, header []byte, mss int, sges ...SGE) error {
	const op = "TSO"
	if err := b.local(op, i, cgo.WRTSO, 0, sges); err != nil {
		return err
	}
	switch {
	case len(header) == 0 || len(header) > min(b.room, b.qp.maxHeader):
		b.clear(i)
		return invalid(op, b.q.node.name, ErrInlineTooLong, "request %d: a header of %d bytes, the batch has room for %d, the queue pair for %d",
			i, len(header), b.room, b.qp.maxHeader)
	case mss <= 0 || mss > math.MaxUint16:
		b.clear(i)
		return invalid(op, b.q.node.name, ErrInvalid, "request %d: segments of %d bytes", i, mss)
	}
	at := b.inline[i*b.room:]
	copy(at, header)
	b.wrs[i].SetTSO(uintptr(unsafe.Pointer(unsafe.SliceData(at))), uint16(len(header)), uint16(mss))
	runtime.KeepAlive(b.mem)
	return nil
}

func lackTSO(c *TSOCaps, t QPType) string {
	if c.MaxTSO == 0 || !c.QPTypes.Has(t) {
		return "the device does not segment for " + t.String()
	}
	return ""
}

// ops is what a queue pair of this configuration can do on the device.
func (cfg *QPConfig) ops(ctx *Context, lim *limits) uint32 {
	ops := opsOf(ctx.transport(), lim, or(cfg.Type, RC))
	if !cfg.ExtendedPost {
		ops &^= 1<<cgo.WRAtomicWrite | 1<<cgo.WRFlush
	}
	if cfg.MaxTSOHeader == 0 {
		ops &^= 1 << cgo.WRTSO
	}
	return ops
}

// sendOps are those operations as a queue pair is asked to have them, enum
// ibv_qp_create_send_ops_flags: the same bits, but for those of the newest.
func sendOps(ops uint32) uint64 {
	for _, b := range [...][2]uint32{{1 << cgo.WRFlush, 1 << 11}, {1 << cgo.WRAtomicWrite, 1 << 12}} {
		if ops&b[0] != 0 {
			ops ^= b[0] | b[1]
		}
	}
	return uint64(ops)
}

// notMadeFor says what a queue pair lacks on a device that can.
func notMadeFor(op Opcode) string {
	if op == OpTSO {
		return "the queue pair was made without QPConfig.MaxTSOHeader"
	}
	return "the queue pair was made without QPConfig.ExtendedPost"
}

// most is how many bytes a request may carry.
func (q *QP) most(opcode uint32) uint64 {
	if opcode == cgo.WRTSO {
		return uint64(q.maxTSO)
	}
	return uint64(q.maxMsg.Load())
}
