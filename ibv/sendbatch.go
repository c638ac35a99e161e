package ibv

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// SendBatch is a chain of requests for the send queue of one QP. It is prepared
// once; later only the fields that change are set, and Post takes the whole
// chain to the device in one crossing without allocating. Posting copies, so
// that the batch may be changed and posted again at once.
//
// A batch is for one goroutine at a time. It needs no Close.
//
// A new request is empty: Post refuses the batch until each request in its
// range was given an operation. IDs are 0 and flags are 0, which means
// signalled, until they are set; both outlive a change of the operation.
type SendBatch struct {
	batch
	qp     *QP
	wrs    []cgo.SendWR
	inline []byte
	room   int  // inline bytes of each request
	dirty  bool // what the header says of the range is out of date
	run    atomic.Pointer[engine]
	whole  bool   // each request has an operation, and reads counts
	reads  uint32 // the READs and atomics among them

	binds   bool  // some request binds a window, or did
	windows []*MW // which one each binds
}

// SendFlags modify a request on the send queue; the zero value is signalled, not
// fenced, not solicited.
type SendFlags uint32

// Flags of sends.
const (
	// Fence waits for the READs and atomics before it.
	Fence SendFlags = cgo.SendFence
	// Unsignaled asks for no completion where the request succeeds. At least one
	// request in MaxSend must be signalled, or the queue never drains.
	Unsignaled SendFlags = cgo.SendSignaled
	// Solicited wakes a receiver whose CQ waits for solicited messages only.
	Solicited SendFlags = cgo.SendSolicited
)

const (
	allFlags = Fence | Unsignaled | Solicited
	unset    = math.MaxUint32 // opcode of a request without an operation
)

// NewSendBatch makes a batch for the queue pair's send queue.
func (q *QP) NewSendBatch(cfg BatchConfig) (*SendBatch, error) {
	const op = "make send batch"
	if err := q.life().enter(op); err != nil {
		return nil, err
	}
	defer q.node.leave()
	if err := cfg.check(op, q.node.name, q.caps.MaxSendSGE, max(q.caps.MaxInline, q.maxHeader)); err != nil {
		return nil, err
	}
	// Inline data is one SGE, of the batch's own memory.
	cfg.SGEs = max(cfg.SGEs, 1)
	b := &SendBatch{qp: q, room: cfg.Inline, dirty: true}
	wrs, inline, err := b.init(&q.poster, cfg, unsafe.Sizeof(cgo.SendWR{}))
	if err != nil {
		return nil, err
	}
	b.wrs = unsafe.Slice((*cgo.SendWR)(wrs), b.n)
	b.inline = unsafe.Slice((*byte)(inline), b.n*b.room)
	for i := range b.wrs {
		w := &b.wrs[i]
		w.Opcode = unset
		w.Flags = cgo.SendSignaled
	}
	return b, nil
}

// base is the common part, nil for a nil batch.
func (b *SendBatch) base() *batch {
	if b == nil {
		return nil
	}
	return &b.batch
}

// Len is how many requests the batch has.
func (b *SendBatch) Len() int {
	if b == nil {
		return 0
	}
	return b.n
}

// Send makes request i a SEND of the given memory.
func (b *SendBatch) Send(i int, sges ...SGE) error { return b.local("SEND", i, cgo.WRSend, 0, sges) }

// SendImm makes request i a SEND with immediate data, given in host order.
func (b *SendBatch) SendImm(i int, imm uint32, sges ...SGE) error {
	return b.imm("SEND with immediate", i, cgo.WRSendImm, imm, sges)
}

// Write makes request i an RDMA WRITE of the given memory to r.
func (b *SendBatch) Write(i int, r Remote, sges ...SGE) error {
	if err := b.local("WRITE", i, cgo.WRWrite, 0, sges); err != nil {
		return err
	}
	b.wrs[i].SetRDMA(r.Addr, r.RKey)
	runtime.KeepAlive(b.mem)
	return nil
}

// WriteImm makes request i an RDMA WRITE with immediate data, given in host
// order, which takes one of the peer's receives.
func (b *SendBatch) WriteImm(i int, r Remote, imm uint32, sges ...SGE) error {
	if err := b.imm("WRITE with immediate", i, cgo.WRWriteImm, imm, sges); err != nil {
		return err
	}
	b.wrs[i].SetRDMA(r.Addr, r.RKey)
	runtime.KeepAlive(b.mem)
	return nil
}

// Read makes request i an RDMA READ from r into the given memory, which needs
// LocalWrite.
func (b *SendBatch) Read(i int, r Remote, sges ...SGE) error {
	if err := b.local("READ", i, cgo.WRRead, LocalWrite, sges); err != nil {
		return err
	}
	b.wrs[i].SetRDMA(r.Addr, r.RKey)
	runtime.KeepAlive(b.mem)
	return nil
}

// CompareSwap makes request i an atomic that puts swap in the peer's 64-bit word
// at r if that is compare. The word as it was goes to result, 8 bytes with
// LocalWrite, in host order. r must be aligned to 8 bytes.
func (b *SendBatch) CompareSwap(i int, r Remote, compare, swap uint64, result SGE) error {
	return b.atomic("COMPARE AND SWAP", i, cgo.WRCompSwap, r, compare, swap, result)
}

// FetchAdd makes request i an atomic that adds to the peer's 64-bit word at r;
// see CompareSwap.
func (b *SendBatch) FetchAdd(i int, r Remote, add uint64, result SGE) error {
	return b.atomic("FETCH AND ADD", i, cgo.WRFetchAdd, r, add, 0, result)
}

// SendInline makes request i a SEND of data, copied into the batch now and into
// the request at Post: no memory region is needed. See BatchConfig.Inline.
func (b *SendBatch) SendInline(i int, data ...[]byte) error {
	return b.inlined("SEND", i, cgo.WRSend, data)
}

// WriteInline makes request i an RDMA WRITE of data to r; see SendInline.
func (b *SendBatch) WriteInline(i int, r Remote, data ...[]byte) error {
	if err := b.inlined("WRITE", i, cgo.WRWrite, data); err != nil {
		return err
	}
	b.wrs[i].SetRDMA(r.Addr, r.RKey)
	runtime.KeepAlive(b.mem)
	return nil
}

// SetID sets the ID that request i's completion will carry: 64 bits that are the
// program's own. Like the other one-field setters it panics where i is no
// request of the batch, as a slice would.
func (b *SendBatch) SetID(i int, id uint64) {
	b.wrs[i].ID = id
	runtime.KeepAlive(b.mem)
}

// SetIDs sets the IDs of n requests, from index from on, to first and the numbers
// after it. Like the other setters of ranges it costs a fraction of as many
// calls for one request each. It panics where the range leaves the batch.
func (b *SendBatch) SetIDs(from, n int, first uint64) { b.base().setIDs(from, n, first) }

// SetFlags sets the flags of request i.
func (b *SendBatch) SetFlags(i int, f SendFlags) {
	w := &b.wrs[i]
	flags := uint32(f&allFlags) ^ cgo.SendSignaled | w.Flags&cgo.SendInline
	if flags != w.Flags {
		w.Flags = flags
		b.dirty = true
	}
	runtime.KeepAlive(b.mem)
}

// SetImm changes the immediate data of request i, given in host order.
func (b *SendBatch) SetImm(i int, imm uint32) {
	binary.BigEndian.PutUint32(b.wrs[i].Imm[:], imm)
	runtime.KeepAlive(b.mem)
}

// SetRemote changes the address of request i's remote memory, under the same key.
func (b *SendBatch) SetRemote(i int, addr uint64) {
	b.wrs[i].SetRemoteAddr(addr)
	runtime.KeepAlive(b.mem)
}

// SetOffset moves the first SGE of request i within its region; the length
// stays. The error is ErrOutOfRange itself, also where there is no such request, or
// it has no SGE.
func (b *SendBatch) SetOffset(i, offset int) error {
	if b == nil || uint(i) >= uint(b.n) {
		return ErrOutOfRange
	}
	r := &b.refs[i*b.per]
	if uint(offset) >= r.spots {
		return ErrOutOfRange
	}
	r.sge.Addr = r.base + uint64(offset)
	runtime.KeepAlive(b.mem)
	return nil
}

// SetOffsets is SetOffset of n requests, from index from on: the first of them
// moves to offset, each later one stride bytes further, as the slots of a ring lie. On
// ErrOutOfRange none has moved.
func (b *SendBatch) SetOffsets(from, n, offset, stride int) error {
	return b.base().setOffsets(from, n, offset, stride)
}

// SetLocal moves SGE j of request i within its region and changes its length,
// which must not become 0.
func (b *SendBatch) SetLocal(i, j, offset, length int) error {
	const op = "move SGE"
	if err := b.base().check(op, i); err != nil {
		return err
	}
	if uint(j) >= uint(b.per) || b.refs[i*b.per+j].use == nil {
		return invalid(op, b.q.node.name, ErrInvalid, "request %d has no SGE %d", i, j)
	}
	k := i*b.per + j
	m := b.refs[k].use.mr
	s := SGE{m, offset, length}
	if !inside(offset, length, m.size) {
		return b.outOfRange(op, i, s)
	}
	if err := b.resize(op, i, j, length); err != nil {
		return err
	}
	return b.setSGE(op, i, k, s, 0)
}

// resize checks a new length of one SGE: the message must stay within bounds.
func (b *SendBatch) resize(op string, i, j, length int) error {
	w := &b.wrs[i]
	if w.Opcode == cgo.WRCompSwap || w.Opcode == cgo.WRFetchAdd {
		return invalid(op, b.q.node.name, ErrInvalid, "an atomic's result has 8 bytes, not %d", length)
	}
	if length == 0 {
		return invalid(op, b.q.node.name, ErrInvalid, "an empty SGE: set the operation anew")
	}
	if total, most := b.besides(i, j)+uint64(length), b.qp.most(w.Opcode); total > most {
		return b.tooLong(op, i, total, most)
	}
	return nil
}

// local sets an operation over local memory. On an error the request keeps no
// operation, so that a half-set one is never posted.
func (b *SendBatch) local(op string, i int, opcode uint32, need Access, sges []SGE) error {
	if err := b.base().check(op, i); err != nil {
		return err
	}
	if b.qp.ops>>opcode&1 == 0 {
		return b.qp.cannot(opcode)
	}
	w := &b.wrs[i]
	if w.Opcode != opcode || w.Flags&cgo.SendInline != 0 {
		w.Opcode = unset
		w.Flags &^= cgo.SendInline
		b.dirty, b.whole = true, false
	}
	k, total := i*b.per, uint64(0)
	end := k + b.per
	for _, s := range sges {
		if s.Length == 0 {
			// Some devices take an empty entry for 2 GiB.
			continue
		}
		if k == end {
			b.clear(i)
			return invalid(op, b.q.node.name, ErrTooManySGE, "request %d: %d, the batch has room for %d", i, len(sges), b.per)
		}
		if err := b.setSGE(op, i, k, s, need); err != nil {
			b.clear(i)
			return err
		}
		total += uint64(s.Length)
		k++
	}
	if most := b.qp.most(opcode); total > most {
		b.clear(i)
		return b.tooLong(op, i, total, most)
	}
	w.NumSGE = int32(k - i*b.per)
	for ; k < end; k++ {
		b.unbind(k)
	}
	w.Opcode = opcode
	runtime.KeepAlive(b.mem)
	return nil
}

// clear takes request i's operation away.
func (b *SendBatch) clear(i int) {
	b.wrs[i].Opcode = unset
	b.wrs[i].NumSGE = 0
	for k := i * b.per; k < (i+1)*b.per; k++ {
		b.unbind(k)
	}
	b.dirty, b.whole = true, false
}

func (b *SendBatch) imm(op string, i int, opcode, imm uint32, sges []SGE) error {
	if err := b.local(op, i, opcode, 0, sges); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(b.wrs[i].Imm[:], imm)
	runtime.KeepAlive(b.mem)
	return nil
}

func (b *SendBatch) atomic(op string, i int, opcode uint32, r Remote, compareAdd, swap uint64, result SGE) error {
	if b != nil && b.qp != nil && b.qp.ops>>opcode&1 == 0 {
		return b.qp.cannot(opcode)
	}
	if result.Length != 8 || r.Addr%8 != 0 {
		return invalid(op, "request", ErrInvalid, "the result must have 8 bytes, not %d, and the remote address %#x be aligned to 8",
			result.Length, r.Addr)
	}
	one := [1]SGE{result}
	if err := b.local(op, i, opcode, LocalWrite, one[:]); err != nil {
		return err
	}
	b.wrs[i].SetAtomic(r.Addr, r.RKey, compareAdd, swap)
	runtime.KeepAlive(b.mem)
	return nil
}

func (b *SendBatch) inlined(op string, i int, opcode uint32, data [][]byte) error {
	if err := b.base().check(op, i); err != nil {
		return err
	}
	if b.qp.ops>>opcode&1 == 0 {
		return b.qp.cannot(opcode)
	}
	total := 0
	for _, d := range data {
		total += len(d)
	}
	if room := min(b.room, b.qp.caps.MaxInline); total > room {
		b.clear(i)
		return invalid(op, b.q.node.name, ErrInlineTooLong, "request %d: %d bytes, the batch has room for %d", i, total, room)
	}
	w := &b.wrs[i]
	if w.Opcode != opcode || w.Flags&cgo.SendInline == 0 {
		b.clear(i)
		w.Flags |= cgo.SendInline
	}
	w.NumSGE = 0
	if total > 0 {
		at := b.inline[i*b.room:]
		b.sges[i*b.per] = cgo.SGE{Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(at)))), Length: uint32(total)}
		w.NumSGE = 1
		for _, d := range data {
			at = at[copy(at, d):]
		}
	}
	w.Opcode = opcode
	runtime.KeepAlive(b.mem)
	return nil
}

// Post posts the whole batch; see PostRange.
//
// Implements: int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
func (b *SendBatch) Post() (accepted int, err error) { return b.PostRange(0, b.Len()) }

// PostRange posts n requests from index from on, in one crossing. It returns how
// many of them are in flight now, all unless there is an error: ErrQPState
// before RTS, ErrReadDepthZero, ErrQueueFull and ErrClosed are found before the
// device is asked, and nothing is posted then. A provider's own refusal leaves
// those before it in flight; if it does not say where it stopped, all count and
// the error matches ErrAcceptedUnknown.
//
// Implements: int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
func (b *SendBatch) PostRange(from, n int) (accepted int, err error) {
	const op = "post send"
	if b == nil || b.hdr == nil {
		return 0, b.base().span(op, from, n)
	}
	if b.dirty || from != b.from || from+n != b.to {
		if err := b.aim(op, from, n); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	p := cgo.PostSend(b.hdr)
	b.alive()
	if b.binds {
		b.bound(from, int(p.Accepted))
	}
	if p.Why != cgo.Accepted {
		return int(p.Accepted), b.q.refused(op, p, n)
	}
	return n, nil
}

// aim points the header at a range of the requests and counts what it has to
// know of them.
func (b *SendBatch) aim(op string, from, n int) error {
	if err := b.base().span(op, from, n); err != nil {
		return err
	}
	var signaled, tail, reads uint32
	for i := from; i < from+n; i++ {
		w := &b.wrs[i]
		tail++
		if w.Flags&cgo.SendSignaled != 0 {
			signaled++
			tail = 0
		}
		switch w.Opcode {
		case cgo.WRRead, cgo.WRCompSwap, cgo.WRFetchAdd, cgo.WRAtomicWrite, cgo.WRFlush:
			reads++
		case unset:
			return invalid(op, b.q.node.name, ErrInvalid, "request %d has no operation", i)
		}
		if b.qp.typ == UD && (b.extra == nil || b.extra[i] == nil) {
			return invalid(op, b.q.node.name, ErrInvalid, "request %d has no destination: see SetDest", i)
		}
	}
	b.batch.aim(from, n)
	b.dirty = false
	b.hdr.Signaled, b.hdr.Tail, b.hdr.Reads = signaled, tail, reads
	return nil
}
