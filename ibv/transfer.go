package ibv

// TransferConfig says how a transfer is cut.
type TransferConfig struct {
	// Read brings the peer's memory here, with READs; otherwise local memory is
	// written there, with WRITEs.
	Read bool
	// Piece is the length of each request in bytes, but for the last. Default
	// and maximum: the longest message of the queue pair; default 1 MiB where
	// that is longer.
	Piece int
}

// NewTransfer makes the batch that moves memory of any length between local and
// the peer's memory at remote: a request for each piece, for SendBatch.Run to
// work off. Run wants a queue pair whose SendCQ serves no other queue, not its own
// receives either (QPConfig). Its results count pieces. The batch takes about 200
// bytes of memory a piece. The error matches ErrTooLong where a piece is longer than
// a message may be, ErrOutOfRange where there is nothing to move or where either
// memory ends before it, and what SendBatch.Write and Read return.
func (q *QP) NewTransfer(local SGE, remote Remote, cfg TransferConfig) (*SendBatch, error) {
	const op = "make transfer"
	if err := q.life().enter(op); err != nil {
		return nil, err
	}
	defer q.node.leave()
	most := int(q.maxMsg.Load())
	if cfg.Piece == 0 {
		cfg.Piece = min(most, 1<<20)
	}
	if cfg.Piece < 1 || cfg.Piece > most {
		return nil, invalid(op, q.node.name, ErrTooLong, "pieces of %d bytes, at most %d", cfg.Piece, most)
	}
	if local.Length < 1 || remote.Addr+uint64(local.Length) < remote.Addr {
		return nil, invalid(op, q.node.name, ErrOutOfRange, "%d bytes at the peer's address %#x", local.Length, remote.Addr)
	}
	b, err := q.NewSendBatch(BatchConfig{Requests: (local.Length-1)/cfg.Piece + 1})
	if err != nil {
		return nil, err
	}
	set := b.Write
	if cfg.Read {
		set = b.Read
	}
	for i, at := 0, 0; i < b.Len(); i, at = i+1, at+cfg.Piece {
		piece := SGE{local.MR, local.Offset + at, min(cfg.Piece, local.Length-at)}
		if err := set(i, Remote{remote.Addr + uint64(at), remote.RKey}, piece); err != nil {
			return nil, err
		}
	}
	return b, nil
}
