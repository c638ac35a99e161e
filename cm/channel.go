package cm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// EventChannel carries the events of any number of ids. One goroutine reads
// its descriptor through Go's poller, so that waiting costs goroutines and no
// OS threads. All methods may be called concurrently.
type EventChannel struct {
	h      cgo.EventChannel
	reader *cgo.EventReader
	file   *os.File      // a duplicate of the channel's descriptor
	done   chan struct{} // closed when the pump has ended

	// fetch is held while an event is fetched: librdmacm may be moving the
	// id's QP then, which must not be destroyed under it.
	fetch sync.Mutex

	orphans sync.WaitGroup // requests that nobody can take, being destroyed

	mu     sync.Mutex
	slots  []slot
	free   []uint32
	live   int
	closed bool
	broken error // what ended the pump, if not Close
	expire bool  // nobody will close it: the last id does
}

// slot is one place of the channel's table of ids. An event names slot and
// generation, never the id's pointer, which is used again after a destroy.
type slot struct {
	id  *ID
	gen uint32
}

// NewEventChannel opens an event channel. It fails with ibv.ErrNoRDMA where the
// kernel has no RDMA connection manager or no device, and with
// ibv.ErrDeviceNotAccessible where this process may not open the manager, or none
// of the devices. The error of a program that was built without cgo, or for another
// system than Linux, matches errors.ErrUnsupported as well.
//
// Implements: struct rdma_event_channel *rdma_create_event_channel(void)
func NewEventChannel() (*EventChannel, error) {
	h, err := cgo.CreateEventChannel()
	if err != nil {
		return nil, explainNoChannel(err)
	}
	fd, err := h.DupFD()
	if err != nil {
		cgo.DestroyEventChannel(h)
		return nil, fmt.Errorf("cm: event channel: duplicate its descriptor: %w", err)
	}
	c := &EventChannel{
		h:      h,
		reader: cgo.NewEventReader(h),
		file:   os.NewFile(fd, "rdma_cm"),
		done:   make(chan struct{}),
	}
	go c.pump()
	return c, nil
}

// explainNoChannel says what is missing where no event channel can be had.
func explainNoChannel(err error) error {
	switch {
	case errors.Is(err, cgo.NoLibrary), !cgo.Available:
		return fmt.Errorf("cm: event channel: %w: %w", ibv.ErrNoRDMA, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("cm: event channel: %w: may not open /dev/infiniband/rdma_cm; grant access to it (in a container: --device=/dev/infiniband/rdma_cm): %w", ibv.ErrDeviceNotAccessible, err)
	case errors.Is(err, syscall.ENODEV) && exists("/dev/infiniband/rdma_cm"):
		if why := noneOpens(); why != nil {
			return fmt.Errorf("cm: event channel: no RDMA device can be opened: %w (%w)", why, err)
		}
		return fmt.Errorf("cm: event channel: %w: there is no RDMA device; load the adapter's driver, or, without hardware: rdma link add rxe0 type rxe netdev NETDEV; in a container, or another network namespace, devices are not seen if `rdma system show` says exclusive; rb-doctor looks further: %w", ibv.ErrNoRDMA, err)
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("cm: event channel: %w: no /dev/infiniband/rdma_cm; load the module rdma_ucm (in a container: --device=/dev/infiniband/rdma_cm); rb-doctor looks further: %w", ibv.ErrNoRDMA, err)
	}
	return fmt.Errorf("cm: event channel: %w", err)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Close ends the channel. It is refused with ErrBusy while ids live on it, also
// those that a Dialer has given up and that close in the background, as on iWARP;
// closing twice, or a nil channel, is fine.
//
// Implements: void rdma_destroy_event_channel(struct rdma_event_channel *channel)
func (c *EventChannel) Close() error {
	if c == nil || c.done == nil { // nil or zero
		return nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.done
		return nil
	}
	if c.live > 0 {
		n := c.live
		c.mu.Unlock()
		return fmt.Errorf("cm: close event channel: %w: %d ids live on it; close them first", ibv.ErrBusy, n)
	}
	c.closed = true
	c.mu.Unlock()

	// File.Close waits for the pump's callback to return.
	c.file.Close()
	<-c.done
	c.orphans.Wait()
	c.reader.Free()
	cgo.DestroyEventChannel(c.h)
	return nil
}

// pump is the only reader of the channel's events.
func (c *EventChannel) pump() {
	defer close(c.done)
	rc, err := c.file.SyscallConn()
	if err == nil {
		err = rc.Read(func(uintptr) bool {
			for {
				ev, ok := c.next()
				if !ok {
					return c.brokenErr() != nil
				}
				c.dispatch(&ev)
			}
		})
	}
	c.mu.Lock()
	if c.broken == nil && !c.closed {
		c.broken = fmt.Errorf("cm: event channel: %w", err)
	}
	ids := c.snapshot()
	c.mu.Unlock()
	if err := c.brokenErr(); err != nil {
		for _, id := range ids {
			id.channelBroke(err)
		}
	}
}

func (c *EventChannel) brokenErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

func (c *EventChannel) next() (cgo.Event, bool) {
	c.fetch.Lock()
	ev, ok, err := c.reader.Next()
	c.fetch.Unlock()
	if err != nil {
		c.mu.Lock()
		c.broken = fmt.Errorf("cm: event channel: %w", err)
		c.mu.Unlock()
		return ev, false
	}
	return ev, ok
}

// dispatch hands an event to its id. An event whose id is gone is dropped; a
// connection request that nobody can take any more is destroyed, which rejects
// it.
func (c *EventChannel) dispatch(ev *cgo.Event) {
	id := c.lookup(ev.Cookie)
	if ev.Type == cgo.EventConnectRequest {
		child := c.adopt(id, ev)
		if child == nil {
			ev.NewID.SetCookie(0)
			c.orphans.Add(1)
			go func() { // it may block, and the pump must not
				defer c.orphans.Done()
				_ = ev.NewID.Destroy()
			}()
		}
		return
	}
	if id != nil {
		id.deliver(ev)
	}
}

// register puts id into the table and returns the cookie that its events carry.
func (c *EventChannel) register(id *ID) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, fmt.Errorf("cm: event channel: %w", ErrClosed)
	}
	if c.broken != nil {
		return 0, c.broken
	}
	var i uint32
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
	} else {
		i = uint32(len(c.slots))
		c.slots = append(c.slots, slot{gen: 1})
	}
	c.slots[i].id = id
	c.live++
	return uint64(c.slots[i].gen)<<32 | uint64(i), nil
}

// unregister frees the id's slot; its old cookie finds nothing from then on.
func (c *EventChannel) unregister(cookie uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vacate(cookie)
	c.departed()
}

// vacate frees a slot; c.mu is held.
func (c *EventChannel) vacate(cookie uint64) {
	i := uint32(cookie)
	s := &c.slots[i]
	s.id = nil
	s.gen++
	if s.gen == 0 {
		s.gen = 1 // cookie 0 stays nobody's
	}
	c.free = append(c.free, i)
}

// departed counts an id that lives on the channel no more; c.mu is held.
func (c *EventChannel) departed() {
	c.live--
	if c.live == 0 && c.expire {
		go func() { _ = c.Close() }()
	}
}

func (c *EventChannel) lookup(cookie uint64) *ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, gen := uint32(cookie), uint32(cookie>>32)
	if int(i) >= len(c.slots) || c.slots[i].gen != gen {
		return nil
	}
	return c.slots[i].id
}

func (c *EventChannel) snapshot() []*ID {
	ids := make([]*ID, 0, c.live)
	for _, s := range c.slots {
		if s.id != nil {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// defaultChannel is what dialers and listeners use that name none. It lives as
// long as the process.
var defaultChannel struct {
	sync.Mutex
	c *EventChannel
}

func channelOrDefault(c *EventChannel) (*EventChannel, error) {
	switch {
	case c != nil && c.done == nil:
		return nil, fmt.Errorf("cm: event channel: %w: it was not made by NewEventChannel", ErrClosed)
	case c != nil:
		return c, nil
	}
	d := &defaultChannel
	d.Lock()
	defer d.Unlock()
	if d.c == nil || d.c.brokenErr() != nil {
		n, err := NewEventChannel()
		if err != nil {
			return nil, err
		}
		if d.c != nil {
			d.c.closeWhenIdle()
		}
		d.c = n
	}
	return d.c, nil
}

// closeWhenIdle closes a channel that has no owner, now or with its last id.
func (c *EventChannel) closeWhenIdle() {
	c.mu.Lock()
	c.expire = true
	c.mu.Unlock()
	_ = c.Close()
}
