package ibv

import "net"

// Drain takes the queue pair to ERR with a marker behind all that is in flight:
// once the completion with the ID marker came from each queue (flushed), no
// request of before is left, signalled or not, and its memory is the program's
// again. The receive marker is left out on an SRQ, the send marker on UD, whose sends
// wait for nobody. The marker takes a place in each
// queue; where the receive queue has none, the error is ErrQueueFull and nothing
// happened.
func (q *QP) Drain(marker uint64) error {
	const op = "drain QP"
	if err := q.life().enter(op); err != nil {
		return err
	}
	defer q.node.leave()
	// A receive before the transition, since a device may flush only what it knows
	// of; a send after it, since it would go to the peer.
	if q.srq == nil && q.typ != XRCSend && q.typ != XRCRecv {
		if err := q.PostRecv(RecvWR{ID: marker}); err != nil {
			return err
		}
	}
	if err := q.ToError(); err != nil {
		return err
	}
	// (A datagram needs an address handle even where it is flushed, and the send
	// queue of a UD queue pair waits for nobody.)
	if q.typ == XRCRecv || q.typ == UD {
		return nil
	}
	b, err := q.NewSendBatch(BatchConfig{})
	if err != nil {
		return err
	}
	if err := b.Send(0); err != nil {
		return err
	}
	b.SetID(0, marker)
	_, err = b.Post()
	return err
}

// RateLimit says how fast a queue pair sends.
type RateLimit struct {
	Rate   uint32 // kbit/s; 0 for no limit
	Burst  uint32 // bytes at once
	Packet uint16 // typical size of a packet, in bytes
}

// SetRateLimit limits how fast the queue pair, in RTS, sends; see DeviceAttrEx for
// what the device can. Software devices have no such thing: errors.ErrUnsupported.
//
// Implements: int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
func (q *QP) SetRateLimit(r RateLimit) error {
	const op = "limit rate of QP"
	if err := q.life().enter(op); err != nil {
		return err
	}
	defer q.node.leave()
	if err := q.h.RateLimit(r.Rate, r.Burst, r.Packet); err != nil {
		return fail(op, q.node.name, err)
	}
	return nil
}

// ECE is what the devices of two peers can do beyond the standard, as one tells the
// other while they connect.
type ECE struct {
	Vendor  uint32 // OUI of the device's maker
	Options uint32 // of its own
}

// SetECE sets what the peers agreed on, before the transition to RTR. The options
// of a vendor that the device does not know are ignored; a device without any is
// an error that matches errors.ErrUnsupported.
//
// Implements: int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (q *QP) SetECE(e ECE) error {
	const op = "set ECE of QP"
	if err := q.life().enter(op); err != nil {
		return err
	}
	defer q.node.leave()
	if err := q.h.SetECE(e.Vendor, e.Options); err != nil {
		return fail(op, q.node.name, err)
	}
	return nil
}

// QueryECE asks for what the device offers, or, from RTR on, has accepted. A device
// without any is an error that matches errors.ErrUnsupported.
//
// Implements: int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (q *QP) QueryECE() (ECE, error) {
	const op = "query ECE of QP"
	if err := q.life().enter(op); err != nil {
		return ECE{}, err
	}
	defer q.node.leave()
	v, o, err := q.h.QueryECE()
	if err != nil {
		return ECE{}, fail(op, q.node.name, err)
	}
	return ECE{v, o}, nil
}

// DataInOrder reports whether the data of op is written to the responder's memory
// in order, so that its last byte tells of all. False where the device does not say.
//
// Implements: int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
func (q *QP) DataInOrder(op Opcode) (bool, error) {
	const what = "query order of data"
	if err := q.life().enter(what); err != nil {
		return false, err
	}
	defer q.node.leave()
	if int(op) >= len(wrOpcode) {
		return false, invalid(what, q.node.name, ErrInvalid, "%v", op)
	}
	return q.h.DataInOrder(wrOpcode[op]), nil
}

// ResolveL2 finds the Ethernet address that packets to a destination go to, on
// RoCE, and the VLAN; ok is false where there is none. It takes as long as the
// neighbour takes to answer.
//
// Implements: int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
func (c *Context) ResolveL2(a AHAttr) (mac net.HardwareAddr, vlan uint16, ok bool, err error) {
	const op = "resolve Ethernet address"
	if err := c.life().enter(op); err != nil {
		return nil, 0, false, err
	}
	defer c.node.leave()
	raw := a.toC()
	m, vlan, err := c.h.ResolveL2(&raw)
	if err != nil {
		return nil, 0, false, &Error{Op: op, Object: c.name, Err: err, Hint: a.explain()}
	}
	const none = 0xffff
	if vlan == none {
		return m[:], 0, false, nil
	}
	return m[:], vlan, true, nil
}
