package cm

import (
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
}

// Notices tells, of an id at any state, what happens to it from outside:
// ADDR_CHANGE (the bonding under its address has changed over, and connections
// made before may use the old device), TIMEWAIT_EXIT (its QP number may be used
// again), DEVICE_REMOVAL, DISCONNECTED, MULTICAST_ERROR, and an UNREACHABLE,
// REJECTED or CONNECT_ERROR that came when nobody waited any more. Nobody need
// read it: of 16 that nobody has read, the first are kept. It is never closed.
func (id *ID) Notices() <-chan Notice { return id.orNone().notices }

// notice passes an event on that no step takes; id.mu is held.
func (id *ID) notice(ev *cgo.Event) {
	switch ev.Type {
	case cgo.EventAddrChange, cgo.EventTimewaitExit, cgo.EventDeviceRemoval, cgo.EventDisconnected, cgo.EventMulticastError:
	case cgo.EventUnreachable, cgo.EventRejected, cgo.EventConnectError:
		if id.pending != nil {
			return
		}
	default:
		return
	}
	select {
	case id.notices <- Notice{Type: EventType(ev.Type), Status: int(ev.Status), At: time.Now()}:
	default:
	}
}
