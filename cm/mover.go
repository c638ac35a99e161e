package cm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/railbind/railbind/ibv"
)

// mover moves the messages of one Conn: its buffers, and one goroutine that
// takes the completions and wakes whose they are.
type mover struct {
	q  QueueConfig
	mr *ibv.MR // SendDepth buffers, then RecvDepth buffers
	// stride is from one buffer to the next: no short message lies across a page
	// (see siwSplit), nor two in one line of the cache.
	stride int
	cq     *ibv.CQ
	done   func() // gives the completion channel back
	siw    bool   // see nudge

	free    chan int       // send slots that are free
	sends   []sending      // by slot
	recvs   *ibv.RecvBatch // by slot; guarded by mu
	arrived chan arrival
	turn    chan struct{} // taken by the Recv that reads head
	head    arrival       // where held is set, a message that did not fit
	held    bool

	// buffers is read-held while the buffers are touched: close unmaps them.
	buffers sync.RWMutex
	closed  bool

	mu      sync.Mutex
	queued  []bool        // by slot: the receive is in the queue
	posted  int           // how many are
	over    bool          // the queue pair is in error: no receive is posted again
	cause   error         // the first completion in error that is no flush
	drained chan struct{} // closed when over and no message can arrive any more
	dry     bool

	fault   func()        // called once, at the first completion in error
	ended   chan struct{} // closed when nothing completes any more
	stop    context.CancelFunc
	running bool
}

// drainGrace bounds the wait for the flush of receives that were posted while
// the queue pair went into the error state: not every provider flushes those.
const drainGrace = time.Second

// sending is one request of the send queue. The generation tells a completion
// of this use of the slot from any other.
type sending struct {
	batch  *ibv.SendBatch // of this one request; its taker's
	result chan error     // has room for one

	mu   sync.Mutex
	gen  uint32
	busy bool // posted, and its completion is not in
	gone bool // nobody waits: the pump frees the slot
}

// arrival is a receive buffer with a message in it.
type arrival struct {
	slot, n int
}

// The 64 bits of a request's id: which queue, which use, which slot.
const (
	recvFlag = 1 << 63
	slotBits = 31
	slotMask = 1<<slotBits - 1
)

func sendID(slot int, gen uint32) uint64 { return uint64(gen)<<slotBits | uint64(slot) }

func recvID(slot int) uint64 { return recvFlag | uint64(slot) }

const cacheLine = 64

func newMover(ctx *ibv.Context, pd *ibv.PD, q QueueConfig) (*mover, error) {
	m := &mover{
		q:       q,
		stride:  (q.MaxMessage + cacheLine - 1) / cacheLine * cacheLine,
		free:    make(chan int, q.SendDepth),
		sends:   make([]sending, q.SendDepth),
		queued:  make([]bool, q.RecvDepth),
		arrived: make(chan arrival, q.RecvDepth),
		turn:    make(chan struct{}, 1),
		drained: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	for i := range m.sends {
		m.sends[i].result = make(chan error, 1)
		m.free <- i
	}
	ch, done, err := sharedChannel(ctx)
	if err != nil {
		return nil, err
	}
	m.done = done
	if m.cq, err = ctx.CreateCQ(ibv.CQConfig{Size: q.SendDepth + q.RecvDepth, Channel: ch}); err != nil {
		return nil, errors.Join(err, m.close())
	}
	if m.mr, err = pd.AllocMR((q.SendDepth+q.RecvDepth)*m.stride, ibv.LocalWrite); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *mover) qpConfig() ibv.QPConfig {
	return ibv.QPConfig{
		SendCQ:    m.cq,
		RecvCQ:    m.cq,
		MaxSend:   m.q.SendDepth,
		MaxRecv:   m.q.RecvDepth,
		MaxInline: m.q.MaxInline,
	}
}

// start posts the receives and starts taking completions. over tells the end of
// the connection, and fault is called when the queue pair fails by itself.
func (m *mover) start(qp *ibv.QP, over <-chan struct{}, fault func()) error {
	m.fault = fault
	if err := m.prepare(qp); err != nil {
		return err
	}
	for i := range m.q.RecvDepth {
		if err := m.postRecv(i); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.running = cancel, true
	go m.run(ctx)
	go m.watch(ctx, over)
	return nil
}

// prepare lays out the requests once; later only what changes is set.
func (m *mover) prepare(qp *ibv.QP) (err error) {
	for i := range m.sends {
		if m.sends[i].batch, err = qp.NewSendBatch(ibv.BatchConfig{Requests: 1, Inline: m.q.MaxInline}); err != nil {
			return err
		}
	}
	if m.recvs, err = qp.NewRecvBatch(ibv.BatchConfig{Requests: m.q.RecvDepth}); err != nil {
		return err
	}
	for i := range m.q.RecvDepth {
		m.recvs.SetID(i, recvID(i))
		if err := m.recvs.Recv(i, m.mr.SGE((m.q.SendDepth+i)*m.stride, m.q.MaxMessage)); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the arrivals after the end of the connection.
func (m *mover) watch(ctx context.Context, over <-chan struct{}) {
	select {
	case <-over:
	case <-ctx.Done():
		return
	}
	m.end()
	t := time.NewTimer(drainGrace)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.drained:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dryUp()
}

// end notes that the queue pair is in error.
func (m *mover) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.posted == 0 {
		m.dryUp()
	}
}

func (m *mover) dryUp() {
	if !m.dry {
		m.dry = true
		close(m.drained)
	}
}

// close frees everything; the queue pair is closed already.
func (m *mover) close() error {
	if m.running {
		m.stop()
		<-m.ended
	}
	m.buffers.Lock()
	m.closed = true
	m.buffers.Unlock()
	err := errors.Join(m.cq.Close(), m.mr.Close())
	m.done()
	return err
}

// run takes completions until the mover is closed.
func (m *mover) run(ctx context.Context) {
	defer close(m.ended)
	wcs := make([]ibv.WC, m.q.SendDepth+m.q.RecvDepth)
	for {
		n, err := m.cq.Wait(ctx, wcs)
		if err != nil {
			if ctx.Err() == nil {
				m.failed(err)
			}
			return
		}
		for i := range wcs[:n] {
			m.complete(&wcs[i])
		}
	}
}

func (m *mover) complete(wc *ibv.WC) {
	if !wc.OK() {
		m.failed(wc.Err())
	}
	id := wc.ID()
	if id&recvFlag != 0 {
		m.received(id&^recvFlag, wc)
	} else {
		m.sent(id, wc)
	}
}

// failed notes why the queue pair is in error, and tells the connection.
func (m *mover) failed(err error) {
	m.mu.Lock()
	if m.cause == nil && !errors.Is(err, ibv.WCFlushErr) {
		m.cause = err
	}
	fault := m.fault
	m.fault = nil
	m.mu.Unlock()
	m.end()
	if fault != nil {
		fault()
	}
}

// lost is the end of the connection with what this end knows of its cause.
func (m *mover) lost() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause != nil {
		return fmt.Errorf("%w: %w", ErrDisconnected, m.cause)
	}
	return ErrDisconnected
}

// stopped is the answer after the last completion: Close, or a CQ that failed.
func (m *mover) stopped() error {
	m.mu.Lock()
	failed := m.cause != nil
	m.mu.Unlock()
	if failed {
		return m.lost()
	}
	return ErrClosed
}

// sent wakes whoever waits for a request. A completion that belongs to no slot
// is of a request that the program posted on the QP itself.
func (m *mover) sent(id uint64, wc *ibv.WC) {
	slot := int(id & slotMask)
	if slot >= len(m.sends) {
		return
	}
	s := &m.sends[slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy || sendID(slot, s.gen) != id {
		return
	}
	s.busy = false
	s.gen++
	if s.gone {
		s.gone = false
		m.free <- slot
		return
	}
	s.result <- wc.Err()
}

// received hands a message on. A receive that failed is the end of the queue
// pair; after the last of them nothing can arrive any more.
func (m *mover) received(id uint64, wc *ibv.WC) {
	if id >= uint64(len(m.queued)) {
		return
	}
	slot := int(id)
	m.mu.Lock()
	ours := m.queued[slot]
	m.queued[slot] = false
	m.mu.Unlock()
	if !ours {
		return
	}
	if wc.OK() {
		// Never blocks: each buffer is in one place at a time. It is in the channel
		// before it is counted, so that what drained ends has all been handed on.
		m.arrived <- arrival{slot, wc.Len()}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posted--
	if m.posted == 0 && m.over {
		m.dryUp()
	}
}

// buffer is the n-th of the buffers: those of the sends come first.
func (m *mover) buffer(n int) []byte {
	from := n * m.stride
	return m.mr.Bytes()[from : from+m.q.MaxMessage]
}

// send copies p out and waits for its completion.
func (m *mover) send(ctx context.Context, p []byte) error {
	if len(p) > m.q.MaxMessage {
		return &MessageError{Got: len(p), Max: m.q.MaxMessage}
	}
	err := m.do(ctx, func(slot int, b *ibv.SendBatch) error {
		if len(p) <= m.q.MaxInline && m.q.MaxInline > 0 {
			return b.SendInline(0, p)
		}
		copy(m.buffer(slot), p)
		return b.Send(0, m.mr.SGE(slot*m.stride, len(p)))
	})
	// (Only what was posted, or waits behind that, ends so.)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer; the peer may have no receive posted: it must call Recv", err)
	}
	return err
}

// write and read run a WRITE or READ, or where siw needs that one for the bytes before
// a page's end and one for the rest.
func (m *mover) write(ctx context.Context, local ibv.SGE, remote ibv.Remote) error {
	if m.siw && local.MR != nil {
		if n := siwSplit(local.MR.Addr()+uint64(local.Offset), local.Length); n > 0 {
			first, rest, behind := splitAt(n, local, remote)
			if err := m.write(ctx, first, remote); err != nil {
				return err
			}
			local, remote = rest, behind
		}
	}
	return m.do(ctx, func(_ int, b *ibv.SendBatch) error { return b.Write(0, remote, local) })
}

func (m *mover) read(ctx context.Context, local ibv.SGE, remote ibv.Remote) error {
	if m.siw {
		if n := siwSplit(remote.Addr, local.Length); n > 0 {
			first, rest, behind := splitAt(n, local, remote)
			if err := m.read(ctx, first, remote); err != nil {
				return err
			}
			local, remote = rest, behind
		}
	}
	return m.do(ctx, func(_ int, b *ibv.SendBatch) error { return b.Read(0, remote, local) })
}

// do posts one request in a slot of its own and waits for it. A request whose
// caller gave up keeps its slot, and its memory, until its completion is in.
func (m *mover) do(ctx context.Context, set func(slot int, b *ibv.SendBatch) error) error {
	var slot int
	select {
	case slot = <-m.free:
	default:
		select {
		case slot = <-m.free:
		case <-ctx.Done():
			return ctx.Err()
		case <-m.drained:
			return m.lost()
		case <-m.ended:
			return m.stopped()
		}
	}
	s := &m.sends[slot]
	err := m.post(slot, s, set)
	if err != nil && !errors.Is(err, ibv.ErrAcceptedUnknown) {
		m.free <- slot
		return err
	}
	select {
	case err := <-s.result:
		m.free <- slot
		return err
	case <-ctx.Done():
	case <-m.drained:
	case <-m.ended:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-s.result: // it came in after all
		m.free <- slot
		return err
	default:
	}
	s.gone = true
	select {
	case <-m.ended:
		return m.stopped()
	case <-m.drained:
		return m.lost()
	default:
		return ctx.Err()
	}
}

// post lays the request of a slot out and posts it.
func (m *mover) post(slot int, s *sending, set func(slot int, b *ibv.SendBatch) error) error {
	m.buffers.RLock()
	defer m.buffers.RUnlock()
	if m.closed {
		return ErrClosed
	}
	if err := set(slot, s.batch); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch.SetID(0, sendID(slot, s.gen))
	_, err := s.batch.Post()
	s.busy = err == nil || errors.Is(err, ibv.ErrAcceptedUnknown)
	return err
}

// recv takes the next message.
func (m *mover) recv(ctx context.Context, p []byte) (int, error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-m.ended:
		return 0, m.stopped()
	}
	defer func() { <-m.turn }()
	if !m.held {
		a, err := m.next(ctx)
		if err != nil {
			return 0, err
		}
		m.head, m.held = a, true
	}
	a := m.head
	m.buffers.RLock()
	defer m.buffers.RUnlock()
	if m.closed {
		return 0, ErrClosed
	}
	if a.n > len(p) {
		return a.n, io.ErrShortBuffer
	}
	copy(p, m.buffer(m.q.SendDepth + a.slot)[:a.n])
	m.held = false
	// A failure to post shows as the end of the connection, not of this message.
	if m.postRecv(a.slot) != nil {
		m.end()
	}
	return a.n, nil
}

func (m *mover) next(ctx context.Context) (arrival, error) {
	var err error
	select {
	case a := <-m.arrived:
		return a, nil
	default:
	}
	select {
	case a := <-m.arrived:
		return a, nil
	case <-m.drained:
		err = m.lost()
	case <-m.ended:
		err = m.stopped()
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case a := <-m.arrived: // what had arrived comes first
		return a, nil
	default:
		return arrival{}, err
	}
}

func (m *mover) postRecv(slot int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return nil
	}
	_, err := m.recvs.PostRange(slot, 1)
	if err == nil || errors.Is(err, ibv.ErrAcceptedUnknown) {
		m.queued[slot] = true
		m.posted++
	}
	return err
}
