package ibv

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/railbind/railbind/cgo"
)

// WQ is a receive queue of its own, over which a queue pair with an RSSTable
// spreads what it receives. What SRQ says of memory in flight holds for it too. No
// software device has any (errors.ErrUnsupported): what is here was compiled, and
// never run on a device that does. Safe for concurrent use.
type WQ struct {
	poster
	h   cgo.WQ
	rec *cgo.SRQRecord
	sge int
}

// WQState is the state of a WQ.
type WQState uint32

// States of a WQ. Receives can be posted, and frames taken, in WQReady.
const (
	WQReset WQState = 0
	WQReady WQState = 1
	WQErr   WQState = 2
)

func (s WQState) String() string {
	return name("WQState", map[WQState]string{WQReset: "RESET", WQReady: "RDY", WQErr: "ERR"}, s)
}

func (w *WQ) life() *node {
	if w == nil {
		return nil
	}
	return w.node
}

// CreateWQ creates a receive queue with room for recvs receives of sges pieces of
// memory each, whose completions go to cq. It is in WQReset.
//
// Implements: struct ibv_wq *ibv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr)
func (p *PD) CreateWQ(cq *CQ, recvs, sges int) (*WQ, error) {
	const op = "create WQ"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	if err := cq.life().enter(op); err != nil {
		return nil, err
	}
	defer cq.node.leave()
	if err := sameContext(op, p.node.name, p.ctx, cq.ctx); err != nil {
		return nil, err
	}
	if recvs <= 0 || recvs > 1<<30 || sges <= 0 || sges > 1<<16 {
		return nil, invalid(op, p.node.name, ErrInvalid, "%d receives of %d SGEs", recvs, sges)
	}
	h, n, sge, err := p.h.CreateWQ(cq.h, uint32(recvs), uint32(sges))
	if err != nil {
		return nil, fail(op, p.node.name, err)
	}
	rec, err := cgo.NewWQRecord(h)
	if err != nil {
		return nil, errors.Join(fail(op, p.node.name, err), h.Destroy())
	}
	w := &WQ{
		poster: sharedPoster(p, rec),
		h:      h, rec: rec, sge: int(sge),
	}
	w.node = newNode(fmt.Sprintf("WQ of %d on %s", n, p.ctx.name), rec, p.node, cq.node)
	full := &Error{Op: "post receive", Object: w.node.name, Kind: ErrQueueFull}
	w.refused = func(op string, p cgo.Posted, n int) error { return sharedError(op, w.node.name, full, p, n) }
	return watch(w, w.node), nil
}

// Modify moves the queue to another state.
//
// Implements: int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
func (w *WQ) Modify(s WQState) error {
	const op = "modify WQ"
	if err := w.life().enter(op); err != nil {
		return err
	}
	defer w.node.leave()
	if err := w.h.Modify(uint32(s)); err != nil {
		return &Error{Op: op, Object: w.node.name, Err: err, Hint: "to " + s.String()}
	}
	return nil
}

// NewRecvBatch makes a batch of receives for the queue.
//
// Implements: int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr, struct ibv_recv_wr **bad_recv_wr)
func (w *WQ) NewRecvBatch(cfg BatchConfig) (*RecvBatch, error) {
	const op = "make receive batch"
	if err := w.life().enter(op); err != nil {
		return nil, err
	}
	defer w.node.leave()
	b, err := newRecvBatch(op, &w.poster, cfg, w.sge)
	if b != nil {
		b.shared = true
	}
	return b, err
}

// Close destroys the queue; a *BusyError names the tables that are left on it.
//
// Implements: int ibv_destroy_wq(struct ibv_wq *wq)
func (w *WQ) Close() error {
	return w.life().close(func() error {
		w.rec.Shut()
		if err := w.h.Destroy(); err != nil {
			w.rec.Reopen()
			return fail("destroy WQ", w.node.name, err)
		}
		w.rec.Gone()
		w.forget()
		return nil
	})
}

// RSSTable is what a hash is looked up in: a receive queue for each value of its
// lowest bits. Safe for concurrent use.
type RSSTable struct {
	node *node
	h    cgo.IndTable
	ctx  *Context
}

func (t *RSSTable) life() *node {
	if t == nil {
		return nil
	}
	return t.node
}

// CreateRSSTable makes a table of queues, a power of two of them.
//
// Implements: struct ibv_rwq_ind_table *ibv_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
func (c *Context) CreateRSSTable(wqs ...*WQ) (*RSSTable, error) {
	const op = "create RSS table"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	if bits.OnesCount(uint(len(wqs))) != 1 {
		return nil, invalid(op, c.name, ErrInvalid, "%d queues, which is no power of two", len(wqs))
	}
	parents := []*node{c.node}
	hs := make([]cgo.WQ, len(wqs))
	for i, w := range wqs {
		if err := w.life().enter(op); err != nil {
			return nil, err
		}
		defer w.node.leave()
		if err := sameContext(op, c.name, c, w.pd.ctx); err != nil {
			return nil, err
		}
		hs[i] = w.h
		parents = append(parents, w.node)
	}
	h, err := c.h.CreateIndTable(bits.TrailingZeros(uint(len(wqs))), hs)
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	n := newNode(fmt.Sprintf("RSS table of %d on %s", len(wqs), c.name), nil, parents...)
	return watch(&RSSTable{n, h, c}, n), nil
}

// RSSConfig says how frames are spread over a table's queues.
type RSSConfig struct {
	Type     QPType // RawPacket, or UD. Default RawPacket
	Function uint8  // enum ibv_rx_hash_function_flags. Default Toeplitz
	Key      []byte // of the function, at most 255 bytes
	Fields   uint64 // enum ibv_rx_hash_fields: what of a frame is hashed
}

// CreateQP creates a queue pair that receives into the table's queues, each frame
// into the one that its hash says, and sends nothing.
//
// Implements: struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_init_attr_ex)
func (t *RSSTable) CreateQP(pd *PD, cfg RSSConfig) (*QP, error) {
	const op = "create QP"
	if err := t.life().enter(op); err != nil {
		return nil, err
	}
	defer t.node.leave()
	if len(cfg.Key) > 255 {
		return nil, invalid(op, t.node.name, ErrInvalid, "a key of %d bytes, at most 255", len(cfg.Key))
	}
	var h cgo.QP
	return NewQP(t.ctx, pd, QPConfig{Type: or(cfg.Type, RawPacket), table: t},
		func(pd cgo.PD, a *cgo.QPInitAttr) (_ cgo.QP, err error) {
			h, err = pd.CreateRSS(a, t.h, or(cfg.Function, 1), cfg.Key, cfg.Fields)
			return h, err
		},
		func() error { return h.Destroy() })
}

// Close destroys the table; a *BusyError names the queue pairs that are left on it.
//
// Implements: int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
func (t *RSSTable) Close() error {
	return t.life().close(func() error {
		if err := t.h.Destroy(); err != nil {
			return fail("destroy RSS table", t.node.name, err)
		}
		return nil
	})
}
