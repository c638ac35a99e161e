package ibv

import (
	"sync"

	"github.com/railbind/railbind/cgo"
)

// PD is a protection domain: a memory region and a queue pair work together
// only within one. Safe for concurrent use.
type PD struct {
	node    *node
	h       cgo.PD
	ctx     *Context
	destroy func() error

	// uses guards who uses which memory region: the tables of all MRs and QPs. A
	// parent domain shares it with the domain it was made of.
	uses *sync.Mutex
}

func (p *PD) life() *node {
	if p == nil {
		return nil
	}
	return p.node
}

// AllocPD allocates a protection domain.
//
// Implements: struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (c *Context) AllocPD() (*PD, error) {
	const op = "allocate PD"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	h, err := c.h.AllocPD()
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	return newPD(c, h, h.Dealloc), nil
}

func newPD(c *Context, h cgo.PD, destroy func() error) *PD {
	n := newNode("PD on "+c.name, nil, c.node)
	return watch(&PD{node: n, h: h, ctx: c, destroy: destroy, uses: new(sync.Mutex)}, n)
}

// Context returns the device that the domain belongs to.
func (p *PD) Context() *Context {
	if p == nil {
		return nil
	}
	return p.ctx
}

// Close frees the domain; a *BusyError names the memory regions and queue pairs
// that are left.
//
// Implements: int ibv_dealloc_pd(struct ibv_pd *pd)
func (p *PD) Close() error {
	return p.life().close(func() error {
		if err := p.destroy(); err != nil {
			return fail("free PD", p.ctx.name, err)
		}
		return nil
	})
}
