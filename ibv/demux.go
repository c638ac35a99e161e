package ibv

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Completions is what a Demux takes completions from: a *CQ that was created with
// a completion channel, or a *CompletionRing.
type Completions interface {
	Wait(ctx context.Context, wcs []WC) (int, error)
}

// Demux gives each completion to the goroutine that waits for it: ten thousand
// goroutines can share a few CQs, at the price of a goroutine for each CQ. A request
// that is posted with a Ticket's ID is waited for by Ticket.Wait; each wants a
// completion of its own (Signaled). Safe for concurrent use.
//
// The ID holds a slot and how often that was used, so that a completion nobody waits
// for any more never reaches the slot's next user. Where a context ends first, the
// slot stays taken until the completion is in, and so does the memory (MR.Close says
// ErrBusy): the device may use it until then.
type Demux struct {
	other func(WC)
	stop  context.CancelFunc
	pumps sync.WaitGroup
	stray atomic.Uint64

	mu    sync.Mutex
	slots []demuxSlot
	free  []uint32
	err   error // of the first source that failed, or closed
}

type demuxSlot struct {
	gen   uint32
	state slotState
	wc    WC
	wake  chan struct{} // holds one; sent to only in slotWaited, which it ends
}

func (s *demuxSlot) done() bool { return s.state == slotDone || s.state == slotHanded }

type slotState uint8

const (
	slotFree    slotState = iota
	slotTaken             // no completion yet, nobody waits
	slotWaited            // no completion yet, a goroutine waits
	slotTold              // no completion yet, the goroutine is woken by an error
	slotHanded            // wc is that of the goroutine that waits, which is woken
	slotDropped           // no completion yet, and nobody will wait
	slotDone              // wc is the ticket's
)

// DemuxConfig says how a Demux is made.
type DemuxConfig struct {
	// Slots is how many requests can be waited for at a time, at most 1<<24.
	// Default 1024.
	Slots int
	// Other gets the completions whose ID is no ticket's, such as those of
	// receives, from one goroutine for each source; it must not block. Nil: they
	// are counted (Stray) and dropped.
	Other func(WC)
}

// NewDemux starts a goroutine for each source. From then on they belong to the
// Demux: a completion that somebody else polls is lost to its ticket.
func NewDemux(cfg DemuxConfig, sources ...Completions) (*Demux, error) {
	const op, most = "create demultiplexer", 1 << 24
	if cfg.Slots == 0 {
		cfg.Slots = 1024
	}
	if cfg.Slots < 0 || cfg.Slots > most || len(sources) == 0 {
		return nil, invalid(op, "", ErrInvalid, "%d slots (at most %d) for %d sources (at least 1)", cfg.Slots, most, len(sources))
	}
	for i, s := range sources {
		if s == nil {
			return nil, invalid(op, "", ErrInvalid, "source %d is nil", i)
		}
		if _, err := s.Wait(context.Background(), nil); !errors.Is(err, ErrInvalid) { // no room is the only fault
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &Demux{other: cfg.Other, stop: stop, slots: make([]demuxSlot, cfg.Slots), free: make([]uint32, cfg.Slots)}
	for i := range d.free {
		d.free[i] = uint32(cfg.Slots - 1 - i)
		d.slots[i] = demuxSlot{gen: 1, wake: make(chan struct{}, 1)}
	}
	for _, s := range sources {
		d.pumps.Go(func() { d.pump(ctx, s) })
	}
	return d, nil
}

// Ticket stands for one request to come. The zero Ticket is no ticket.
type Ticket struct {
	d  *Demux
	id uint64
}

// Take takes a slot. The error matches ErrQueueFull while all are taken, ErrClosed,
// or what ended a source. The ticket ends by Wait,
// by Drop where its request was not posted, or by Leave.
func (d *Demux) Take() (Ticket, error) {
	const op = "take a ticket"
	if d == nil || d.slots == nil {
		return Ticket{}, &Error{Op: op, Object: "nil demultiplexer", Kind: ErrClosed}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return Ticket{}, d.err
	}
	if len(d.free) == 0 {
		return Ticket{}, invalid(op, "demultiplexer", ErrQueueFull, "all %d slots wait for a completion; see DemuxConfig.Slots", len(d.slots))
	}
	i := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	d.slots[i].state = slotTaken
	return Ticket{d, uint64(d.slots[i].gen)<<32 | uint64(i)}, nil
}

// ID is for the request (SendWR.ID, SendBatch.SetID).
func (t Ticket) ID() uint64 { return t.id }

// Wait returns the completion of the ticket's request, whatever its status. It ends
// the ticket, also where ctx ends first: that completion is dropped when it comes.
// It does not allocate.
func (t Ticket) Wait(ctx context.Context) (WC, error) {
	s, err := t.enter("wait")
	if err != nil {
		return WC{}, err
	}
	if s.state == slotTaken && t.d.err == nil {
		s.state = slotWaited
		t.d.mu.Unlock()
		woken := true
		select {
		case <-s.wake:
		case <-ctx.Done():
			woken, err = false, ctx.Err()
		}
		t.d.mu.Lock()
		if !woken && s.state != slotWaited { // in the same moment
			<-s.wake
		}
	}
	defer t.d.mu.Unlock()
	var wc WC
	if s.done() {
		wc, err = s.wc, nil
	} else if err == nil {
		err = t.d.err
	}
	t.end(s)
	return wc, err
}

// Drop ends a ticket whose request was not posted, and frees its slot.
func (t Ticket) Drop() {
	if s, err := t.enter("drop"); err == nil {
		t.d.release(s, uint32(t.id))
		t.d.mu.Unlock()
	}
}

// Leave ends a ticket whose request was posted: its completion is dropped when it
// comes, and the slot is free then.
func (t Ticket) Leave() {
	s, err := t.enter("leave")
	if err != nil {
		return
	}
	t.end(s)
	t.d.mu.Unlock()
}

// end frees the slot, or leaves that to the completion. The lock is held.
func (t Ticket) end(s *demuxSlot) {
	if s.done() {
		t.d.release(s, uint32(t.id))
	} else {
		s.state = slotDropped
	}
}

// enter finds the slot of a ticket that has not ended, and leaves the lock held.
func (t Ticket) enter(op string) (*demuxSlot, error) {
	if t.d == nil {
		return nil, &Error{Op: op, Object: "zero ticket", Kind: ErrClosed}
	}
	t.d.mu.Lock()
	s := &t.d.slots[uint32(t.id)]
	if s.gen == uint32(t.id>>32) && (s.state == slotTaken || s.state == slotDone) {
		return s, nil
	}
	t.d.mu.Unlock()
	return nil, invalid(op, "ticket", ErrClosed, "another call has ended it, or waits for it")
}

// Stray is how many completions belonged to no ticket, and to no DemuxConfig.Other.
func (d *Demux) Stray() uint64 {
	if d == nil {
		return 0
	}
	return d.stray.Load()
}

// Close ends the goroutines and wakes all who wait, with ErrClosed. The sources stay
// open.
func (d *Demux) Close() error {
	if d == nil || d.slots == nil {
		return nil
	}
	d.stop()
	d.pumps.Wait()
	d.end(&Error{Op: "wait", Object: "demultiplexer", Kind: ErrClosed})
	return nil
}

// release makes the slot the next user's. The lock is held.
func (d *Demux) release(s *demuxSlot, i uint32) {
	s.state = slotFree
	s.gen++
	d.free = append(d.free, i)
}

func (d *Demux) pump(ctx context.Context, from Completions) {
	var wcs [64]WC
	for {
		n, err := from.Wait(ctx, wcs[:])
		if err != nil {
			if ctx.Err() == nil {
				d.end(err)
			}
			return
		}
		d.deliver(wcs[:n])
	}
}

func (d *Demux) deliver(wcs []WC) {
	others := 0
	d.mu.Lock()
	for _, wc := range wcs {
		id := wc.ID()
		i := uint32(id)
		if uint64(i) >= uint64(len(d.slots)) || d.slots[i].gen != uint32(id>>32) {
			wcs[others] = wc
			others++
			continue
		}
		switch s := &d.slots[i]; s.state {
		case slotTaken:
			s.wc, s.state = wc, slotDone
		case slotWaited:
			s.wc, s.state = wc, slotHanded
			s.wake <- struct{}{}
		case slotTold:
			s.wc, s.state = wc, slotHanded
		case slotDropped:
			d.release(s, i)
		default: // two requests had one ID
			wcs[others] = wc
			others++
		}
	}
	d.mu.Unlock()
	for _, wc := range wcs[:others] {
		if d.other == nil {
			d.stray.Add(1)
		} else {
			d.other(wc)
		}
	}
}

// end wakes all who wait; what is done is theirs still.
func (d *Demux) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return
	}
	d.err = err
	for i := range d.slots {
		if s := &d.slots[i]; s.state == slotWaited {
			s.state = slotTold
			s.wake <- struct{}{}
		}
	}
}
