package ibv

import "runtime"

// Dest is where a datagram goes. The zero value is nowhere.
type Dest struct {
	AH    *AH
	QPNum uint32 // 24 bits; MulticastQPNum for a group
	QKey  uint32 // the receiver's; one with the top bit set means the sender's own
}

// MulticastQPNum is the QP number that sends to a multicast group go to.
const MulticastQPNum = 0xffffff

// SetDest sets where request i, a SEND of a UD queue pair, goes. It outlives a
// change of the operation. The address handle cannot be closed while the request
// is in flight.
func (b *SendBatch) SetDest(i int, d Dest) error {
	const op = "set destination"
	if err := b.base().check(op, i); err != nil {
		return err
	}
	if b.qp.typ != UD {
		return invalid(op, b.q.node.name, ErrInvalid, "a %v queue pair has one destination, that of its connection", b.qp.typ)
	}
	if d.AH.life() == nil {
		return &Error{Op: op, Object: "nil AH", Kind: ErrClosed}
	}
	if d.QPNum>>24 != 0 {
		return invalid(op, b.q.node.name, ErrInvalid, "QPNum %#x has more than 24 bits", d.QPNum)
	}
	if err := b.hold(op, i, &d.AH.held); err != nil {
		return err
	}
	b.wrs[i].SetUD(d.AH.h.Addr(), d.QPNum, d.QKey)
	runtime.KeepAlive(b.mem)
	return nil
}

// SendTo makes request i a SEND of the given memory to d, on a UD queue pair.
func (b *SendBatch) SendTo(i int, d Dest, sges ...SGE) error {
	if err := b.SetDest(i, d); err != nil {
		return err
	}
	return b.Send(i, sges...)
}

// SendImmTo makes request i a SEND with immediate data to d, on a UD queue pair.
func (b *SendBatch) SendImmTo(i int, d Dest, imm uint32, sges ...SGE) error {
	if err := b.SetDest(i, d); err != nil {
		return err
	}
	return b.SendImm(i, imm, sges...)
}

// AttachMulticast lets a UD queue pair receive what is sent to a multicast
// group. The group must be joined, which is the connection manager's matter on
// InfiniBand and RoCE alike; lid is InfiniBand's. Attaching twice is no error.
//
// Implements: int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (q *QP) AttachMulticast(group GID, lid uint16) error {
	const op = "attach to multicast group"
	if err := q.multicast(op, group); err != nil {
		return err
	}
	defer q.node.leave()
	if err := q.h.AttachMcast((*[16]byte)(&group), lid); err != nil {
		return &Error{Op: op, Object: q.node.name, Err: err, Hint: "group " + group.String()}
	}
	return nil
}

// DetachMulticast ends what AttachMulticast began.
//
// Implements: int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (q *QP) DetachMulticast(group GID, lid uint16) error {
	const op = "detach from multicast group"
	if err := q.multicast(op, group); err != nil {
		return err
	}
	defer q.node.leave()
	if err := q.h.DetachMcast((*[16]byte)(&group), lid); err != nil {
		return &Error{Op: op, Object: q.node.name, Err: err, Hint: "group " + group.String()}
	}
	return nil
}

// multicast checks the arguments and enters the queue pair.
func (q *QP) multicast(op string, group GID) error {
	if err := q.life().enter(op); err != nil {
		return err
	}
	var err error
	switch {
	case q.typ != UD:
		err = invalid(op, q.node.name, ErrInvalid, "a %v queue pair, and groups are for UD", q.typ)
	case !group.Addr().IsMulticast() && group[0] != 0xff:
		err = invalid(op, q.node.name, ErrInvalid, "%v is no multicast group", group)
	}
	if err != nil {
		q.node.leave()
	}
	return err
}
