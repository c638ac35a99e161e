package cm

import (
	"fmt"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// CreateQP makes the id's queue pair on the id's device, in a PD and with CQs
// of that device; librdmacm moves it through its states. The id's Close closes
// it; so may the caller, before.
//
// Errors: ErrState, ibv.ErrForeignContext where pd belongs to another device or
// to another opening of the same one (take it from id.Context()).
//
// Implements: int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
func (id *ID) CreateQP(pd *ibv.PD, cfg ibv.QPConfig) (*ibv.QP, error) {
	const op = "create queue pair"
	if err := id.begin(op, StateBoundDevice, StateAddrResolved, StateRouteResolved, StateRequested); err != nil {
		return nil, err
	}
	defer id.step.Unlock()
	ctx := id.Context()
	switch {
	case id.QP() != nil:
		return nil, id.fail(op, fmt.Errorf("%w: the id has a queue pair already", ErrState))
	case pd == nil:
		return nil, id.fail(op, fmt.Errorf("no protection domain given: %w", ErrClosed))
	case pd.Context() != ctx:
		return nil, id.fail(op, foreignPD(pd, ctx))
	}
	var raw cgo.QP
	qp, err := ibv.NewQP(pd, cfg, func(pd cgo.PD, attr *cgo.QPInitAttr) (cgo.QP, error) {
		err := id.call(func(h cgo.ID) (err error) {
			raw, err = h.CreateQP(pd, attr)
			return err
		})
		return raw, err
	}, func() error { return id.destroyQP(raw) })
	if err != nil {
		return nil, id.fail(op, err)
	}
	qp.Track(ibv.QPInit, 0, 0)
	id.mu.Lock()
	closing := id.closing
	if !closing {
		id.qp = qp
	}
	id.mu.Unlock()
	if closing {
		_ = qp.Close()
		return nil, id.fail(op, ErrClosed)
	}
	return qp, nil
}

// foreignPD says whose the PD is: librdmacm opens devices itself, and a PD of
// another opening of the same device answers with a bare EINVAL.
func foreignPD(pd *ibv.PD, ctx *ibv.Context) error {
	hint := fmt.Sprintf("the PD is on %s, the id on %s", pd.Context().Name(), ctx.Name())
	if pd.Context().Name() == ctx.Name() {
		hint = fmt.Sprintf("the PD is of another opening of %s: allocate it from the id's Context", ctx.Name())
	}
	return &ibv.Error{Op: "create QP", Object: ctx.Name(), Kind: ibv.ErrForeignContext, Hint: hint}
}

// destroyQP is the QP's Close. While the id lives, the pump may be inside
// librdmacm moving this very QP, so it is kept out; afterwards nobody else
// knows the QP.
func (id *ID) destroyQP(raw cgo.QP) error {
	id.calls.RLock()
	defer id.calls.RUnlock()
	if id.destroyed {
		return raw.Destroy()
	}
	id.ch.fetch.Lock()
	defer id.ch.fetch.Unlock()
	id.h.DestroyQP()
	return nil
}
