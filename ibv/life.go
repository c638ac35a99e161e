package ibv

import (
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
)

// node is an object's place in the ownership tree. It is apart from the object
// itself, so that an object the program dropped without Close can be told from
// one in use, while its node keeps what a device may still write.
type node struct {
	name    string
	keep    any // stays reachable while the object is open
	parents []*node

	// release makes a node close itself once nothing holds it (borrowed contexts).
	release func() error

	calls atomic.Int64  // in flight; closing is set by Close
	idle  chan struct{} // signals that the last call left
	done  chan struct{} // closed once the object is

	closer sync.Mutex // one Close at a time
	closed bool

	mu       sync.Mutex
	children map[*node]struct{}
	holds    int

	dropped atomic.Bool
	stack   []uintptr
}

const closing = 1 << 62

// newNode enters an object into the tree. The caller is in a call of each
// parent, which keeps them open.
func newNode(name string, keep any, parents ...*node) *node {
	n := &node{
		name: name,
		keep: keep,
		idle: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	for _, p := range parents {
		n.join(p)
	}
	objects.add(n)
	return n
}

// join makes n a child of one more parent. The caller is in a call of both.
func (n *node) join(p *node) {
	p.mu.Lock()
	if p.children == nil {
		p.children = make(map[*node]struct{})
	}
	p.children[n] = struct{}{}
	p.mu.Unlock()
	n.mu.Lock()
	n.parents = append(n.parents, p)
	n.mu.Unlock()
}

// watch notes, where tracing is on, that obj was dropped without Close.
func watch[T any](obj *T, n *node) *T {
	if objects.trace.Load() {
		runtime.AddCleanup(obj, func(n *node) { n.dropped.Store(true) }, n)
	}
	return obj
}

// enter begins a call on the object, which cannot be closed before leave. A nil
// node is that of a nil or zero object.
func (n *node) enter(op string) error {
	if n == nil {
		return &Error{Op: op, Object: "nil object", Kind: ErrClosed}
	}
	if n.calls.Add(1)&closing != 0 {
		n.leave()
		return &Error{Op: op, Object: n.name, Kind: ErrClosed}
	}
	return nil
}

// gone reports whether the object is closed, or never was one.
func (n *node) gone() bool {
	if n == nil {
		return true
	}
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}

func (n *node) leave() {
	if n.calls.Add(-1) == closing {
		select {
		case n.idle <- struct{}{}:
		default:
		}
	}
}

// close closes the object: it refuses while children are left, waits for calls
// in flight, and runs destroy, whose error leaves the object open.
func (n *node) close(destroy func() error) error {
	if n == nil {
		return nil
	}
	n.closer.Lock()
	defer n.closer.Unlock()
	if n.closed {
		return nil
	}
	if err := n.busy(); err != nil {
		return err
	}
	for v := n.calls.Add(closing); v != closing; v = n.calls.Load() {
		<-n.idle
	}
	err := n.busy() // a call in flight may have made a child
	if err == nil {
		err = destroy()
	}
	if err != nil {
		n.calls.Add(-closing)
		return err
	}
	n.closed = true
	n.keep = nil
	close(n.done)
	objects.remove(n)
	for _, p := range n.parents {
		p.detach(n)
	}
	return nil
}

func (n *node) busy() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.children) == 0 {
		return nil
	}
	e := &BusyError{Object: n.name}
	for c := range n.children {
		e.Children = append(e.Children, c.name)
	}
	sort.Strings(e.Children)
	return e
}

func (n *node) detach(child *node) {
	n.mu.Lock()
	delete(n.children, child)
	n.mu.Unlock()
	n.settle()
}

// hold and drop count users that are no children.
func (n *node) hold() {
	n.mu.Lock()
	n.holds++
	n.mu.Unlock()
}

func (n *node) drop() {
	n.mu.Lock()
	if n.holds > 0 {
		n.holds--
	}
	n.mu.Unlock()
	n.settle()
}

// settle closes a node that releases itself, once nothing holds it. A child
// made meanwhile makes close refuse, and settles again when it goes.
func (n *node) settle() {
	if n.release == nil {
		return
	}
	n.mu.Lock()
	free := n.holds == 0 && len(n.children) == 0
	n.mu.Unlock()
	if free {
		_ = n.close(func() error {
			n.mu.Lock()
			held := n.holds > 0
			n.mu.Unlock()
			if held {
				return ErrBusy
			}
			return n.release()
		})
	}
}

// objects is every open object; it also keeps the tree reachable.
var objects registry

type registry struct {
	trace atomic.Bool
	mu    sync.Mutex
	m     map[*node]struct{}
}

func (r *registry) add(n *node) {
	if r.trace.Load() {
		n.stack = make([]uintptr, 32)
		n.stack = n.stack[:runtime.Callers(3, n.stack)]
	}
	r.mu.Lock()
	if r.m == nil {
		r.m = make(map[*node]struct{})
	}
	r.m[n] = struct{}{}
	r.mu.Unlock()
}

func (r *registry) remove(n *node) {
	r.mu.Lock()
	delete(r.m, n)
	r.mu.Unlock()
}

// Object describes an open object.
type Object struct {
	Name string
	// Dropped tells that the program cannot reach the object any more and so
	// cannot close it: a leak. Known with tracing on, after a garbage collection.
	Dropped bool
	// Created is where it was made; empty unless tracing was on.
	Created []runtime.Frame
}

// Objects lists the objects of this package that are open, by name. Once package
// cm has been used, there is "context of DEVICE (connection manager's)" for each
// device that it has opened, for the rest of the process's life or until the device
// goes: a check for leaks leaves these out.
func Objects() []Object {
	objects.mu.Lock()
	defer objects.mu.Unlock()
	var out []Object
	for n := range objects.m {
		o := Object{Name: n.name, Dropped: n.dropped.Load()}
		for frames := runtime.CallersFrames(n.stack); len(n.stack) > 0; {
			f, more := frames.Next()
			o.Created = append(o.Created, f)
			if !more {
				break
			}
		}
		out = append(out, o)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// TraceObjects turns the recording of creation stacks and of dropped objects on
// or off, for objects made from then on. Meant for tests: see package ibvtest.
func TraceObjects(on bool) { objects.trace.Store(on) }
