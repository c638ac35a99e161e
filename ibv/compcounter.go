package ibv

import (
	"strings"

	"github.com/railbind/railbind/cgo"
)

// CompCounter counts requests as they complete, apart from their completions and
// also where they make none: how many have succeeded, and how many have failed.
// Queue pairs are attached to it. Both counts wrap at CompCounterCaps.Max.
//
// It needs rdma-core 65 and a device that counts (EFA's so far); without, the
// error matches errors.ErrUnsupported. What is here ran on the fake provider only.
// Safe for concurrent use.
type CompCounter struct {
	node *node
	h    cgo.CompCounter
	ctx  *Context
}

// CompCounterKind is what a counter counts.
type CompCounterKind uint32

// Kinds of completion counters.
const (
	CountRequests CompCounterKind = 0
	CountData     CompCounterKind = 1 // bytes of the requests
)

func (k CompCounterKind) String() string {
	return name("CompCounterKind", map[CompCounterKind]string{CountRequests: "requests", CountData: "bytes"}, k)
}

// CompOps is a set of operations of a queue pair.
type CompOps uint32

// Operations that can be counted: those of the queue pair's own, and those of its
// peer on this side's memory, which have no completion here.
const (
	CompSend        CompOps = 1 << 0
	CompRecv        CompOps = 1 << 1
	CompRead        CompOps = 1 << 2
	CompRemoteRead  CompOps = 1 << 3
	CompWrite       CompOps = 1 << 4
	CompRemoteWrite CompOps = 1 << 5
)

var compOpNames = []bitName[CompOps]{
	{CompSend, "Send"}, {CompRecv, "Recv"}, {CompRead, "Read"}, {CompRemoteRead, "RemoteRead"},
	{CompWrite, "Write"}, {CompRemoteWrite, "RemoteWrite"},
}

func (o CompOps) String() string {
	return or(strings.Join(bitNames(o, compOpNames), "|"), "none")
}

// CompCounterCaps is what completion counters a device has.
type CompCounterCaps struct {
	Max      uint64 // the largest count
	Counters int    // that can be there at once
	Ops      CompOps
}

// CompCounterCaps asks what completion counters the device has.
//
// Implements: static inline int ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps)
func (c *Context) CompCounterCaps() (CompCounterCaps, error) {
	const op = "query completion counters"
	if err := c.life().enter(op); err != nil {
		return CompCounterCaps{}, err
	}
	defer c.node.leave()
	most, n, ops, err := c.h.QueryCompCounterCaps()
	if err != nil {
		return CompCounterCaps{}, unknownCall(fail(op, c.name, err))
	}
	return CompCounterCaps{most, int(n), CompOps(ops)}, nil
}

func (n *CompCounter) life() *node {
	if n == nil {
		return nil
	}
	return n.node
}

// CreateCompCounter makes a completion counter, both of whose counts are 0.
//
// Implements: struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *cc_attr)
func (c *Context) CreateCompCounter(k CompCounterKind) (*CompCounter, error) {
	const op = "create completion counter"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	h, err := c.h.CreateCompCounter(uint32(k))
	if err != nil {
		return nil, unknownCall(fail(op, c.name, err))
	}
	n := newNode("completion counter of "+k.String()+" on "+c.name, nil, c.node)
	return watch(&CompCounter{n, h, c}, n), nil
}

// AttachCompCounter lets n count the queue pair's completions of ops from now on,
// in RESET or INIT. An operation has one counter at most; several queue pairs may
// share one. It stays attached, and cannot be closed, until the queue pair is.
//
// Implements: int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr, struct ibv_qp_attach_comp_cntr_attr *attr)
func (q *QP) AttachCompCounter(n *CompCounter, ops CompOps) error {
	const op = "attach completion counter"
	if err := q.life().enter(op); err != nil {
		return err
	}
	defer q.node.leave()
	if err := n.life().enter(op); err != nil {
		return err
	}
	defer n.node.leave()
	if err := sameContext(op, q.node.name, q.pd.ctx, n.ctx); err != nil {
		return err
	}
	if ops == 0 {
		return invalid(op, q.node.name, ErrInvalid, "no operation to count")
	}
	if s := q.State(); s != QPReset && s != QPInit {
		return &Error{Op: op, Object: q.node.name, Kind: ErrQPState, Hint: "it is in " + s.String() + ", and has to be in RESET or INIT"}
	}
	if err := q.h.AttachCompCounter(n.h, uint32(ops)); err != nil {
		return &Error{Op: op, Object: q.node.name, Err: err, Hint: ops.String()}
	}
	q.node.join(n.node)
	return nil
}

// Read gives both counts; one that was just changed may come a little later.
//
// Implements: int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
// and int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
func (n *CompCounter) Read() (succeeded, failed uint64, err error) {
	err = n.do("read completion counter", func(h cgo.CompCounter) error {
		if succeeded, err = h.Read(); err != nil {
			return err
		}
		failed, err = h.ReadErrors()
		return err
	})
	return succeeded, failed, err
}

// Set sets the count of what has succeeded. What completes meanwhile may be lost.
//
// Implements: int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
func (n *CompCounter) Set(v uint64) error {
	return n.do("set completion counter", func(h cgo.CompCounter) error { return h.Set(v) })
}

// SetFailed sets the count of what has failed; see Set.
//
// Implements: int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
func (n *CompCounter) SetFailed(v uint64) error {
	return n.do("set completion counter", func(h cgo.CompCounter) error { return h.SetErrors(v) })
}

// Add adds to the count of what has succeeded.
//
// Implements: int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
func (n *CompCounter) Add(v uint64) error {
	return n.do("add to completion counter", func(h cgo.CompCounter) error { return h.Add(v) })
}

// AddFailed adds to the count of what has failed.
//
// Implements: int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
func (n *CompCounter) AddFailed(v uint64) error {
	return n.do("add to completion counter", func(h cgo.CompCounter) error { return h.AddErrors(v) })
}

func (n *CompCounter) do(op string, f func(cgo.CompCounter) error) error {
	if err := n.life().enter(op); err != nil {
		return err
	}
	defer n.node.leave()
	if err := f(n.h); err != nil {
		return fail(op, n.node.name, err)
	}
	return nil
}

// Close destroys the counter; a *BusyError names the queue pairs that it counts for.
//
// Implements: int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr)
func (n *CompCounter) Close() error {
	return n.life().close(func() error {
		if err := n.h.Destroy(); err != nil {
			return fail("destroy completion counter", n.node.name, err)
		}
		return nil
	})
}
