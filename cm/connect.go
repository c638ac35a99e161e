package cm

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/internal/route"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// Connect asks the peer for a connection and waits until it is established. It
// needs the id's QP. Then it checks that the QP really sits on the promised
// port, GID and network device. With a QP of the caller's own (ConnParam.QP) it
// waits for the peer's answer; Establish is the step behind it.
//
// In a port space of datagrams it asks for the service instead: it needs no QP,
// and UDPeer tells the answer.
//
// Errors: a *RejectError (ErrConnRefused, ErrRejected, ErrStale), ErrUnreachable,
// a *TimeoutError, a *PrivateDataError, ErrDeviceSplit.
//
// Implements: int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
func (id *ID) Connect(ctx context.Context, p ConnParam) error {
	const op = "connect"
	if err := id.begin(op, StateRouteResolved); err != nil {
		return err
	}
	defer id.step.Unlock()
	if id.cfg.PortSpace.datagrams() {
		return id.resolveService(ctx, op, p)
	}
	param, err := id.prepare(p, nil, MaxConnectData)
	if err != nil {
		return id.fail(op, err)
	}
	if ctx.Err() != nil {
		return id.fail(op, id.timedOut(ctx, op, time.Now()))
	}
	if err := id.advance(op, StateRouteResolved, StateConnecting); err != nil {
		return err
	}
	if p.QP != nil {
		return id.askFor(ctx, op, param, p)
	}
	return id.establish(ctx, op, func(h cgo.ID, _ *ibv.QP) error {
		err := h.Connect(param, p.PrivateData)
		switch { // iWARP's TCP connect tells at once
		case errors.Is(err, syscall.ECONNREFUSED):
			err = fmt.Errorf("%w: %w", ErrConnRefused, err)
		case errors.Is(err, syscall.ECONNRESET):
			err = fmt.Errorf("%w: %w", ErrRejected, err)
		}
		return err
	})
}

// Accept answers the connection request behind an id that a listener gave, and
// waits until the connection is established. It needs the id's QP; post
// receives before, since the peer may send at once. In a port space of datagrams
// the peer sends no more: the id is Connected once the answer is sent.
//
// Implements: int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
func (id *ID) Accept(ctx context.Context, p ConnParam) error {
	const op = "accept"
	return id.accept(op, p, func(param cgo.ConnParam) error {
		if ctx.Err() != nil {
			return id.fail(op, id.timedOut(ctx, op, time.Now()))
		}
		if err := id.advance(op, StateRequested, StateConnecting); err != nil {
			return err
		}
		return id.establish(ctx, op, answer(param, p.PrivateData))
	})
}

// accept is what Accept and StartAccept begin with; the rest is the step's.
func (id *ID) accept(op string, p ConnParam, rest func(cgo.ConnParam) error) error {
	if err := id.begin(op, StateRequested); err != nil {
		return err
	}
	defer id.step.Unlock()
	if id.cfg.PortSpace.datagrams() {
		return id.acceptDatagrams(op, p)
	}
	param, err := id.prepare(p, &id.request.Conn, MaxAcceptData)
	if err != nil {
		return id.fail(op, err)
	}
	return rest(param)
}

// answer is the call that accepts a request.
func answer(param cgo.ConnParam, private []byte) func(cgo.ID, *ibv.QP) error {
	return func(h cgo.ID, qp *ibv.QP) error {
		if err := h.Accept(param, private); err != nil {
			return err
		}
		// librdmacm has moved the QP to RTS: the peer may already be served.
		qp.Track(ibv.QPRTS, int(param.InitiatorDepth), int(param.ResponderResources))
		return nil
	}
}

// prepare checks what Connect and Accept are given, before anything happens.
func (id *ID) prepare(p ConnParam, asked *cgo.ConnParam, most int) (cgo.ConnParam, error) {
	if err := checkPrivate(id.transport(), p.PrivateData, most); err != nil {
		return cgo.ConnParam{}, err
	}
	if err := id.lend(p.QP, asked != nil); err != nil {
		return cgo.ConnParam{}, err
	}
	attr, err := id.Context().QueryDevice()
	if err != nil {
		return cgo.ConnParam{}, err
	}
	if err := p.check(attr); err != nil {
		return cgo.ConnParam{}, err
	}
	param := p.resolve(attr, asked)
	if p.QP != nil {
		param.QPNum = p.QP.Num()
	}
	return param, nil
}

// usedQP is the queue pair of the connection, whoever made it; id.mu is held.
func (id *ID) usedQP() *ibv.QP {
	if id.own != nil {
		return id.own
	}
	return id.qp
}

// attempt is what the last step of a connection begins with.
type attempt struct {
	op     string
	qp     *ibv.QP
	since  route.Mark
	events chan cgo.Event // of StartAccept
}

// try looks at the path just before that step.
func (id *ID) try(op string) (attempt, error) {
	id.mu.Lock()
	a := attempt{op: op, qp: id.usedQP()}
	id.mu.Unlock()
	a.since = id.host.Mark()
	id.at("before " + op)
	if err := policy.CheckPath(id.host, id.Decision()); err != nil {
		return a, id.poison(op, err)
	}
	id.at("path checked")
	return a, nil
}

// sameQP is nil while the QP that the step began with is there; once C has begun
// it cannot be closed.
func (id *ID) sameQP(qp *ibv.QP) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if qp == nil || id.usedQP() != qp {
		return fmt.Errorf("%w: the id's queue pair was closed meanwhile", ErrState)
	}
	return nil
}

// establish runs the last step of either end and checks where the connection
// came to be.
//
// The kernel looks the route up once more, when librdmacm moves the QP within
// this step: so the policy is asked before and after it.
func (id *ID) establish(ctx context.Context, op string, start func(h cgo.ID, qp *ibv.QP) error) error {
	a, err := id.try(op)
	if err != nil {
		return err
	}
	ev, err := id.await(ctx, op, id.cfg.Timeouts.Connect, func(h cgo.ID, _ time.Duration) error {
		if err := id.sameQP(a.qp); err != nil {
			return err
		}
		return start(h, a.qp)
	})
	if err == nil {
		err = eventError(&ev, cgo.EventEstablished)
	}
	return id.established(a, ev, err)
}

// established ends the last step, which failed with err, if that is given. A
// connection that was established and has ended since is no error of this step:
// what the peer sent before it went is there to be received.
func (id *ID) established(a attempt, ev cgo.Event, err error) error {
	id.at("established")
	if err == nil {
		err = id.checkEstablished(a.qp, ev.Info)
	}
	if err == nil {
		err = policy.CheckUnchanged(id.Decision(), id.host.Since(a.since))
	}
	if err != nil {
		err = id.explain(id.Decision(), a.since, err)
		if id.QP() == a.qp { // the caller's own is the caller's to move
			a.qp.Track(ibv.QPErr, 0, 0)
		}
		return id.poison(a.op, err)
	}
	id.mu.Lock()
	if len(ev.PrivateData) > 0 {
		id.peerData = ev.PrivateData
	}
	switch id.state {
	case StateConnecting:
		id.state = StateConnected
		if id.fault || id.usedQP() == nil {
			id.hangUp()
		}
	case StateDisconnected:
	default:
		err = id.overErr
	}
	id.mu.Unlock()
	return id.fail(a.op, err)
}

// checkEstablished proves by the QP itself where it is, and learns how many
// READs the two ends agreed on.
func (id *ID) checkEstablished(qp *ibv.QP, info cgo.IDInfo) error {
	if zone := id.Binding().Addr.Addr().Zone(); id.request != nil && zone != "" {
		info.Local = withZone(info.Local, zone) // the kernel leaves it out on this side
	}
	attr, err := qp.Query()
	if err != nil {
		return err
	}
	if attr.State == ibv.QPErr {
		id.mu.Lock()
		id.fault = true
		id.mu.Unlock()
	} else {
		qp.Track(ibv.QPRTS, attr.MaxRdAtomic, attr.MaxDestRdAtomic)
	}
	return id.checkPlace(info, attr.Port, attr.AH.SGIDIndex)
}

// checkPlace holds where the kernel sends from, by a port and a row of its GID
// table, against what was promised.
func (id *ID) checkPlace(info cgo.IDInfo, port uint8, sgid int) error {
	view := id.kernelView(info)
	if view.Transport != policy.IWARP { // whose QP knows no port
		view.Port = port
	}
	var row policy.GIDRow
	if view.Transport == policy.RoCE {
		e, err := id.Context().QueryGID(port, sgid)
		if err != nil {
			return err
		}
		row = gidRow(e)
	}
	return policy.CheckEstablished(id.host, id.Decision(), view, row)
}

// PeerData is the private data that came with the peer's answer, as the wire
// has it: padded with zeros to the field's length.
func (id *ID) PeerData() []byte {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.peerData
}

// Reject refuses the connection request behind an id that a listener gave. The
// peer sees ErrRejected and the private data. The id is of no use afterwards
// but for Close.
//
// Implements: int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
func (id *ID) Reject(private []byte) error {
	const op = "reject"
	if err := id.begin(op, StateRequested); err != nil {
		return err
	}
	defer id.step.Unlock()
	return id.reject(op, private, func(h cgo.ID) error { return h.Reject(private) })
}

// reject is the end of Reject and RejectECE.
func (id *ID) reject(op string, private []byte, call func(cgo.ID) error) error {
	most := MaxRejectData
	if id.cfg.PortSpace.datagrams() {
		most = MaxDatagramReplyData
	}
	if err := checkPrivate(id.transport(), private, most); err != nil {
		return id.fail(op, err)
	}
	err := id.call(call)
	id.mu.Lock()
	if id.state == StateRequested {
		id.lost(StateDisconnected, ErrDisconnected)
	}
	id.mu.Unlock()
	return id.fail(op, err)
}

// Disconnect ends the connection: outstanding requests are flushed with errors,
// and the peer is told. It does not wait for the peer's answer. On an id whose
// connection is over it does nothing.
//
// Implements: int rdma_disconnect(struct rdma_cm_id *id)
func (id *ID) Disconnect() error {
	const op = "disconnect"
	if id != nil && id.State() == StateDisconnected {
		return nil
	}
	if err := id.begin(op, StateConnected); err != nil {
		return err
	}
	defer id.step.Unlock()
	err := id.call(cgo.ID.Disconnect)
	id.mu.Lock()
	if id.state == StateConnected {
		id.lost(StateDisconnected, ErrDisconnected)
	}
	id.mu.Unlock()
	return id.fail(op, err)
}

// waitAnswer waits, at most for d, until the peer has acknowledged the end.
func (id *ID) waitAnswer(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-id.answered:
	case <-id.closed:
	case <-t.C:
	}
}
