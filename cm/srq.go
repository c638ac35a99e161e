package cm

import (
	"fmt"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/ibv"
)

// CreateSRQ makes a shared receive queue on the id's device, in a PD of that
// device. CreateQP's queue pair takes its receives from it, unless its
// configuration names another; so can the queue pairs of other ids on the same
// device. It is the caller's to close, after those queue pairs, and may outlive
// the id. One made by (*ibv.PD).CreateSRQ does as well.
//
// Errors: ErrState, also where the id has one; ibv.ErrForeignContext where pd or
// what cfg names is of another device, or of another opening of the same one.
//
// Implements: int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
// and int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
// and void rdma_destroy_srq(struct rdma_cm_id *id)
func (id *ID) CreateSRQ(pd *ibv.PD, cfg ibv.SRQConfig) (*ibv.SRQ, error) {
	const op = "create shared receive queue"
	if err := id.begin(op, StateBoundDevice, StateListening, StateAddrResolved, StateRouteResolved, StateRequested); err != nil {
		return nil, err
	}
	defer id.step.Unlock()
	switch {
	case id.Context() == nil:
		return nil, id.fail(op, fmt.Errorf("%w: a listener on all addresses is on no device", ErrState))
	case id.SRQ() != nil:
		return nil, id.fail(op, fmt.Errorf("%w: the id has a shared receive queue already", ErrState))
	case pd == nil:
		return nil, id.fail(op, fmt.Errorf("no protection domain given: %w", ErrClosed))
	}
	srq, err := ibv.NewSRQ(id.Context(), pd, cfg, func(pd cgo.PD, a *cgo.SRQInitAttr) (raw cgo.SRQ, destroy func() error, err error) {
		err = id.call(func(h cgo.ID) (err error) {
			raw, err = h.CreateSRQ(pd, a)
			return err
		})
		return raw, func() error { return id.destroySRQ(raw) }, err
	})
	if err != nil {
		return nil, id.fail(op, err)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	id.srq = srq
	return srq, nil
}

// SRQ is the id's shared receive queue, nil where CreateSRQ made none, or it was
// closed.
func (id *ID) SRQ() *ibv.SRQ {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.srq
}

// destroySRQ is the queue's Close. The id knows it as long as it lives.
func (id *ID) destroySRQ(raw cgo.SRQ) error {
	id.calls.Lock()
	defer id.calls.Unlock()
	if id.destroyed {
		return raw.Destroy()
	}
	id.h.DestroySRQ()
	id.mu.Lock()
	defer id.mu.Unlock()
	id.srq = nil
	return nil
}
