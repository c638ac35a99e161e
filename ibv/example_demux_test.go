package ibv_test

import (
	"context"

	"github.com/railbind/railbind/ibv"
)

// Goroutines that share a queue pair, and wait each for its own READ.
func ExampleDemux() {
	serve := func(cq *ibv.CQ, qp *ibv.QP) (read func(context.Context, ibv.SGE, ibv.Remote) error, err error) {
		d, err := ibv.NewDemux(ibv.DemuxConfig{Slots: 10_000}, cq)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, local ibv.SGE, remote ibv.Remote) error {
			ticket, err := d.Take()
			if err != nil {
				return err
			}
			if err := qp.PostSend(ibv.SendWR{ID: ticket.ID(), Op: ibv.OpRead, Remote: remote, SGEs: []ibv.SGE{local}}); err != nil {
				ticket.Drop()
				return err
			}
			wc, err := ticket.Wait(ctx) // when ctx ends first, the device may still write to local
			if err != nil {
				return err
			}
			return wc.Err()
		}, nil
	}
	_ = serve
}
