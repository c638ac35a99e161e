package ibv

import (
	"runtime"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// RecvBatch is a chain of receives for one QP or SRQ; what SendBatch says of
// preparation and reuse holds for it too. A new request has no memory and takes
// messages without data only.
type RecvBatch struct {
	batch
	shared bool // it is for an SRQ or WQ, instead of a QP
	srq    *SRQ // the SRQ
	wrs    []cgo.RecvWR
}

// NewRecvBatch makes a batch for the queue pair's receive queue.
func (q *QP) NewRecvBatch(cfg BatchConfig) (*RecvBatch, error) {
	const op = "make receive batch"
	if err := q.life().enter(op); err != nil {
		return nil, err
	}
	defer q.node.leave()
	if q.srq != nil {
		return nil, invalid(op, q.node.name, ErrInvalid, "its receives come from %s", q.srq.node.name)
	}
	return newRecvBatch(op, &q.poster, cfg, q.caps.MaxRecvSGE)
}

func newRecvBatch(op string, q *poster, cfg BatchConfig, sges int) (*RecvBatch, error) {
	cfg.Inline = 0
	if err := cfg.check(op, q.node.name, sges, 0); err != nil {
		return nil, err
	}
	cfg.SGEs = max(cfg.SGEs, 1)
	b := new(RecvBatch)
	wrs, _, err := b.init(q, cfg, unsafe.Sizeof(cgo.RecvWR{}))
	if err != nil {
		return nil, err
	}
	b.wrs = unsafe.Slice((*cgo.RecvWR)(wrs), b.n)
	return b, nil
}

// base is the common part, nil for a nil batch.
func (b *RecvBatch) base() *batch {
	if b == nil {
		return nil
	}
	return &b.batch
}

// Len is how many requests the batch has.
func (b *RecvBatch) Len() int {
	if b == nil {
		return 0
	}
	return b.n
}

// Recv gives request i the memory that a message goes to, which needs LocalWrite.
func (b *RecvBatch) Recv(i int, sges ...SGE) error {
	const op = "RECV"
	if err := b.base().check(op, i); err != nil {
		return err
	}
	k := i * b.per
	end := k + b.per
	b.wrs[i].NumSGE = 0
	total := uint64(0)
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
		if total += uint64(s.Length); total > maxLength {
			return b.tooLong(op, i, total, maxLength)
		}
		k++
	}
	b.wrs[i].NumSGE = int32(k - i*b.per)
	for ; k < end; k++ {
		b.unbind(k)
	}
	runtime.KeepAlive(b.mem)
	return nil
}

// SetID sets the ID that request i's completion will carry.
func (b *RecvBatch) SetID(i int, id uint64) {
	b.wrs[i].ID = id
	runtime.KeepAlive(b.mem)
}

// SetIDs sets the IDs of n requests, from index from on; see SendBatch.SetIDs.
func (b *RecvBatch) SetIDs(from, n int, first uint64) { b.base().setIDs(from, n, first) }

// SetOffset moves the first SGE of request i within its region; the length
// stays. The error is ErrOutOfRange itself, also where there is no such request, or
// it has no SGE.
func (b *RecvBatch) SetOffset(i, offset int) error {
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

// SetOffsets moves the first SGE of n requests; see SendBatch.SetOffsets.
func (b *RecvBatch) SetOffsets(from, n, offset, stride int) error {
	return b.base().setOffsets(from, n, offset, stride)
}

// SetLocal moves SGE j of request i within its region and changes its length,
// which must not become 0.
func (b *RecvBatch) SetLocal(i, j, offset, length int) error {
	const op = "move SGE"
	if err := b.base().check(op, i); err != nil {
		return err
	}
	if uint(j) >= uint(b.per) || b.refs[i*b.per+j].use == nil || length == 0 {
		return invalid(op, b.q.node.name, ErrInvalid, "request %d has no SGE %d, or it would be empty", i, j)
	}
	if total := b.besides(i, j) + uint64(max(length, 0)); total > maxLength {
		return b.tooLong(op, i, total, maxLength)
	}
	return b.setSGE(op, i, i*b.per+j, SGE{b.refs[i*b.per+j].use.mr, offset, length}, 0)
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
		return 0, b.base().span(op, from, n)
	}
	if from != b.from || from+n != b.to {
		if err := b.aim(op, from, n); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	p := b.post()
	b.alive()
	if p.Why != cgo.Accepted {
		return int(p.Accepted), b.q.refused(op, p, n)
	}
	return n, nil
}

func (b *RecvBatch) post() cgo.Posted {
	if !b.shared {
		return cgo.PostRecv(b.hdr)
	}
	p := cgo.PostSRQ(b.hdr)
	b.srq.posted()
	return p
}

func (b *RecvBatch) aim(op string, from, n int) error {
	if err := b.base().span(op, from, n); err != nil {
		return err
	}
	b.batch.aim(from, n)
	return nil
}
