package ibv

import (
	"fmt"

	"github.com/railbind/railbind/cgo"
)

// Advice is what to do ahead of time for memory that is paged on demand.
type Advice uint32

// Advice on regions with OnDemand.
const (
	PrefetchRead    Advice = 0 // bring the pages in, to be read
	PrefetchWrite   Advice = 1 // bring the pages in, to be written too
	PrefetchNoFault Advice = 2 // tell the device of the pages that are in
)

func (a Advice) String() string {
	return name("Advice", map[Advice]string{PrefetchRead: "prefetch for reading", PrefetchWrite: "prefetch for writing",
		PrefetchNoFault: "prefetch without faults"}, a)
}

// Advise gives advice on pieces of this domain's regions. With wait it returns
// when it is done, otherwise it may be done later, or not at all. Where the
// device does not page on demand, the error matches errors.ErrUnsupported.
//
// Implements: int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
func (p *PD) Advise(a Advice, wait bool, sges ...SGE) error {
	const op = "advise on memory"
	if err := p.life().enter(op); err != nil {
		return err
	}
	defer p.node.leave()
	if len(sges) == 0 {
		return invalid(op, p.node.name, ErrInvalid, "no memory is named")
	}
	ranges := make([]cgo.SGE, len(sges))
	for i, s := range sges {
		if err := s.MR.life().enter(op); err != nil {
			return err
		}
		defer s.MR.node.leave()
		if err := p.reach(op, p.node.name, i, s); err != nil {
			return err
		}
		if uint64(s.Length) > maxLength {
			return invalid(op, p.node.name, ErrTooLong, "%d bytes in one piece", s.Length)
		}
		ranges[i] = cgo.SGE{Addr: s.MR.addr + uint64(s.Offset), Length: uint32(s.Length), LKey: s.MR.lkey}
	}
	flags := uint32(0)
	if wait {
		flags = 1
	}
	if err := p.h.AdviseMR(uint32(a), flags, ranges); err != nil {
		return unknownCall(fail(fmt.Sprintf("%s (%v)", op, a), p.node.name, err))
	}
	return nil
}
