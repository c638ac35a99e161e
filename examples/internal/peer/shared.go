package peer

import (
	"errors"
	"sync"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// Shared are what connections have in common that are only made: a PD and a CQ
// on each device. It is safe for concurrent use.
type Shared struct {
	mu  sync.Mutex
	all map[*ibv.Context]cm.Resources
}

// Resources gives a connection on a device what it needs.
func (s *Shared) Resources(ctx *ibv.Context) (cm.Resources, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.all[ctx]; ok {
		return r, nil
	}
	pd, err := ctx.AllocPD()
	if err != nil {
		return cm.Resources{}, err
	}
	cq, err := ctx.CreateCQ(ibv.CQConfig{Size: 1})
	if err != nil {
		return cm.Resources{}, errors.Join(err, pd.Close())
	}
	if s.all == nil {
		s.all = map[*ibv.Context]cm.Resources{}
	}
	r := cm.Resources{PD: pd, QP: ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 1, MaxRecv: 1}}
	s.all[ctx] = r
	return r, nil
}

// CreateQP makes an id's queue pair of them.
func (s *Shared) CreateQP(id *cm.ID) error {
	r, err := s.Resources(id.Context())
	if err == nil {
		_, err = id.CreateQP(r.PD, r.QP)
	}
	return err
}

// Close frees them, after the connections.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, r := range s.all {
		errs = append(errs, r.QP.SendCQ.Close(), r.PD.Close())
	}
	return errors.Join(errs...)
}
