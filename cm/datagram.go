package cm

import (
	"context"
	"fmt"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// UDPeer is the way to a service of datagrams, or to a multicast group.
type UDPeer struct {
	AH    ibv.AHAttr
	QPNum uint32 // ibv.MulticastQPNum for a group
	QKey  uint32
}

// Dest makes the destination for datagrams to the peer, in the protection domain
// of the sending queue pair. Close its AH when no more are sent.
func (p UDPeer) Dest(pd *ibv.PD) (ibv.Dest, error) {
	ah, err := pd.CreateAH(p.AH)
	if err != nil {
		return ibv.Dest{}, err
	}
	return ibv.Dest{AH: ah, QPNum: p.QPNum, QKey: p.QKey}, nil
}

// UDPeer tells, after a Connect in a port space of datagrams, where the service
// is: its address, its queue pair's number and key.
func (id *ID) UDPeer() (UDPeer, bool) {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.udPeer == nil {
		return UDPeer{}, false
	}
	return *id.udPeer, true
}

// resolveService is Connect in a port space of datagrams. What comes of it is no
// connection: the id has learned where to send, and checks that it is sent from
// the promised device.
func (id *ID) resolveService(ctx context.Context, op string, p ConnParam) error {
	if err := checkPrivate(id.transport(), p.PrivateData, MaxDatagramConnectData); err != nil {
		return id.fail(op, err)
	}
	if ctx.Err() != nil {
		return id.fail(op, id.timedOut(ctx, op, time.Now()))
	}
	if err := id.advance(op, StateRouteResolved, StateConnecting); err != nil {
		return err
	}
	a, err := id.try(op)
	if err != nil {
		return err
	}
	ev, err := id.await(ctx, op, id.cfg.Timeouts.Connect, func(h cgo.ID, _ time.Duration) error {
		return h.Connect(cgo.ConnParam{}, p.PrivateData)
	})
	if err == nil {
		err = eventError(&ev, cgo.EventEstablished)
	}
	id.at("established")
	peer := udPeerOf(&ev)
	if err == nil {
		err = id.checkSource(peer.AH, ev.Info)
	}
	if err == nil {
		err = policy.CheckUnchanged(id.Decision(), id.host.Since(a.since))
	}
	if err != nil {
		return id.poison(op, id.explain(id.Decision(), a.since, err))
	}
	id.mu.Lock()
	id.udPeer, id.peerData = &peer, ev.PrivateData
	id.mu.Unlock()
	return id.advance(op, StateConnecting, StateConnected)
}

func udPeerOf(ev *cgo.Event) UDPeer {
	return UDPeer{AH: ibv.AHAttrOf(ev.UD.AH), QPNum: ev.UD.QPNum, QKey: ev.UD.QKey}
}

// checkSource proves that what is sent with ah leaves through the bound device:
// it says so by a port and a row of its GID table.
func (id *ID) checkSource(ah ibv.AHAttr, info cgo.IDInfo) error {
	return id.checkPlace(info, ah.Port, ah.SGIDIndex)
}

// acceptDatagrams is Accept in a port space of datagrams: it tells the peer the
// number of the queue pair, and no event follows.
func (id *ID) acceptDatagrams(op string, p ConnParam) error {
	if err := checkPrivate(id.transport(), p.PrivateData, MaxDatagramReplyData); err != nil {
		return id.fail(op, err)
	}
	if err := id.lend(p.QP, true); err != nil {
		return id.fail(op, err)
	}
	if err := id.advance(op, StateRequested, StateConnecting); err != nil {
		return err
	}
	a, err := id.try(op)
	if err != nil {
		return err
	}
	err = id.call(func(h cgo.ID) error {
		if err := id.sameQP(a.qp); err != nil {
			return err
		}
		return h.Accept(cgo.ConnParam{QPNum: a.qp.Num()}, p.PrivateData)
	})
	if err == nil {
		err = id.checkPort(a.qp)
	}
	if err != nil {
		return id.poison(op, err)
	}
	return id.advance(op, StateConnecting, StateConnected)
}

// checkPort wants a UD queue pair on the port where the request landed; its
// device is the id's, or it could not have been lent.
func (id *ID) checkPort(qp *ibv.QP) error {
	attr, err := qp.Query()
	if err != nil {
		return err
	}
	if want := id.Binding().Port; attr.Port != want {
		return fmt.Errorf("%w: the queue pair is on port %d of %s, the request landed on port %d", ErrDeviceSplit, attr.Port, id.Context().Name(), want)
	}
	return nil
}
