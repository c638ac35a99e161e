package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

const (
	size     = 256 // bytes of the longest message
	receives = 32
	slot     = ibv.GRHSize + size // a datagram comes behind a header
)

// node is a member of the group, with a queue pair for datagrams.
type node struct {
	id    *cm.ID
	pd    *ibv.PD
	ch    *ibv.CompChannel
	sent  *ibv.CQ
	came  *ibv.CQ
	mr    *ibv.MR // the receives, then what is sent
	qp    *ibv.QP
	group *cm.Group
}

// withNode joins the group on the device that has the address, and calls f.
func withNode(ctx context.Context, local netip.Addr, f func(context.Context, *node) error) (err error) {
	n := &node{}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.open(ctx, local); err != nil {
		return err
	}
	return f(ctx, n)
}

func (n *node) open(ctx context.Context, local netip.Addr) (err error) {
	if n.id, err = cm.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP}); err != nil {
		return err
	}
	if err = n.id.Bind(netip.AddrPortFrom(local, 0)); err != nil {
		return err
	}
	device := n.id.Context()
	if n.pd, err = device.AllocPD(); err != nil {
		return err
	}
	if n.ch, err = device.NewCompChannel(); err != nil {
		return err
	}
	if n.sent, err = device.CreateCQ(ibv.CQConfig{Size: 1, Channel: n.ch}); err != nil {
		return err
	}
	if n.came, err = device.CreateCQ(ibv.CQConfig{Size: receives, Channel: n.ch}); err != nil {
		return err
	}
	if n.mr, err = n.pd.AllocMR(receives*slot+size, ibv.LocalWrite); err != nil {
		return err
	}
	if n.qp, err = n.id.CreateQP(n.pd, ibv.QPConfig{SendCQ: n.sent, RecvCQ: n.came, MaxSend: 1, MaxRecv: receives}); err != nil {
		return err
	}
	for i := range receives {
		if err := n.post(i); err != nil {
			return err
		}
	}
	n.group, err = n.id.JoinMulticast(ctx, group, cm.JoinConfig{})
	return err
}

func (n *node) close() error {
	return errors.Join(n.group.Leave(), n.qp.Close(), n.mr.Close(), n.came.Close(), n.sent.Close(), n.ch.Close(), n.pd.Close(), n.id.Close())
}

func (n *node) post(i int) error {
	return n.qp.PostRecv(ibv.RecvWR{ID: uint64(i), SGEs: []ibv.SGE{n.mr.SGE(i*slot, slot)}})
}

// send sends a message and closes the way it went. It waits without a context: a
// datagram is gone at once, whoever hears it.
func (n *node) send(to ibv.Dest, m []byte) error {
	const from = receives * slot
	copy(n.mr.Bytes()[from:], m)
	err := n.qp.PostSend(ibv.SendWR{SGEs: []ibv.SGE{n.mr.SGE(from, len(m))}, Dest: to})
	if err == nil {
		var wcs [1]ibv.WC
		if _, err = n.sent.Wait(context.Background(), wcs[:]); err == nil {
			err = wcs[0].Err()
		}
	}
	return errors.Join(err, to.AH.Close())
}

// each calls f with each message, and the queue pair it came from, until ctx ends
// or f fails.
func (n *node) each(ctx context.Context, f func(from uint32, m []byte) error) error {
	wcs := make([]ibv.WC, receives)
	for {
		got, err := n.came.Wait(ctx, wcs)
		if err != nil {
			return err
		}
		for i := range wcs[:got] {
			wc := &wcs[i]
			if err := wc.Err(); err != nil {
				return err
			}
			at := int(wc.ID())
			if m := n.mr.Bytes()[at*slot+ibv.GRHSize : at*slot+wc.Len()]; len(m) > 0 {
				err = f(wc.SrcQP(), m)
			}
			if err = errors.Join(err, n.post(at)); err != nil {
				return err
			}
		}
	}
}
