package ibv

// RegisterMessages is Register for memory that messages are sent from and
// received into, and that WRITEs are made from and READs into: no peer can reach it.
//
// Implements: static inline struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length)
func (p *PD) RegisterMessages(b []byte) (*MR, error) { return p.Register(b, LocalWrite) }

// RegisterForRead is Register for memory that the peer may READ; give it the
// region's Remote.
//
// Implements: static inline struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length)
func (p *PD) RegisterForRead(b []byte) (*MR, error) { return p.Register(b, LocalWrite|RemoteRead) }

// RegisterForWrite is Register for memory that the peer may WRITE to; give it the
// region's Remote.
//
// Implements: static inline struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length)
func (p *PD) RegisterForWrite(b []byte) (*MR, error) { return p.Register(b, RemoteWrite) }
