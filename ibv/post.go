package ibv

import "sync"

// Opcode is what a SendWR asks for.
type Opcode uint8

// Operations of the send queue. The zero value is a SEND.
const (
	OpSend Opcode = iota
	OpSendImm
	OpWrite
	OpWriteImm
	OpRead
	OpCompareSwap
	OpFetchAdd
	OpSendInv
	OpLocalInv
	OpBindMW
	OpAtomicWrite
	OpTSO
	OpFlush
)

func (o Opcode) String() string {
	return name("Opcode", map[Opcode]string{OpSend: "SEND", OpSendImm: "SEND_WITH_IMM", OpWrite: "WRITE",
		OpWriteImm: "WRITE_WITH_IMM", OpRead: "READ", OpCompareSwap: "COMPARE_SWAP", OpFetchAdd: "FETCH_ADD",
		OpSendInv: "SEND_WITH_INV", OpLocalInv: "LOCAL_INV", OpBindMW: "BIND_MW",
		OpAtomicWrite: "ATOMIC_WRITE", OpTSO: "TSO", OpFlush: "FLUSH"}, o)
}

// SendWR is one request for the send queue, for those who do not need the speed
// of a SendBatch. Which fields count is the operation's matter.
type SendWR struct {
	ID     uint64
	Op     Opcode
	Flags  SendFlags
	SGEs   []SGE  // local memory
	Inline []byte // instead of SGEs, for SENDs and WRITEs
	Remote Remote // all but the SENDs
	Imm    uint32 // host order
	Dest   Dest   // of a UD queue pair

	Compare, Swap uint64 // OpCompareSwap
	Add           uint64 // OpFetchAdd

	RKey uint32 // OpSendInv, OpLocalInv: the key to make invalid
	MW   *MW    // OpBindMW, of type 2
	Bind Bind   // OpBindMW

	Value  uint64 // OpAtomicWrite
	Header []byte // OpTSO: what goes before each segment
	MSS    int    // OpTSO: bytes of data in a segment
	Length int    // OpFlush: bytes from Remote on, 0 for the whole region
	Flush  Access // OpFlush: FlushGlobal, FlushPersistent or both
}

// Set makes request i what w says.
func (b *SendBatch) Set(i int, w SendWR) error {
	if err := b.base().check("set request", i); err != nil {
		return err
	}
	var err error
	switch {
	case w.Inline != nil && len(w.SGEs) > 0:
		err = invalid("set request", b.q.node.name, ErrInvalid, "inline data and SGEs")
	case w.Inline != nil:
		err = b.setInline(i, w)
	case w.Op == OpSend:
		err = b.Send(i, w.SGEs...)
	case w.Op == OpSendImm:
		err = b.SendImm(i, w.Imm, w.SGEs...)
	case w.Op == OpWrite:
		err = b.Write(i, w.Remote, w.SGEs...)
	case w.Op == OpWriteImm:
		err = b.WriteImm(i, w.Remote, w.Imm, w.SGEs...)
	case w.Op == OpRead:
		err = b.Read(i, w.Remote, w.SGEs...)
	case (w.Op == OpCompareSwap || w.Op == OpFetchAdd) && len(w.SGEs) != 1:
		err = invalid("set request", b.q.node.name, ErrInvalid, "%v needs one SGE for the result", w.Op)
	case w.Op == OpCompareSwap:
		err = b.CompareSwap(i, w.Remote, w.Compare, w.Swap, w.SGEs[0])
	case w.Op == OpFetchAdd:
		err = b.FetchAdd(i, w.Remote, w.Add, w.SGEs[0])
	case w.Op == OpSendInv:
		err = b.SendInv(i, w.RKey, w.SGEs...)
	case w.Op == OpLocalInv:
		err = b.LocalInv(i, w.RKey)
	case w.Op == OpBindMW:
		err = b.BindMW(i, w.MW, w.Bind)
	case w.Op == OpAtomicWrite:
		err = b.AtomicWrite(i, w.Remote, w.Value)
	case w.Op == OpTSO:
		err = b.SendTSO(i, w.Header, w.MSS, w.SGEs...)
	case w.Op == OpFlush:
		err = b.Flush(i, w.Remote, w.Length, w.Flush)
	default:
		err = invalid("set request", b.q.node.name, ErrInvalid, "%v", w.Op)
	}
	if err != nil {
		return err
	}
	if w.Dest.AH != nil {
		if err := b.SetDest(i, w.Dest); err != nil {
			return err
		}
	}
	b.SetID(i, w.ID)
	b.SetFlags(i, w.Flags)
	return nil
}

func (b *SendBatch) setInline(i int, w SendWR) error {
	switch w.Op {
	case OpSend:
		return b.SendInline(i, w.Inline)
	case OpSendImm:
		return b.SendImmInline(i, w.Imm, w.Inline)
	case OpSendInv:
		return b.SendInvInline(i, w.RKey, w.Inline)
	case OpWrite:
		return b.WriteInline(i, w.Remote, w.Inline)
	case OpWriteImm:
		return b.WriteImmInline(i, w.Remote, w.Imm, w.Inline)
	}
	return invalid("set request", b.q.node.name, ErrInvalid, "inline data goes with SENDs and WRITEs, not with %v", w.Op)
}

// RecvWR is one receive.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

// Set makes receive i what w says.
func (b *RecvBatch) Set(i int, w RecvWR) error {
	if err := b.Recv(i, w.SGEs...); err != nil {
		return err
	}
	b.SetID(i, w.ID)
	return nil
}

// PostSend posts one request; see SendBatch.PostRange for the errors. It does not
// allocate but for the first call.
//
// Implements: int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
// and static inline int rdma_post_send(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr, int flags)
// and static inline int rdma_post_sendv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge, int flags)
// and static inline int rdma_post_read(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
// and static inline int rdma_post_readv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge, int flags, uint64_t remote_addr, uint32_t rkey)
// and static inline int rdma_post_write(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
// and static inline int rdma_post_writev(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge, int flags, uint64_t remote_addr, uint32_t rkey)
// and static inline int rdma_post_ud_send(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr, int flags, struct ibv_ah *ah, uint32_t remote_qpn)
func (q *QP) PostSend(w SendWR) error {
	if q.life() == nil {
		return q.life().enter("post send")
	}
	q.oneSend.Lock()
	defer q.oneSend.Unlock()
	if q.oneSend.b == nil {
		b, err := q.NewSendBatch(BatchConfig{SGEs: q.caps.MaxSendSGE, Inline: max(q.caps.MaxInline, q.maxHeader)})
		if err != nil {
			return err
		}
		q.oneSend.b = b
	}
	if err := q.oneSend.b.Set(0, w); err != nil {
		return err
	}
	_, err := q.oneSend.b.Post()
	return err
}

// PostRecv posts one receive; see RecvBatch.PostRange for the errors. It does not
// allocate but for the first call.
//
// Implements: int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
// and static inline int rdma_post_recv(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr)
// and static inline int rdma_post_recvv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge)
func (q *QP) PostRecv(w RecvWR) error {
	if q.life() == nil {
		return q.life().enter("post receive")
	}
	return q.oneRecv.post(w, q.caps.MaxRecvSGE, q.NewRecvBatch)
}

// oneRecv posts receives one by one, by a batch of one that the first call makes.
type oneRecv struct {
	sync.Mutex
	b *RecvBatch
}

func (o *oneRecv) post(w RecvWR, sges int, newBatch func(BatchConfig) (*RecvBatch, error)) error {
	o.Lock()
	defer o.Unlock()
	if o.b == nil {
		b, err := newBatch(BatchConfig{SGEs: sges})
		if err != nil {
			return err
		}
		o.b = b
	}
	if err := o.b.Set(0, w); err != nil {
		return err
	}
	_, err := o.b.Post()
	return err
}
