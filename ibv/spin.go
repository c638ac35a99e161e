package ibv

import (
	"runtime"
	"sync/atomic"
	"time"
)

// maxSpin bounds how long C may look for completions at a stretch: the garbage
// collector and a Close wait for that.
const maxSpin = time.Millisecond

// spinners counts the goroutines that spin in C.
var spinners, spinnersMax atomic.Int32

// SetMaxSpinners says how many goroutines of the process may spin in C at once,
// each of which takes a processor from the others meanwhile; those beyond do
// not spin. It returns what held before. 0, as at the start, means GOMAXPROCS-1,
// negative none. Safe for concurrent use.
func SetMaxSpinners(n int) (before int) {
	return int(spinnersMax.Swap(int32(max(-1, min(n, 1<<20)))))
}

// maySpin takes a place among those who spin; it is given back by spun.
func maySpin() bool {
	most := int(spinnersMax.Load())
	if most == 0 {
		most = runtime.GOMAXPROCS(0) - 1
	}
	if int(spinners.Add(1)) <= most {
		return true
	}
	spinners.Add(-1)
	return false
}

// spun gives the place back. A goroutine that does nothing but spin in C looks to
// the runtime as one that never leaves a system call: after 10 ms it takes the
// processor from it, every 20 microseconds, and has a thread busy with that. It
// counts by the scheduler's turns; so now and then there is one.
func spun() {
	spinners.Add(-1)
	if turns.Add(1)%turnEvery == 0 {
		runtime.Gosched()
	}
}

// turnEvery is odd: of two goroutines that spin in turn it is each one's.
const turnEvery = 31

// turns counts what was spun.
var turns atomic.Uint32

// patience is how long it pays to spin, learnt from how long the last wait took:
// twice as long where that was within the limit, and half as long as last time
// where it was not, so that what never comes in time costs a 64th of the limit.
type patience struct {
	limit time.Duration
	next  atomic.Int64 // ns; 0: the limit
}

func (p *patience) now() time.Duration {
	if n := p.next.Load(); n > 0 {
		return time.Duration(n)
	}
	return p.limit
}

func (p *patience) learn(took time.Duration) {
	next := p.now() / 2
	if took <= p.limit {
		next = min(2*took, p.limit)
	}
	p.next.Store(int64(max(1, p.limit/64, next)))
}
