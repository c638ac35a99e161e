package ibv

import (
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// PostPoll posts the whole batch and polls the CQ, in one crossing; see
// PostPollRange.
func (b *SendBatch) PostPoll(c *CQ, wcs []WC) (accepted, polled int, err error) {
	return b.PostPollRange(0, b.Len(), c, wcs)
}

// PostPollRange is PostRange of n requests from index from on, and then Poll of
// up to len(wcs) completions of c, which may be any CQ, in one crossing. It does
// not wait. A post that is refused polls all the same, since completions are
// what makes room: with ErrQueueFull, treat what was polled and post again. The
// error is the post's, or else the poll's. Where the call is refused for its
// arguments (ErrInvalid, a nil batch or CQ), nothing is posted or polled.
func (b *SendBatch) PostPollRange(from, n int, c *CQ, wcs []WC) (accepted, polled int, err error) {
	const op = "post send"
	if b == nil || b.hdr == nil {
		return 0, 0, b.base().span(op, from, n)
	}
	if c == nil || c.rec == nil {
		return 0, 0, errNilCQ
	}
	if b.dirty || from != b.from || from+n != b.to {
		if err := b.aim(op, from, n); err != nil {
			return 0, 0, err
		}
	}
	switch {
	case n == 0:
		polled, err = c.Poll(wcs)
		return 0, polled, err
	case len(wcs) == 0:
		accepted, err = b.PostRange(from, n)
		return accepted, 0, err
	}
	p := cgo.PostPollSend(b.hdr, c.rec, (*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs))
	if b.binds {
		b.bound(from, int(p.Accepted))
	}
	if p.Why == cgo.Accepted && b.hdr.Polled >= 0 {
		polled = int(b.hdr.Polled)
		b.alive()
		return n, polled, nil
	}
	return b.outcome(op, p, n, c)
}

// PostPoll posts all receives and polls the CQ, in one crossing; see
// PostPollRange.
func (b *RecvBatch) PostPoll(c *CQ, wcs []WC) (accepted, polled int, err error) {
	return b.PostPollRange(0, b.Len(), c, wcs)
}

// PostPollRange gives n receives from index from on back to the queue, and polls
// c for what arrived meanwhile, in one crossing: a loop that takes messages
// reposts those of its last turn so. See SendBatch.PostPollRange.
func (b *RecvBatch) PostPollRange(from, n int, c *CQ, wcs []WC) (accepted, polled int, err error) {
	const op = "post receive"
	if b == nil || b.hdr == nil {
		return 0, 0, b.base().span(op, from, n)
	}
	if c == nil || c.rec == nil {
		return 0, 0, errNilCQ
	}
	if from != b.from || from+n != b.to {
		if err := b.aim(op, from, n); err != nil {
			return 0, 0, err
		}
	}
	switch {
	case n == 0:
		polled, err = c.Poll(wcs)
		return 0, polled, err
	case len(wcs) == 0:
		accepted, err = b.PostRange(from, n)
		return accepted, 0, err
	}
	var p cgo.Posted
	if !b.shared {
		p = cgo.PostPollRecv(b.hdr, c.rec, (*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs))
	} else {
		p = cgo.PostPollSRQ(b.hdr, c.rec, (*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs))
		b.srq.posted()
	}
	if p.Why == cgo.Accepted && b.hdr.Polled >= 0 {
		polled = int(b.hdr.Polled)
		b.alive()
		return n, polled, nil
	}
	return b.outcome(op, p, n, c)
}

// outcome is what a post of n requests and a poll came to, of which one failed.
func (b *batch) outcome(op string, p cgo.Posted, n int, c *CQ) (accepted, polled int, err error) {
	polled = int(b.hdr.Polled)
	b.alive()
	if polled < 0 {
		polled, err = 0, c.pollError(polled)
	}
	if p.Why != cgo.Accepted {
		err = b.q.refused(op, p, n)
	}
	return int(p.Accepted), polled, err
}
