package cm

import (
	"fmt"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// CreateQP makes the id's queue pair on the id's device, in a PD and with CQs
// of that device; librdmacm moves it through its states, and a UD queue pair, the
// only type of an id of datagrams, is ready at once. The id's Close closes it; so
// may the caller, before, which ends the connection. Where CreateSRQ has made a
// shared receive queue, the queue pair takes its receives from it.
//
// Errors: ErrState, ibv.ErrForeignContext where pd belongs to another device or
// to another opening of the same one (take it from id.Context()).
//
// Implements: int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
// and int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
func (id *ID) CreateQP(pd *ibv.PD, cfg ibv.QPConfig) (*ibv.QP, error) {
	const op = "create queue pair"
	if err := id.begin(op, StateBoundDevice, StateAddrResolved, StateRouteResolved, StateRequested); err != nil {
		return nil, err
	}
	defer id.step.Unlock()
	ctx := id.Context()
	switch {
	case id.cfg.PortSpace.datagrams() && cfg.Type != 0 && cfg.Type != ibv.UD:
		return nil, id.fail(op, fmt.Errorf("%w: ids of the port space %v have UD queue pairs, not %v", ibv.ErrInvalid, id.cfg.PortSpace, cfg.Type))
	case id.QP() != nil:
		return nil, id.fail(op, fmt.Errorf("%w: the id has a queue pair already", ErrState))
	case pd == nil:
		return nil, id.fail(op, fmt.Errorf("no protection domain given: %w", ErrClosed))
	}
	state := ibv.QPInit
	if id.cfg.PortSpace.datagrams() { // whose QP librdmacm makes ready at once
		cfg.Type, state = ibv.UD, ibv.QPRTS
	}
	if cfg.SRQ == nil { // librdmacm would take it too
		cfg.SRQ = id.SRQ()
	}
	var raw cgo.QP
	qp, err := ibv.NewQP(ctx, pd, cfg, func(pd cgo.PD, attr *cgo.QPInitAttr) (cgo.QP, error) {
		err := id.call(func(h cgo.ID) (err error) {
			raw, err = h.CreateQP(pd, attr)
			return err
		})
		return raw, err
	}, func() error { return id.destroyQP(raw) })
	if err != nil {
		return nil, id.fail(op, id.explainNoQP(err))
	}
	qp.Track(state, 0, 0)
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

// explainNoQP tells a request whose peer has given up from a QP that cannot be:
// the kernel keeps the events of a request to itself until it is accepted.
func (id *ID) explainNoQP(err error) error {
	if id.State() == StateRequested && id.call(cgo.ID.MayHaveQP) != nil {
		return fmt.Errorf("%w: the peer has given up this request: %w", ErrDisconnected, err)
	}
	return err
}

// destroyQP is the QP's Close. While the id lives, a step or the pump may be
// inside librdmacm moving this very QP, so both are kept out; afterwards nobody
// else knows the QP.
func (id *ID) destroyQP(raw cgo.QP) error {
	id.leaveAll()
	id.calls.Lock()
	defer id.calls.Unlock()
	if id.destroyed {
		return raw.Destroy()
	}
	id.ch.fetch.Lock()
	defer id.ch.fetch.Unlock()
	id.h.DestroyQP()
	id.mu.Lock()
	defer id.mu.Unlock()
	id.qp = nil
	if id.state == StateConnected && !id.cfg.PortSpace.datagrams() {
		id.hangUp() // a connection without its QP is none, for the peer too
	}
	return nil
}
