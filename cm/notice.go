package cm

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/railbind/railbind/cgo"
)

// maxNotices is how many notices wait for a reader; later ones are dropped.
const maxNotices = 16

// Notice is an event that no step waits for.
type Notice struct {
	Type   EventType
	Status int // negative errno, or a reason code
	At     time.Time
	Arg    uint64 // of an EventUser: what WriteEvent was given
}

// Notices tells, of an id at any state, what happens to it from outside:
// ADDR_CHANGE (the bonding under its address has changed over, and connections
// made before may use the old device), TIMEWAIT_EXIT (its QP number may be used
// again), DEVICE_REMOVAL, DISCONNECTED, MULTICAST_ERROR, and an UNREACHABLE,
// REJECTED or CONNECT_ERROR that came when nobody waited any more; and the USER
// events that the program has written itself. Nobody need
// read it: of 16 that nobody has read, the first are kept. It is never closed.
func (id *ID) Notices() <-chan Notice { return id.orNone().notices }

// notice passes an event on that no step takes; id.mu is held.
func (id *ID) notice(ev *cgo.Event) {
	switch ev.Type {
	case cgo.EventAddrChange, cgo.EventTimewaitExit, cgo.EventDeviceRemoval, cgo.EventDisconnected, cgo.EventMulticastError,
		cgo.EventUser:
	case cgo.EventUnreachable, cgo.EventRejected, cgo.EventConnectError:
		if id.pending != nil {
			return
		}
	default:
		return
	}
	select {
	case id.notices <- Notice{Type: EventType(ev.Type), Status: int(ev.Status), At: time.Now(), Arg: ev.Arg}:
	default:
	}
}

// WriteEvent writes an event USER to the id's channel, behind those that wait
// there: it comes back in Notices, with status and arg. It needs rdma-core 60 and
// a kernel from 6.18 on; with older ones the error matches errors.ErrUnsupported.
//
// Implements: int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
func (id *ID) WriteEvent(status int32, arg uint64) error {
	id = id.orNone()
	err := id.call(func(h cgo.ID) error { return h.WriteEvent(status, arg) })
	if errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("%w: %w: this kernel does not know of it", errors.ErrUnsupported, err)
	}
	return id.fail("write event", err)
}
