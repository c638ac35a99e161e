package ibv

import "github.com/railbind/railbind/cgo"

// ThreadDomain is a promise to the provider: what is made with it, by way of a
// parent domain, is used by one goroutine at a time, so that the provider may
// leave out its locks. It is the caller's to keep.
type ThreadDomain struct {
	node    *node
	h       cgo.TD
	ctx     *Context
	destroy func() error
}

func (t *ThreadDomain) life() *node {
	if t == nil {
		return nil
	}
	return t.node
}

// AllocThreadDomain makes a thread domain. Where the provider has none, the
// error matches errors.ErrUnsupported.
//
// Implements: struct ibv_td *ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
func (c *Context) AllocThreadDomain() (*ThreadDomain, error) {
	const op = "allocate thread domain"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	h, err := c.h.AllocTD()
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	n := newNode("thread domain on "+c.name, nil, c.node)
	return watch(&ThreadDomain{node: n, h: h, ctx: c, destroy: h.Dealloc}, n), nil
}

// Close frees the thread domain; a *BusyError names the parent domains that are
// left.
//
// Implements: int ibv_dealloc_td(struct ibv_td *td)
func (t *ThreadDomain) Close() error {
	return t.life().close(func() error {
		if err := t.destroy(); err != nil {
			return fail("free thread domain", t.node.name, err)
		}
		return nil
	})
}

// Parent makes a parent domain: a protection domain that is this one, together
// with a thread domain (nil for none). Its objects work with those of this one.
// Where the provider has none, the error matches errors.ErrUnsupported.
//
// Implements: struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
func (p *PD) Parent(t *ThreadDomain) (*PD, error) {
	const op = "allocate parent domain"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	parents := []*node{p.ctx.node, p.node}
	var td cgo.TD
	if t != nil {
		if err := t.life().enter(op); err != nil {
			return nil, err
		}
		defer t.node.leave()
		if err := sameContext(op, t.node.name, p.ctx, t.ctx); err != nil {
			return nil, err
		}
		td = t.h
		parents = append(parents, t.node)
	}
	h, err := p.h.AllocParentDomain(td)
	if err != nil {
		return nil, fail(op, p.node.name, err)
	}
	n := newNode("parent domain on "+p.ctx.name, nil, parents...)
	destroy := h.Dealloc
	if p.ctx.fakeDealloc != nil {
		destroy = func() error { return p.ctx.fakeDealloc(h) }
	}
	return watch(&PD{node: n, h: h, ctx: p.ctx, destroy: destroy, uses: p.uses}, n), nil
}
