package ibv

import (
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// RecvBatch is a chain of receives for one QP; what SendBatch says of
// preparation and reuse holds for it too. A new request has no memory and takes
// messages without data only.
type RecvBatch struct {
	batch
	wrs      []cgo.RecvWR
	from, to int
}

// NewRecvBatch makes a batch for the queue pair's receive queue.
func (q *QP) NewRecvBatch(cfg BatchConfig) (*RecvBatch, error) {
	const op = "make receive batch"
	if err := q.life().enter(op); err != nil {
		return nil, err
	}
	defer q.node.leave()
	cfg.Inline = 0
	if err := cfg.check(op, q, q.caps, q.caps.MaxRecvSGE); err != nil {
		return nil, err
	}
	cfg.SGEs = max(cfg.SGEs, 1)
	b := &RecvBatch{from: -1}
	wrs, _, err := b.init(q, cfg, unsafe.Sizeof(cgo.RecvWR{}))
	if err != nil {
		return nil, err
	}
	b.wrs = unsafe.Slice((*cgo.RecvWR)(wrs), b.n)
	for i := range b.wrs {
		b.wrs[i].SGList = uintptr(unsafe.Pointer(&b.sges[i*b.per]))
		b.link(i)
	}
	return b, nil
}

func (b *RecvBatch) link(i int) {
	b.wrs[i].Next = 0
	if i+1 < b.n {
		b.wrs[i].Next = uintptr(unsafe.Pointer(&b.wrs[i+1]))
	}
}

// Recv gives request i the memory that a message goes to, which needs LocalWrite.
func (b *RecvBatch) Recv(i int, sges ...SGE) error {
	const op = "RECV"
	if err := b.check(op, i); err != nil {
		return err
	}
	k := i * b.per
	end := k + b.per
	b.wrs[i].NumSGE = 0
	for _, s := range sges {
		if s.Length == 0 {
			continue // some devices take an empty entry for 2 GiB
		}
		if k == end {
			return invalid(op, b.q.node.name, ErrTooManySGE, "request %d: %d, the batch has room for %d", i, len(sges), b.per)
		}
		if err := b.setSGE(op, i, k, s, LocalWrite); err != nil {
			return err
		}
		k++
	}
	b.wrs[i].NumSGE = int32(k - i*b.per)
	for ; k < end; k++ {
		b.unbind(k)
	}
	return nil
}

// SetID sets the ID that request i's completion will carry.
func (b *RecvBatch) SetID(i int, id uint64) { b.wrs[i].ID = id }

// SetLocal moves SGE j of request i within its region.
func (b *RecvBatch) SetLocal(i, j, offset, length int) error {
	const op = "move SGE"
	if err := b.check(op, i); err != nil {
		return err
	}
	if uint(j) >= uint(b.wrs[i].NumSGE) || length == 0 {
		return invalid(op, b.q.node.name, ErrInvalid, "request %d has no SGE %d, or it would be empty", i, j)
	}
	k := i*b.per + j
	m := b.refs[k].mr
	if uint(offset) > uint(len(m.mem)) || uint(length) > uint(len(m.mem)-offset) {
		return b.outOfRange(op, i, SGE{m, offset, length})
	}
	b.sges[k].Addr = m.addr + uint64(offset)
	b.sges[k].Length = uint32(length)
	return nil
}

// Post posts the whole batch; see PostRange.
//
// Implements: int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
func (b *RecvBatch) Post() (accepted int, err error) { return b.PostRange(0, b.Len()) }

// PostRange posts n receives from index from on, in one crossing. They are legal
// from INIT on. It returns how many are posted now; see SendBatch.PostRange.
//
// Implements: int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
func (b *RecvBatch) PostRange(from, n int) (accepted int, err error) {
	const op = "post receive"
	if b == nil || b.hdr == nil {
		return 0, b.span(op, from, n)
	}
	if from != b.from || from+n != b.to {
		if err := b.aim(op, from, n); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	p := cgo.PostRecv(b.hdr)
	b.alive()
	if p.Why != cgo.Accepted {
		return int(p.Accepted), b.q.postError(op, p, n)
	}
	return n, nil
}

func (b *RecvBatch) aim(op string, from, n int) error {
	if err := b.span(op, from, n); err != nil {
		return err
	}
	if b.to > 0 {
		b.link(b.to - 1)
	}
	b.from, b.to = from, from+n
	if n == 0 {
		return nil
	}
	b.wrs[b.to-1].Next = 0
	b.hdr.First = uintptr(unsafe.Pointer(&b.wrs[from]))
	b.hdr.N, b.hdr.Skip = uint32(n), uint32(from)
	return nil
}
