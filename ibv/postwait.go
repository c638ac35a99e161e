package ibv

import (
	"time"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// PostWait is PostPoll that goes on polling, in C and in the same crossing, until
// want completions are there, one of them failed, or spin is over, which is at
// most a millisecond: a request and its answer cost one crossing. What it returns
// may be fewer; CQ.Wait or CQ.PollSpin look for the rest. Where too many goroutines
// spin already (see SetMaxSpinners) or the post is refused it is PostPoll.
func (b *SendBatch) PostWait(c *CQ, wcs []WC, want int, spin time.Duration) (accepted, polled int, err error) {
	if want < 1 || spin <= 0 || b == nil || b.hdr == nil || !maySpin() {
		return b.PostPoll(c, wcs)
	}
	b.hdr.Want, b.hdr.Spin = uint32(min(want, len(wcs))), uint32(min(spin, maxSpin))
	accepted, polled, err = b.PostPollRange(0, b.n, c, wcs)
	b.hdr.Want = 0
	spun()
	return accepted, polled, err
}

// PollSpin is Poll that goes on in C until want completions are there, one of them
// failed, or spin is over, which is at most a millisecond; see PostWait.
func (c *CQ) PollSpin(wcs []WC, want int, spin time.Duration) (int, error) {
	if c == nil || c.rec == nil || len(wcs) == 0 || want < 1 || spin <= 0 || !maySpin() {
		return c.Poll(wcs)
	}
	n, _ := c.rec.PollSpin((*cgo.WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs), min(want, len(wcs)), uint64(min(spin, maxSpin)))
	spun()
	if n < 0 {
		return 0, c.pollError(n)
	}
	return n, nil
}
