//go:build linux && cgo

package fakeverbs

// #include "rb_fake.h"
import "C"

import (
	"syscall"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// Alive counts what exists of the kinds that few devices have.
type Alive struct{ XRCDs, SRQs, WQs, Tables, Flows, Counters int }

// Alive is what exists now.
func (d *Device) Alive() Alive {
	q := &d.p.queues
	return Alive{int(q.xrcds), int(q.srqs), int(q.wqs), int(q.tables), int(q.flows), int(q.counters)}
}

// SRQType is the type of the extended SRQ that was made last, and its tags.
func (d *Device) SRQType() (typ, tags uint32) {
	a := &d.p.queues.srq
	return a.srq_type, uint32(a.tm_cap.max_num_tags)
}

// DestroySRQ destroys an SRQ that the device made.
func (d *Device) DestroySRQ(h cgo.SRQ) { C.rb_fake_srq_free((*C.struct_ibv_srq)(h.Pointer())) }

// TagOp is the last change of a list of tags, with its first piece of memory.
func (d *Device) TagOp() (opcode int, op cgo.TagOp) {
	q := &d.p.queues
	w := &q.op
	return int(w.opcode), cgo.TagOp{
		ID: uint64(w.wr_id), Flags: uint32(w.flags), Unexpected: uint32(w.tm.unexpected_cnt), Handle: uint32(w.tm.handle),
		RecvID: uint64(w.tm.add.recv_wr_id), Tag: uint64(w.tm.add.tag), Mask: uint64(w.tm.add.mask),
		SGEs: []cgo.SGE{{Addr: uint64(q.op_sge.addr), Length: uint32(q.op_sge.length), LKey: uint32(q.op_sge.lkey)}},
	}
}

// FailTagOps makes changes of a list of tags fail; 0 ends that.
func (d *Device) FailTagOps(errno syscall.Errno) { d.p.queues.op_errno = C.int(errno) }

// Moderation is how a CQ was moderated last.
func (d *Device) Moderation() (count, period int) {
	m := &d.p.queues.moderate
	return int(m.cq_count), int(m.cq_period)
}

// RateLimit is how a queue pair was limited last.
func (d *Device) RateLimit() (kbps, burst uint32, packet uint16) {
	a := &d.p.queues.rate
	return uint32(a.rate_limit), uint32(a.max_burst_sz), uint16(a.typical_pkt_sz)
}

// WQ is the state that a WQ was moved to last, and how many receives were posted.
func (d *Device) WQ() (state uint32, recvs int) {
	return uint32(d.p.queues.wq_state), int(d.p.queues.wq_recvs)
}

// Flow is the flow made last, as it was described: struct ibv_flow_attr and specs.
func (d *Device) Flow() []byte {
	q := &d.p.queues
	return C.GoBytes(unsafe.Pointer(&q.flow[0]), C.int(q.flow_size))
}

// Point is what was attached to counters last.
func (d *Device) Point() (what, index uint32) {
	return uint32(d.p.queues.point), uint32(d.p.queues.point_index)
}

// SetCount sets what the first of a set of counters reads.
func (d *Device) SetCount(v uint64) { d.p.queues.value = C.uint64_t(v) }
