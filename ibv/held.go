package ibv

import (
	"fmt"

	"github.com/railbind/railbind/cgo"
)

// held is what requests in flight hold on to, a memory region or an address
// handle: it cannot be closed before they are done.
type held struct {
	node *node
	pd   *PD
	uses map[*use]struct{} // guarded by pd.uses; nil once closed
}

// newHeld is what the object of a node of a protection domain begins with.
func newHeld(n *node, pd *PD) held {
	return held{node: n, pd: pd, uses: make(map[*use]struct{})}
}

// poster is what requests are posted to: a QP, or an SRQ.
type poster struct {
	node *node
	pd   *PD
	uses map[*held]*use // guarded by pd.uses; nil once closed

	keep    any // the record in C memory
	addr    uintptr
	record  func() (*cgo.UseRecord, error)
	refused func(op string, p cgo.Posted, n int) error
}

// sharedPoster is that of a queue whose receives any queue pair may take.
func sharedPoster(pd *PD, rec *cgo.SRQRecord) poster {
	return poster{pd: pd, uses: make(map[*held]*use), keep: rec, addr: rec.Addr(),
		record: func() (*cgo.UseRecord, error) { return cgo.NewSRQUseRecord(rec) }}
}

// use is one poster's use of what is held.
type use struct {
	of  *held
	mr  *MR // where it is one
	by  *poster
	rec *cgo.UseRecord
}

// use finds or makes the record of the use of h, which is m where it is a region.
func (q *poster) use(op string, h *held, m *MR) (*use, error) {
	if h == nil || h.node == nil {
		return nil, &Error{Op: op, Object: "nil object", Kind: ErrClosed}
	}
	if h.pd.uses != q.pd.uses { // a parent domain goes with its own
		return nil, foreignPD(op, q.node.name, h.node)
	}
	q.pd.uses.Lock()
	defer q.pd.uses.Unlock()
	if u := q.uses[h]; u != nil {
		return u, nil
	}
	if h.uses == nil {
		return nil, &Error{Op: op, Object: h.node.name, Kind: ErrClosed}
	}
	if q.uses == nil {
		return nil, &Error{Op: op, Object: q.node.name, Kind: ErrClosed}
	}
	rec, err := q.record()
	if err != nil {
		return nil, fail(op, q.node.name, err)
	}
	u := &use{h, m, q, rec}
	q.uses[h], h.uses[u] = u, struct{}{}
	return u, nil
}

// foreignPD refuses an object of another protection domain.
func foreignPD(op, object string, n *node) error {
	return &Error{Op: op, Object: object, Kind: ErrForeignPD, Hint: n.name + " belongs to another PD"}
}

// reach refuses piece i of the memory for an object of the domain, where it is of
// another one, or not within its region. The region is in use.
func (p *PD) reach(op, object string, i int, s SGE) error {
	if s.MR.pd.uses != p.uses {
		return foreignPD(op, object, s.MR.node)
	}
	if !inside(s.Offset, s.Length, s.MR.size) {
		return invalid(op, object, ErrOutOfRange, "piece %d: %d bytes at offset %d of %s", i, s.Length, s.Offset, s.MR.node.name)
	}
	return nil
}

// forget ends all uses: the poster is destroyed, and the device done with them.
func (q *poster) forget() {
	q.pd.uses.Lock()
	defer q.pd.uses.Unlock()
	for h, u := range q.uses {
		delete(h.uses, u)
	}
	q.uses = nil
}

// closeWith destroys what is held, unless a request in flight uses it; from then
// on no post that names it is accepted.
func (h *held) closeWith(op string, destroy func() error) error {
	if err := h.retire(); err != nil {
		return err
	}
	if err := destroy(); err != nil {
		h.reopen()
		return fail(op, h.node.name, err)
	}
	h.pd.uses.Lock()
	defer h.pd.uses.Unlock()
	for u := range h.uses {
		delete(u.by.uses, h)
	}
	h.uses = nil
	return nil
}

// retire refuses posts that use it, and is undone where one of those posted
// before is in flight.
func (h *held) retire() error {
	h.pd.uses.Lock()
	defer h.pd.uses.Unlock()
	var busy []string
	for u := range h.uses {
		u.rec.SetClosed(true)
		if u.rec.Busy() {
			busy = append(busy, fmt.Sprintf("requests in flight on %s", u.by.node.name))
		}
	}
	if busy == nil {
		return nil
	}
	for u := range h.uses {
		u.rec.SetClosed(false)
	}
	return &BusyError{Object: h.node.name, Children: busy}
}

func (h *held) reopen() {
	h.pd.uses.Lock()
	defer h.pd.uses.Unlock()
	for u := range h.uses {
		u.rec.SetClosed(false)
	}
}
