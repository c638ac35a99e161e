package cm

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// QPAttr gives the attributes, and their mask, that move a queue pair of the
// caller's own making to a state, INIT, RTR or RTS, for the connection of this
// id. Such a queue pair is made on the id's Context and named in ConnParam.QP:
//
//   - the end that connects moves it to INIT and calls Connect, which returns
//     with the peer's answer; then to RTR and RTS, and calls Establish;
//   - the end that accepts moves it to RTS and calls Accept.
//
// The caller moves it to ERR in the end, and closes it.
//
// iWARP has no such thing (ErrTransport): there CreateQP is the one way.
//
// Implements: int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
func (id *ID) QPAttr(to ibv.QPState) (attr ibv.QPAttr, mask ibv.AttrMask, err error) {
	const op = "ask for queue pair attributes"
	if err := id.apart(); err != nil {
		return attr, mask, id.fail(op, err)
	}
	err = id.call(func(h cgo.ID) error {
		c, m, err := h.QPAttr(uint32(to))
		attr, mask = ibv.QPAttrOf(c), ibv.AttrMask(m)
		return err
	})
	if err != nil {
		err = fmt.Errorf("for the state %v, while the id is in %v: %w", to, id.State(), err)
		if errors.Is(err, syscall.EINVAL) {
			err = fmt.Errorf("%w: %w", ErrState, err)
		}
	}
	return attr, mask, id.fail(op, err)
}

// Move takes a queue pair of the caller's own to a state, with QPAttr.
func (id *ID) Move(qp *ibv.QP, to ibv.QPState) error {
	attr, mask, err := id.QPAttr(to)
	if err != nil {
		return err
	}
	return id.fail("move queue pair", qp.Modify(attr, mask))
}

// apart wants a transport with queue pairs that are moved apart from the
// connection: iWARP's kernel code moves them itself, when TCP connects.
func (id *ID) apart() error {
	return policy.CheckHas(id.Binding(), "queue pair apart from its TCP connection", "make it by the id's CreateQP")
}

// lend checks the queue pair of a connection: the id's, or the caller's own,
// which must be on the id's context, and on the accepting side ready.
func (id *ID) lend(own *ibv.QP, accepting bool) error {
	if own == nil {
		if id.QP() == nil {
			return fmt.Errorf("%w: the id has no queue pair: call CreateQP before, or name one in ConnParam.QP", ErrState)
		}
		return nil
	}
	if err := id.apart(); err != nil {
		return err
	}
	if id.QP() != nil {
		return fmt.Errorf("%w: the id has a queue pair; ConnParam.QP is for one that has none", ErrState)
	}
	if on := own.PD().Context(); on != id.Context() {
		return fmt.Errorf("%w: the queue pair is on %s, make it on the id's Context, %s", ibv.ErrForeignContext, on.Name(), id.Context().Name())
	}
	if ud := own.Type() == ibv.UD; ud != id.cfg.PortSpace.datagrams() {
		return fmt.Errorf("%w: a %v queue pair does not go with the port space %v", ibv.ErrInvalid, own.Type(), id.cfg.PortSpace.orTCP())
	}
	attr, err := own.Query()
	if err != nil {
		return err
	}
	if accepting && attr.State != ibv.QPRTR && attr.State != ibv.QPRTS {
		return fmt.Errorf("%w: the queue pair is in %v: move it to RTS before (ID.Move)", ErrState, attr.State)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	id.own = own
	return nil
}

// askFor is Connect with a queue pair of the caller's own, up to the answer.
func (id *ID) askFor(ctx context.Context, op string, param cgo.ConnParam, p ConnParam) error {
	a, err := id.try(op)
	if err != nil {
		return err
	}
	ev, err := id.await(ctx, op, id.cfg.Timeouts.Connect, func(h cgo.ID, _ time.Duration) error {
		return h.Connect(param, p.PrivateData)
	})
	if err == nil {
		err = eventError(&ev, cgo.EventConnectResponse)
	}
	if err != nil {
		return id.poison(op, id.explain(id.Decision(), a.since, err))
	}
	id.mu.Lock()
	id.peerData, id.info = ev.PrivateData, ev.Info
	id.mu.Unlock()
	return id.advance(op, StateConnecting, StateResponded)
}

// Establish completes a Connect with a queue pair of the caller's own, which is
// in RTS by now: it checks that the queue pair is on the promised device, and
// tells the peer.
//
// Implements: int rdma_establish(struct rdma_cm_id *id)
func (id *ID) Establish() error {
	const op = "establish"
	if err := id.begin(op, StateResponded); err != nil {
		return err
	}
	defer id.step.Unlock()
	id.mu.Lock()
	qp, info := id.own, id.info
	id.mu.Unlock()
	if attr, err := qp.Query(); err != nil || attr.State != ibv.QPRTS {
		if err == nil {
			err = fmt.Errorf("%w: the queue pair is in %v: move it to RTR and RTS before (ID.Move)", ErrState, attr.State)
		}
		return id.fail(op, err)
	}
	if err := id.advance(op, StateResponded, StateConnecting); err != nil {
		return err
	}
	a, err := id.try(op)
	if err == nil {
		err = id.call(cgo.ID.Establish)
		err = id.established(a, cgo.Event{Info: info}, err)
	}
	return err
}

// Notify tells the connection manager what happened to a queue pair of the
// caller's own. The one event it knows is ibv.EventCommEst: the first data came
// before the peer's last message, which then need not come. It is no error that
// it has come.
//
// Implements: int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
func (id *ID) Notify(event ibv.AsyncEventType) error {
	const op = "notify"
	err := id.call(func(h cgo.ID) error { return h.Notify(uint32(event)) })
	if errors.Is(err, syscall.EISCONN) {
		return nil
	}
	if err != nil && event != ibv.EventCommEst {
		err = fmt.Errorf("%v is no event that a connection manager acts on, COMM_EST is: %w", event, err)
	}
	return id.fail(op, err)
}

// ECE are a vendor's options that the two ends of a connection compare, through
// the private part of the connection's messages. Vendor is not 0.
type ECE = ibv.ECE

// SetLocalECE says what goes with the request or the answer, on an id whose
// queue pair is the caller's own (with CreateQP's, librdmacm does it all).
//
// Implements: int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
func (id *ID) SetLocalECE(e ECE) error {
	const op = "set ECE"
	if err := id.begin(op, StateIdle, StateBoundDevice, StateAddrResolved, StateRouteResolved, StateRequested); err != nil {
		return err
	}
	defer id.step.Unlock()
	if err := id.apart(); err != nil {
		return id.fail(op, err)
	}
	if e.Vendor == 0 {
		return id.fail(op, fmt.Errorf("no vendor given: %w", syscall.EINVAL))
	}
	return id.fail(op, id.call(func(h cgo.ID) error { return h.SetLocalECE(e.Vendor, e.Options) }))
}

// RemoteECE is what came with the peer's request, or with its answer; the zero
// ECE if nothing did. It is refused on an id with a QP of CreateQP.
//
// Implements: int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
func (id *ID) RemoteECE() (e ECE, err error) {
	const op = "get ECE"
	err = id.call(func(h cgo.ID) (err error) {
		e.Vendor, e.Options, err = h.RemoteECE()
		return err
	})
	return e, id.fail(op, err)
}

// RejectECE is Reject because of the peer's options: it sees ErrECE.
//
// Implements: int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
func (id *ID) RejectECE(private []byte) error {
	const op = "reject"
	if err := id.begin(op, StateRequested); err != nil {
		return err
	}
	defer id.step.Unlock()
	return id.reject(op, private, func(h cgo.ID) error { return h.RejectECE(private) })
}
