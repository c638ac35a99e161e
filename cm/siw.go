package cm

import (
	"context"
	"time"

	"github.com/railbind/railbind/ibv"
)

// vendorSiw is the kernel's software iWARP device.
const vendorSiw = 0x626d74

// Of at most so many bytes that lie across the end of a page, siw sends wrong ones
// (siw_try_1seg, 6.1 to 7.2): always where they answer a READ, and in a SEND or WRITE
// where the device was busy.
const (
	siwShort = 32
	siwPage  = 4096
)

// siwSplit tells how many of n bytes from address on have to go by themselves, 0 for
// none. (A larger page only makes that superfluous.)
func siwSplit(address uint64, n int) int {
	if first := siwPage - int(address%siwPage); n <= siwShort && first < n {
		return first
	}
	return 0
}

// splitAt gives the first n bytes of local, the rest of it, and where the rest goes.
func splitAt(n int, local ibv.SGE, remote ibv.Remote) (first, rest ibv.SGE, behind ibv.Remote) {
	first = ibv.SGE{MR: local.MR, Offset: local.Offset, Length: n}
	rest = ibv.SGE{MR: local.MR, Offset: local.Offset + n, Length: local.Length - n}
	return first, rest, ibv.Remote{Addr: remote.Addr + uint64(n), RKey: remote.RKey}
}

// nudges are the pauses before each nudge.
var nudges = []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second}

// nudge makes up for a fault of the kernel's siw (6.1 to 7.2). The side that accepts
// sends its answer first and watches its TCP socket after that: a message that comes
// in between lies there unread until more data arrives (siw_accept). So the side that
// dialled writes nothing to nowhere a few times, which is more data, and which nobody
// sees.
func (m *mover) nudge() {
	for _, pause := range nudges {
		select {
		case <-time.After(pause):
		case <-m.drained:
			return
		case <-m.ended:
			return
		}
		if m.write(context.Background(), ibv.SGE{}, ibv.Remote{}) != nil {
			return // the connection's end, which others tell
		}
	}
}
