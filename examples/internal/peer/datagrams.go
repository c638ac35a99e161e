package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// Datagrams are an id's queue pair for datagrams, and its memory: a slot for each
// message that is to come, and one to send from.
type Datagrams struct {
	Messages
	QP *ibv.QP
	// Arrived gets each message, with its completion and the memory that it came
	// to. Default Take.
	Arrived func(wc *ibv.WC, slot []byte) error

	ch  *ibv.CompChannel
	cq  *ibv.CQ
	pd  *ibv.PD
	mr  *ibv.MR
	wcs []ibv.WC
}

// NewDatagrams makes a queue pair for so many sends of a size, and posts receives.
func NewDatagrams(id *cm.ID, size, sends, receives int) (d *Datagrams, err error) {
	ctx, b := id.Context(), id.Binding()
	port, err := ctx.QueryPort(b.Port)
	if err != nil {
		return nil, err
	}
	if most := port.ActiveMTU.Bytes(); size > most && sends > 0 {
		return nil, fmt.Errorf("-S %d: a datagram of %s has at most %d bytes, its MTU: %w", size, b.Device, most, ibv.ErrTooLong)
	}
	d = &Datagrams{Messages: Messages{Size: size}, wcs: make([]ibv.WC, 8)}
	d.Arrived = func(_ *ibv.WC, slot []byte) error { return d.Take(slot[ibv.GRHSize:]) }
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.ch, err = ctx.NewCompChannel(); err != nil {
		return nil, err
	}
	sends = max(1, sends)
	if d.cq, err = ctx.CreateCQ(ibv.CQConfig{Size: sends + receives, Channel: d.ch}); err != nil {
		return nil, err
	}
	if d.pd, err = ctx.AllocPD(); err != nil {
		return nil, err
	}
	if d.mr, err = d.pd.AllocMR((receives+1)*d.slot(), ibv.LocalWrite); err != nil {
		return nil, err
	}
	d.QP, err = id.CreateQP(d.pd, ibv.QPConfig{Type: ibv.UD, SendCQ: d.cq, RecvCQ: d.cq, MaxSend: sends, MaxRecv: max(1, receives)})
	for i := 0; i < receives && err == nil; i++ {
		err = d.QP.PostRecv(ibv.RecvWR{ID: uint64(i), SGEs: []ibv.SGE{d.mr.SGE(i*d.slot(), d.slot())}})
	}
	return d, err
}

// slot is the length of a message behind what tells where it came from.
func (d *Datagrams) slot() int { return ibv.GRHSize + d.Size }

// Send sends a message as often as is said, with the queue pair's number as
// immediate data, and waits until all are sent.
func (d *Datagrams) Send(ctx context.Context, to ibv.Dest, b []byte, count int) error {
	from := d.mr.Len() - d.slot()
	copy(d.mr.Bytes()[from:], b)
	for range count {
		w := ibv.SendWR{Op: ibv.OpSendImm, SGEs: []ibv.SGE{d.mr.SGE(from, len(b))}, Imm: d.QP.Num(), Dest: to}
		if err := d.QP.PostSend(w); err != nil {
			return err
		}
	}
	return d.complete(ctx, &d.Sent, count)
}

// Receive waits until so many messages have arrived.
func (d *Datagrams) Receive(ctx context.Context, count int) error {
	return d.complete(ctx, &d.Count, count)
}

// complete waits until a count is reached that completions raise.
func (d *Datagrams) complete(ctx context.Context, count *int, want int) error {
	for *count < want {
		n, err := d.cq.Wait(ctx, d.wcs)
		if err != nil {
			return fmt.Errorf("%d of %d messages: %w", *count, want, err)
		}
		for i := range d.wcs[:n] {
			wc := &d.wcs[i]
			if err := wc.Err(); err != nil {
				return err
			}
			if wc.Queue() == ibv.SendQueue {
				d.Sent++
				continue
			}
			at := int(wc.ID()) * d.slot()
			if err := d.Arrived(wc, d.mr.Bytes()[at:at+wc.Len()]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close frees what NewDatagrams has made.
func (d *Datagrams) Close() error {
	return errors.Join(d.QP.Close(), d.mr.Close(), d.cq.Close(), d.ch.Close(), d.pd.Close())
}

// Dest is the way back to the sender of a message, whose immediate data is its
// queue pair's number.
func (d *Datagrams) Dest(wc *ibv.WC, slot []byte, port uint8) (to ibv.Dest, err error) {
	imm, ok := wc.Imm()
	if !ok || imm != wc.SrcQP() {
		return to, fmt.Errorf("%w: the immediate data, %#x, is not the number of the sender's queue pair, %#x", ErrProtocol, imm, wc.SrcQP())
	}
	attr, err := d.QP.Query()
	if err != nil {
		return to, err
	}
	ah, err := d.pd.CreateAHFromWC(*wc, slot, port)
	return ibv.Dest{AH: ah, QPNum: imm, QKey: attr.QKey}, err
}

// PD is the queue pair's.
func (d *Datagrams) PD() *ibv.PD { return d.pd }
