package cm

import (
	"fmt"
	"sync"

	"github.com/railbind/railbind/cgo"
)

// place is where an id was in a channel's table.
type place struct {
	ch     *EventChannel
	cookie uint64
}

func (p place) vacate() {
	p.ch.mu.Lock()
	defer p.ch.mu.Unlock()
	p.ch.vacate(p.cookie)
}

// migrating lets one id move at a time: two that move in opposite directions
// would wait for each other's channel.
var migrating sync.Mutex

// Migrate moves the id to another event channel, with the events that wait for
// it; none is lost. nil is the channel that the process shares. A listener stays
// where it is, since a request on its way would lose its channel: migrate it
// before Listen, and the ids of its requests after GetRequest.
//
// Implements: int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
func (id *ID) Migrate(to *EventChannel) error {
	const op = "migrate"
	if err := id.begin(op, StateIdle, StateBoundWildcard, StateBoundDevice, StateRequested, StateAddrResolved,
		StateRouteResolved, StateConnecting, StateResponded, StateConnected, StateDisconnected); err != nil {
		return err
	}
	defer id.step.Unlock()
	to, err := channelOrDefault(to)
	if err != nil {
		return id.fail(op, err)
	}
	if to == id.ch {
		return nil
	}
	cookie, err := to.register(id)
	if err != nil {
		return id.fail(op, err)
	}
	if err := id.move(to, cookie); err != nil {
		to.unregister(cookie)
		return id.fail(op, fmt.Errorf("to another event channel: %w", err))
	}
	return nil
}

// move keeps both channels from fetching: an event must carry the cookie of the
// channel it comes by. The old place stays the id's, because the old channel may
// hold an event that it has fetched and not yet delivered.
func (id *ID) move(to *EventChannel, cookie uint64) error {
	migrating.Lock()
	defer migrating.Unlock()
	id.calls.Lock()
	defer id.calls.Unlock()
	if id.destroyed {
		return ErrClosed
	}
	from := id.ch
	from.fetch.Lock()
	defer from.fetch.Unlock()
	to.fetch.Lock()
	defer to.fetch.Unlock()
	if err := id.h.Migrate(to.h); err != nil {
		return err
	}
	id.h.SetCookie(cookie)
	from.mu.Lock()
	from.departed()
	from.mu.Unlock()
	id.past = append(id.past, place{from, id.cookie})
	id.ch, id.cookie, id.cfg.Channel = to, cookie, to
	return nil
}

// unfetched runs f while no event of the id's channel is fetched. The caller is
// within id.call, so that the id stays on its channel.
func (id *ID) unfetched(f func() error) error {
	id.ch.fetch.Lock()
	defer id.ch.fetch.Unlock()
	return f()
}

// Channel is the event channel that the id is on.
func (id *ID) Channel() *EventChannel {
	var ch *EventChannel
	_ = id.call(func(cgo.ID) error { ch = id.ch; return nil })
	return ch
}
