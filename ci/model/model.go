// Package model makes random calls on random objects, from several goroutines
// and under contexts that end at any moment, and holds each outcome against a
// small model of the objects' lives. It is for tests.
//
// Of an object the model knows what it stands on, and when each Close began and
// ended. What a call may say follows from that:
//
//   - success, where none of its objects was closed before it began;
//   - net.ErrClosed, where a Close of one of them was under way meanwhile, or over;
//   - its context's error, where the context is over;
//   - of Close, EBUSY where something may stand on the object, and success
//     where nothing is left on it that nobody closes;
//   - what else its Op names.
//
// No call may panic, or outlast a minute or two.
package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a call may take, beyond its context, on a slow machine.
const patience = 2 * time.Minute

// Kind is what is particular to a kind of objects.
type Kind struct {
	// Most is how many may be open at once. Default 4.
	Most int
	// Ends: the first Close ends it for other calls, also where it is refused.
	Ends bool
	// Lingers: what stood on it may let go of it a moment after its own Close.
	Lingers bool
}

// Op is an operation.
type Op struct {
	Name  string
	On    []string // the kinds of its objects
	Makes string   // the kind of what it makes
	// Apart: what it makes stands on nothing.
	Apart bool
	// Pins: the first of its objects may keep the others busy from now on.
	Pins bool
	// Lasts is how long its context lasts at most. Default 20 ms.
	Lasts time.Duration
	Do    func(c *Call) error
	May   []error // what it may end in, whatever the model says
}

// Call is one call of an operation.
type Call struct {
	*rand.Rand
	Ctx context.Context

	op   *Op
	on   []sight
	made []*object
}

// Of is the i-th object of a call.
func Of[T any](c *Call, i int) T { return c.on[i].it.(T) }

// Made enters what the call has made: it stands on the call's objects.
func (c *Call) Made(it io.Closer) { c.made = append(c.made, &object{kind: c.op.Makes, it: it}) }

// MadeWith is Made for what the Close of the call's first object closes as well.
func (c *Call) MadeWith(it io.Closer) {
	c.made = append(c.made, &object{kind: c.op.Makes, it: it, with: c.on[0].object})
}

// object is what calls are made on. world.mu guards it.
type object struct {
	kind string
	it   io.Closer
	on   []*object // what it stands on
	with *object   // whose Close closes it too
	pins map[*object]bool

	fellows        []*object // what its Close closes
	closes, within int       // Closes that have begun; that are under way
	known, gone    bool      // entered; closed
	load, loads    int       // what may stand on it: now, ever
	firm           int       // what stands on it, and nobody closes
}

// sight is what was known of an object when a call began.
type sight struct {
	*object
	gone, closing bool
	closes        int
}

// Config says what a run is made of.
type Config struct {
	Seed  uint64
	Calls int // of each goroutine
	Kinds map[string]Kind
	Ops   []Op
	// Settled is called after each round, when everything is closed.
	Settled func()
}

const (
	goroutines = 8
	round      = 50 // calls of each goroutine
)

// world is the objects of a run.
type world struct {
	Config
	t testing.TB

	mu   sync.Mutex
	all  map[string][]*object
	told map[string]map[string]int // outcomes by operation
}

// Run makes calls in rounds, after each of which it closes what they made. What
// each goroutine draws follows from the seed; how those of several meet does not.
func Run(t testing.TB, cfg Config) {
	t.Helper()
	t.Logf("seed %d, %d calls in each of %d goroutines", cfg.Seed, cfg.Calls, goroutines)
	debug.SetTraceback("all") // of a call that does not return
	w := &world{Config: cfg, t: t, told: map[string]map[string]int{}}
	for from := 0; from < cfg.Calls && !t.Failed(); from += round {
		w.round(uint64(from / round))
		cfg.Settled()
	}
	for _, name := range slices.Sorted(maps.Keys(w.told)) {
		t.Logf("%-20s %v", name, w.told[name])
	}
}

func (w *world) round(n uint64) {
	w.all = map[string][]*object{}
	var wg sync.WaitGroup
	for g := range uint64(goroutines) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(w.Seed, n*goroutines+g))
			for range round {
				if w.t.Failed() {
					return
				}
				w.step(rng)
			}
		})
	}
	wg.Wait()
	w.closeAll()
}

// step closes an object, or makes a call, as the dice fall.
func (w *world) step(rng *rand.Rand) {
	if rng.IntN(6) == 0 {
		if o := w.pick(rng); o != nil {
			w.close(o)
			return
		}
	}
	c := w.draw(rng)
	lasts := c.op.Lasts
	if lasts == 0 {
		lasts = 20 * time.Millisecond
	}
	lasts = time.Duration(rng.Int64N(int64(lasts)))
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	switch rng.IntN(4) {
	case 0:
		cancel()
	case 1:
		defer time.AfterFunc(lasts/2, cancel).Stop()
	}
	c.Ctx = ctx
	defer w.watch(c.op.Name)()
	w.judge(c, c.op.Do(c))
}

// watch ends the process where a call does not return.
func (w *world) watch(name string) (stop func()) {
	t := time.AfterFunc(patience, func() { panic(fmt.Sprintf("seed %d: %s has not returned", w.Seed, name)) })
	return func() { t.Stop() }
}

// pick is any object, a closed one too.
func (w *world) pick(rng *rand.Rand) *object {
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := slices.Sorted(maps.Keys(w.all))
	if len(kinds) == 0 {
		return nil
	}
	of := w.all[kinds[rng.IntN(len(kinds))]]
	return of[rng.IntN(len(of))]
}

// draw draws an operation that there are objects for, and the objects.
func (w *world) draw(rng *rand.Rand) *Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		c := &Call{Rand: rng, op: &w.Ops[rng.IntN(len(w.Ops))]}
		if w.full(c.op.Makes) {
			continue
		}
		for _, kind := range c.op.On {
			if of := w.all[kind]; len(of) > 0 {
				o := of[rng.IntN(len(of))]
				c.on = append(c.on, sight{o, o.gone, o.within > 0 || o.closes > 0 && w.Kinds[kind].Ends, o.closes})
			}
		}
		if len(c.on) < len(c.op.On) {
			continue
		}
		if c.op.leans() {
			for _, s := range c.on {
				s.load++
				s.loads++
			}
		}
		if c.op.Pins {
			for _, s := range c.on[1:] {
				c.on[0].pin(s.object)
			}
		}
		return c
	}
}

func (w *world) full(kind string) bool {
	open := 0
	for _, o := range w.all[kind] {
		if !o.gone {
			open++
		}
	}
	most := w.Kinds[kind].Most
	if most == 0 {
		most = 4
	}
	return kind != "" && open >= most
}

// judge holds the outcome of a call against the model.
func (w *world) judge(c *Call, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(c.op.Name, err)
	was, closing := false, false // one of its objects was closed before, meanwhile
	for _, s := range c.on {
		was = was || s.gone
		closing = closing || s.gone || s.closing || s.object.closes > s.closes
	}
	over := c.Ctx.Err()
	switch {
	case err == nil && was:
		w.wrong(c, "succeeded on a closed object")
	case err == nil, is(err, c.op.May):
	case errors.Is(err, net.ErrClosed) && closing:
	case over != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
	default:
		w.wrong(c, "%v", err)
	}
	for _, o := range c.made {
		if c.op.leans() {
			for _, s := range c.on {
				o.on = append(o.on, s.object)
				s.load++
			}
		}
		w.enter(c, o)
	}
	if c.op.leans() {
		for _, s := range c.on {
			s.load--
		}
	}
}

// leans reports whether what the operation makes stands on its objects.
func (op *Op) leans() bool { return op.Makes != "" && !op.Apart }

func is(err error, any []error) bool {
	return slices.ContainsFunc(any, func(e error) bool { return errors.Is(err, e) })
}

// enter makes an object known.
func (w *world) enter(c *Call, o *object) {
	o.known = true
	if f := o.with; f != nil {
		f.fellows = append(f.fellows, o)
		o.closes, o.within = f.closes, f.within
	}
	o.lean(1)
	for _, p := range o.on {
		if p.gone && p != o.with {
			w.wrong(c, "made something on %s, which is closed", p)
		}
	}
	if o.with != nil && o.with.gone {
		o.depart()
	}
	of := append(w.all[o.kind], o)
	for i := 0; len(of) > 4 && i < len(of); i++ { // some closed ones stay, to be called
		if of[i].gone {
			of = slices.Delete(of, i, i+1)
		}
	}
	w.all[o.kind] = of
}

// lean adds n to how many lean on what o stands on, if o does and nobody closes it.
func (o *object) lean(n int) {
	if o.known && !o.gone && o.within == 0 {
		for _, p := range o.on {
			p.firm += n
		}
	}
}

// pin notes that o may keep p busy until it is closed.
func (o *object) pin(p *object) {
	if o.gone || o.pins[p] {
		return
	}
	if o.pins == nil {
		o.pins = map[*object]bool{}
	}
	o.pins[p] = true
	p.load++
	p.loads++
}

func (o *object) begin() {
	o.lean(-1)
	o.closes++
	o.within++
	for _, f := range o.fellows {
		f.begin()
	}
}

func (o *object) end(closed bool) {
	for _, f := range o.fellows {
		f.end(closed)
	}
	o.within--
	if closed {
		o.depart()
	} else {
		o.lean(1)
	}
}

// depart lets go of what o stands on.
func (o *object) depart() {
	if o.gone {
		return
	}
	o.lean(-1)
	o.gone = true
	for _, p := range o.on {
		p.load--
	}
	for p := range o.pins {
		p.load--
	}
}

// close closes an object, and reports whether it was willing.
func (w *world) close(o *object) bool {
	defer w.watch("Close of a " + o.kind)()
	w.mu.Lock()
	loaded, loads := o.load > 0 || w.Kinds[o.kind].Lingers, o.loads
	o.begin()
	w.mu.Unlock()
	err := o.it.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	o.end(err == nil)
	w.note(o.kind+".Close", err)
	switch {
	case err == nil && o.firm > 0:
		w.t.Errorf("%s: closed, with %d objects on it", o, o.firm)
	case err != nil && !errors.Is(err, syscall.EBUSY):
		w.t.Errorf("%s: Close: %v", o, err)
	case err != nil && !loaded && loads == o.loads:
		w.t.Errorf("%s: Close: %v, and nothing is on it", o, err)
	}
	return err == nil
}

// closeAll closes what is left, from the top.
func (w *world) closeAll() {
	var left []*object
	for _, of := range w.all {
		left = append(left, slices.DeleteFunc(slices.Clone(of), func(o *object) bool { return o.gone })...)
	}
	for end := time.Now().Add(patience); len(left) > 0; {
		busy := slices.DeleteFunc(slices.Clone(left), w.close)
		if len(busy) == len(left) && (time.Now().After(end) || !slices.ContainsFunc(busy, w.lingers)) {
			w.t.Errorf("these cannot be closed: %v", busy)
			return
		}
		left = busy
	}
}

func (w *world) lingers(o *object) bool { return w.Kinds[o.kind].Lingers }

func (w *world) note(name string, err error) {
	if w.told[name] == nil {
		w.told[name] = map[string]int{}
	}
	said := "refused"
	switch {
	case err == nil:
		said = "ok"
	case errors.Is(err, net.ErrClosed):
		said = "closed"
	case errors.Is(err, syscall.EBUSY):
		said = "busy"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		said = "context"
	}
	w.told[name][said]++
}

func (w *world) wrong(c *Call, format string, args ...any) {
	var on []string
	for _, s := range c.on {
		on = append(on, s.String())
	}
	w.t.Errorf("%s(%s), context %v: %s", c.op.Name, strings.Join(on, ", "), c.Ctx.Err(), fmt.Sprintf(format, args...))
}

func (o *object) String() string {
	return fmt.Sprintf("%s %p (closed %t, %d Closes, %d within)", o.kind, o.it, o.gone, o.closes, o.within)
}
