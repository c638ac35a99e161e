package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// table is this end's queue pairs and memory: first what each sends, then a slot
// for each receive.
type table struct {
	*options
	peer.Place
	pd   *ibv.PD
	ch   *ibv.CompChannel
	cq   *ibv.CQ
	srq  *ibv.SRQ
	mr   *ibv.MR
	qps  []*ibv.QP
	psns []uint32
	ah   *ibv.AH
	to   ibv.Dest // ud: the peer
}

// open finds the device; local is the address to go by where none is named.
func (t *table) open(local netip.Addr) (err error) {
	if t.Place, err = t.Open(local); err != nil {
		return err
	}
	if most := t.PortMTU.Bytes(); t.typ == ibv.UD && t.size > most {
		return fmt.Errorf("-s %d: a datagram of %s has at most %d bytes, its MTU: %w", t.size, t.Ctx.Name(), most, ibv.ErrTooLong)
	}
	return nil
}

// lay makes the queue pairs and posts their receives.
func (t *table) lay() (err error) {
	receives := 2 * t.options.qps
	if t.pd, err = t.Ctx.AllocPD(); err != nil {
		return err
	}
	if t.ch, err = t.Ctx.NewCompChannel(); err != nil {
		return err
	}
	spin := time.Millisecond
	if t.events {
		spin = 0
	}
	if t.cq, err = t.Ctx.CreateCQ(ibv.CQConfig{Size: 2*receives + t.options.qps, Channel: t.ch, Spin: spin}); err != nil {
		return err
	}
	if t.mr, err = t.pd.AllocMR(t.options.qps*t.size+receives*t.slot(), ibv.LocalWrite); err != nil {
		return err
	}
	if t.shared {
		if t.srq, err = t.pd.CreateSRQ(ibv.SRQConfig{MaxRecv: receives}); err != nil {
			return err
		}
	}
	for range t.options.qps {
		qp, err := t.pd.CreateQP(ibv.QPConfig{Type: t.typ, SendCQ: t.cq, RecvCQ: t.cq, SRQ: t.srq, MaxSend: 1, MaxRecv: receives})
		if err != nil {
			return err
		}
		t.qps = append(t.qps, qp)
		t.psns = append(t.psns, rand.Uint32()&0xffffff)
		if err := qp.ToInit(ibv.ConnectConfig{Port: t.IBPort, QKey: qkey}); err != nil {
			return err
		}
	}
	for i := range receives {
		if err := t.receive(i); err != nil {
			return err
		}
	}
	return nil
}

// qkey is what the ud programs agree on.
const qkey = 0x11111111

// dests say where the queue pairs are.
func (t *table) dests() []dest {
	var all []dest
	for i, qp := range t.qps {
		all = append(all, dest{t.LID, qp.Num(), t.psns[i], t.GID.GID})
	}
	return all
}

// connect connects the queue pairs, each with its peer.
func (t *table) connect(theirs []dest) error {
	for i, qp := range t.qps {
		d := theirs[i]
		err := qp.Connect(ibv.ConnectConfig{
			Port: t.IBPort, DestQPNum: d.qpn, DestPSN: d.psn, DestGID: d.gid, DestLID: d.lid,
			GIDIndex: t.GID.Index, PSN: t.psns[i], MTU: t.MTU, SL: t.sl,
		})
		if err != nil {
			return fmt.Errorf("to queue pair %#x at %v: %w", d.qpn, d.gid.Addr(), err)
		}
	}
	if t.typ != ibv.UD {
		return nil
	}
	d := theirs[0]
	way := ibv.AHAttr{DGID: d.gid, DLID: d.lid, SGIDIndex: t.GID.Index, Port: t.IBPort, Global: !d.gid.IsZero(), HopLimit: 64, SL: t.sl}
	ah, err := t.pd.CreateAH(way)
	t.ah, t.to = ah, ibv.Dest{AH: ah, QPNum: d.qpn, QKey: qkey}
	return err
}

// slot is the length of a receive's memory.
func (t *table) slot() int { return t.head + t.size }

func (t *table) at(i int) int { return t.options.qps*t.size + i*t.slot() }

// receive posts the receive with slot i.
func (t *table) receive(i int) error {
	w := ibv.RecvWR{ID: uint64(i), SGEs: []ibv.SGE{t.mr.SGE(t.at(i), t.slot())}}
	clear(t.mr.Bytes()[t.at(i):][:t.slot()]) // so that what does not come is not there
	if t.srq != nil {
		return t.srq.PostRecv(w)
	}
	return t.qps[0].PostRecv(w)
}

// send posts what queue pair q sends.
func (t *table) send(q int) error {
	return t.qps[q].PostSend(ibv.SendWR{Op: ibv.OpSend, SGEs: []ibv.SGE{t.mr.SGE(q*t.size, t.size)}, Dest: t.to})
}

// fill sets what all queue pairs send.
func (t *table) fill(b []byte) {
	for q := range t.qps {
		copy(t.mr.Bytes()[q*t.size:][:t.size], b)
	}
}

func (t *table) close() error {
	var errs []error
	for _, qp := range t.qps {
		errs = append(errs, qp.Close())
	}
	return errors.Join(append(errs, t.ah.Close(), t.srq.Close(), t.mr.Close(), t.cq.Close(), t.ch.Close(), t.pd.Close(), t.Ctx.Close())...)
}
