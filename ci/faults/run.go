//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/rpc"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"
)

// again bounds how long it may take after a fault until each connection serves:
// neighbours and the connection manager's own retries have their time.
const again = 2 * time.Minute

func run(ctx context.Context, c config) error {
	chosen := faults
	if c.only != nil {
		chosen = nil
		for _, name := range c.only {
			i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
			if i < 0 {
				return fmt.Errorf("no fault %q: -list names them", name)
			}
			chosen = append(chosen, faults[i])
		}
	}
	agent, err := rpc.Dial("tcp", control)
	if err != nil {
		return err
	}
	r := &runner{config: c, h: &hosts{agent: agent, kind: os.Getenv("RAILBIND_TRANSPORT")}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	fmt.Printf("%-22s %24s  %13s  %9s  %s\n", "", "rounds before/in/after", "longest", "back in", "errors")
	if c.soak > 0 {
		err = r.soakAll(ctx, chosen)
	} else {
		for _, f := range chosen {
			if err = r.each(ctx, f); err != nil {
				break
			}
		}
	}
	if err == nil && !chosen[len(chosen)-1].final {
		err = r.peerLeaks(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Println("PASS: every operation ended in time, no byte was wrong, nothing leaked")
	return nil
}

type runner struct {
	config
	h      *hosts
	before Holdings // with every shared thing in place and no connection
	peer   Holdings

	mu    sync.Mutex
	wrong error
}

func (r *runner) sawWrong(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = errors.Join(r.wrong, err)
}

// warmUp makes what the process keeps: event channel, devices, look-ups.
func (r *runner) warmUp(ctx context.Context) error {
	all, stop := r.start(ctx)
	err := r.watch(ctx, all, again, "traffic on a sound network", served(all, time.Now()))
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	pause(ctx, time.Second)
	if r.before, err = steady(func() (Holdings, error) { return holdingsOf(os.Getpid()) }); err != nil {
		return err
	}
	r.peer, err = steady(r.atPeer)
	return err
}

// atPeer is what the server holds.
func (r *runner) atPeer() (h Holdings, err error) {
	err = r.h.agent.Call("Agent.Holdings", struct{}{}, &h)
	return h, err
}

// start starts workers; stop ends them.
func (r *runner) start(ctx context.Context) (all []*worker, stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	all = workers(r.conns, r.sawWrong)
	var group sync.WaitGroup
	for _, w := range all {
		group.Go(func() { w.run(ctx) })
	}
	return all, func() error {
		cancel()
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		select {
		case <-done:
			return nil
		case <-time.After(late):
			return r.hang(errors.New("the workers do not end: HANG"))
		}
	}
}

func (r *runner) hang(err error) error {
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
	return err
}

// bounded makes a fault, or mends it. That may have to wait for this process, and
// what waits in the kernel cannot always be killed.
func (r *runner) bounded(what string, step func(*hosts) error) error {
	done := make(chan error, 1)
	go func() { done <- step(r.h) }()
	select {
	case err := <-done:
		return err
	case <-time.After(again):
		return r.hang(fmt.Errorf("%s: not done after %v: HANG%s", what, again, asleep()))
	}
}

// watch waits until done says so, and looks for what hangs meanwhile.
func (r *runner) watch(ctx context.Context, all []*worker, limit time.Duration, what string, done func() bool) error {
	end := time.Now().Add(limit)
	for !done() {
		for _, w := range all {
			if err := w.stuck(); err != nil {
				return r.hang(err)
			}
		}
		r.mu.Lock()
		err := r.wrong
		r.mu.Unlock()
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err == nil && limit > 0 && time.Now().After(end) {
			err = fmt.Errorf("%s: not after %v: %s", what, limit, silent(all))
		}
		if err != nil {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// silent says what last went wrong, of workers that went wrong.
func silent(all []*worker) string {
	lines := map[string]bool{}
	for _, w := range all {
		w.mu.Lock()
		for _, err := range w.example {
			lines[fmt.Sprintf("\n  %v: %v", w, err)] = true
		}
		w.mu.Unlock()
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "")
}

func served(all []*worker, since time.Time) func() bool {
	return func() bool {
		return !slices.ContainsFunc(all, func(w *worker) bool { return !w.servedSince(since) })
	}
}

// each makes one fault under workers of its own, and looks for leaks.
func (r *runner) each(ctx context.Context, f fault) error {
	all, stop := r.start(ctx)
	err := r.under(ctx, all, f)
	if err = errors.Join(err, stop()); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := r.leaks(ctx); err != nil {
		return r.hang(fmt.Errorf("%s: %w", f.name, err))
	}
	return nil
}

// soakAll keeps the workers, and draws faults until the time is over.
func (r *runner) soakAll(ctx context.Context, chosen []fault) error {
	chosen = slices.DeleteFunc(slices.Clone(chosen), func(f fault) bool { return f.final })
	draw := rand.New(rand.NewPCG(uint64(r.seed), 0))
	all, stop := r.start(ctx)
	var err error
	for end := time.Now().Add(r.soak); err == nil && time.Now().Before(end); {
		f := chosen[draw.IntN(len(chosen))]
		if err = r.under(ctx, all, f); err != nil {
			err = fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	c := tally(all)
	fmt.Printf("all: %d rounds, %d connections, errors: %s\n", c.rounds, c.dials, c.since(counts{}))
	return r.leaks(ctx)
}

// leaks waits until this process holds no more than at the beginning. siw does not
// let go of a connect before TCP has given up, after 127 s.
func (r *runner) leaks(ctx context.Context) error {
	return r.before.awaitNoMore(ctx, 3*time.Minute, func() (Holdings, error) { return holdingsOf(os.Getpid()) })
}

// under is the fault itself: traffic, strike, hold, mend, traffic again.
func (r *runner) under(ctx context.Context, all []*worker, f fault) error {
	if err := r.watch(ctx, all, again, "traffic before the fault", served(all, time.Now())); err != nil {
		return err
	}
	first := tally(all)
	if err := r.bounded("the fault", f.strike); err != nil {
		return err
	}
	end := time.Now().Add(r.hold)
	err := r.watch(ctx, all, 0, "", func() bool { return time.Now().After(end) })
	struck := tally(all)
	if mendErr := r.bounded("mending it", f.mend); err == nil {
		err = mendErr
	}
	if err != nil {
		return err
	}
	mended := time.Now()
	if f.final {
		err = r.watch(ctx, all, again, "errors after the fault", func() bool {
			return !slices.ContainsFunc(all, func(w *worker) bool { return !w.hasFailed() })
		})
	} else {
		err = r.watch(ctx, all, again, "traffic after the fault", served(all, mended))
	}
	last := tally(all)
	fmt.Printf("%-22s %24s  %13s  %9v  %s\n", f.name,
		fmt.Sprintf("%d/%d/%d", first.rounds, struck.rounds-first.rounds, last.rounds-struck.rounds),
		fmt.Sprintf("%s %.1fs", last.slowest, last.longest.Seconds()), time.Since(mended).Round(10*time.Millisecond), last.since(first))
	if err != nil || f.final {
		return err
	}
	if f.rail1 && last.rail0 != first.rail0 {
		clean := slices.DeleteFunc(slices.Clone(all), func(w *worker) bool { return w.rail != 0 })
		return fmt.Errorf("rail 0, which has no fault, noticed: %s", silent(clean))
	}
	var wrong bool
	if err := r.h.agent.Call("Agent.Wrong", struct{}{}, &wrong); err != nil || wrong {
		return errors.Join(err, fmt.Errorf("at the server: %w", errWrong))
	}
	return nil
}

// peerLeaks asks whether the server holds more than at the beginning. Of a client
// that went without a word it hears when its own wait is over.
func (r *runner) peerLeaks(ctx context.Context) error {
	err := r.peer.awaitNoMore(ctx, 6*deadline, r.atPeer)
	if err != nil {
		err = errors.Join(fmt.Errorf("at the server: %w", err), r.h.agent.Call("Agent.Stacks", struct{}{}, new(struct{})))
	}
	return err
}

// counts are what workers have done together.
type counts struct {
	rounds  int
	dials   int
	failed  map[string]int
	longest time.Duration
	slowest string
	rail0   int // errors there
}

func tally(all []*worker) counts {
	c := counts{failed: map[string]int{}}
	for _, w := range all {
		w.mu.Lock()
		c.rounds += w.rounds
		c.dials += w.dials
		if w.longest > c.longest {
			c.longest, c.slowest = w.longest, w.slowest
		}
		for k, n := range w.failed {
			c.failed[k] += n
			if w.rail == 0 {
				c.rail0 += n
			}
		}
		w.mu.Unlock()
	}
	return c
}

// since says which errors are new.
func (c counts) since(before counts) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(c.failed)) {
		if n := c.failed[k] - before.failed[k]; n > 0 {
			list = append(list, fmt.Sprintf("%s %d", k, n))
		}
	}
	return strings.Join(list, ", ")
}
