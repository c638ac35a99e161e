package ibv

import (
	"errors"
	"fmt"

	"github.com/railbind/railbind/cgo"
)

// TagRecv is a receive for messages of one tag, on an SRQ that matches tags
// (SRQConfig.MaxTags). No software device does: what is here runs on the fake
// provider in the tests, and never ran on a device.
type TagRecv struct {
	ID        uint64 // of the completion of the message
	Tag, Mask uint64 // what the message's tag is compared with, and which bits of it
	SGEs      []SGE
}

// TagUpdate goes with every change of the list of tagged receives.
type TagUpdate struct {
	// ID is that of the change's own completion, which there is where Signaled
	// is set, on the SRQ's CQ.
	ID       uint64
	Signaled bool
	// Unexpected is how many messages without a match the program has seen; the
	// device does not match while it counts another number. Sync makes the
	// number count.
	Unexpected uint32
	Sync       bool
}

func (u *TagUpdate) op() cgo.TagOp {
	op := cgo.TagOp{ID: u.ID, Unexpected: u.Unexpected}
	if u.Signaled {
		op.Flags |= cgo.TagSignaled
	}
	if u.Sync {
		op.Flags |= cgo.TagSync
	}
	return op
}

// AddTag adds a receive to the SRQ's list, and returns a handle to delete it by.
// The regions that it names cannot be closed before the SRQ.
//
// Implements: int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
func (s *SRQ) AddTag(r TagRecv, u TagUpdate) (handle uint32, err error) {
	err = s.tagged("add tag", func(op string) error {
		c := u.op()
		c.RecvID, c.Tag, c.Mask = r.ID, r.Tag, r.Mask
		total := uint64(0)
		for i, g := range r.SGEs {
			if err := s.tagSGE(op, i, g); err != nil {
				return err
			}
			if total += uint64(g.Length); total > maxLength {
				return invalid(op, s.node.name, ErrTooLong, "%d bytes, at most %d", total, uint64(maxLength))
			}
			c.SGEs = append(c.SGEs, cgo.SGE{Addr: g.MR.addr + uint64(g.Offset), Length: uint32(g.Length), LKey: g.MR.lkey})
		}
		handle, err = s.rec.AddTag(&c)
		return err
	})
	return handle, err
}

// tagSGE checks a piece of memory, and keeps its region from being closed.
func (s *SRQ) tagSGE(op string, i int, g SGE) error {
	m := g.MR
	if err := m.life().enter(op); err != nil {
		return err
	}
	defer m.node.leave()
	if err := s.pd.reach(op, s.node.name, i, g); err != nil {
		return err
	}
	if m.access&LocalWrite == 0 {
		return invalid(op, s.node.name, ErrAccess, "%s has %v, this needs %v", m.node.name, m.access, LocalWrite)
	}
	if s.tags[m] == nil {
		s.tags[m] = newNode(fmt.Sprintf("tagged receives on %s", s.node.name), nil, m.node)
	}
	return nil
}

// DeleteTag takes a receive off the list by its handle. It may have been matched
// meanwhile: the change's completion tells.
//
// Implements: int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
func (s *SRQ) DeleteTag(handle uint32, u TagUpdate) error {
	return s.tagged("delete tag", func(string) error {
		c := u.op()
		c.Handle = handle
		return s.rec.DeleteTag(&c)
	})
}

// SyncTags tells the device how many unexpected messages were seen, so that it
// matches again.
//
// Implements: int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
func (s *SRQ) SyncTags(u TagUpdate) error {
	return s.tagged("synchronize tags", func(string) error {
		c := u.op()
		return s.rec.SyncTags(&c)
	})
}

// tagged runs a change of the list, one at a time.
func (s *SRQ) tagged(op string, change func(op string) error) error {
	if err := s.life().enter(op); err != nil {
		return err
	}
	defer s.node.leave()
	s.arm.Lock()
	defer s.arm.Unlock()
	if s.tags == nil {
		return invalid(op, s.node.name, ErrInvalid, "it was made without SRQConfig.MaxTags")
	}
	err := change(op)
	if own := (*Error)(nil); err == nil || errors.As(err, &own) {
		return err
	}
	return fail(op, s.node.name, err)
}
