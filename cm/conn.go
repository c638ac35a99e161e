package cm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// QueueConfig sizes the queues and message buffers of a Conn. Zero is the
// default in the comment.
type QueueConfig struct {
	SendDepth  int // 16: Sends, Reads and Writes under way at once
	RecvDepth  int // 16: messages that may arrive before Recv takes them
	MaxMessage int // 4096: bytes of the longest message of Send and Recv
	MaxInline  int // 0: bytes that the device copies at once from small Sends
}

func (q QueueConfig) withDefaults() QueueConfig {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&q.SendDepth, 16)
	def(&q.RecvDepth, 16)
	def(&q.MaxMessage, 4096)
	return q
}

// check refuses what the device has no room for.
func (q QueueConfig) check(dev ibv.DeviceAttr, port ibv.PortAttr) error {
	return checkBounds(
		bound{"SendDepth", q.SendDepth, dev.MaxQPWR}, bound{"RecvDepth", q.RecvDepth, dev.MaxQPWR},
		bound{"MaxMessage", q.MaxMessage, int(port.MaxMsgSize)}, bound{"MaxInline", q.MaxInline, q.MaxMessage})
}

// Resources are PD and queues that the caller brings for a connection and keeps:
// Conn's Close closes the QP and nothing else. Send, Recv, Read and Write are
// not available on such a Conn: its QP and CQs are the caller's to use.
type Resources struct {
	PD *ibv.PD
	QP ibv.QPConfig // with the CQs
	// Prepare, where given, is called with the QP before the peer can send:
	// the place to post receives.
	Prepare func(*ibv.QP) error
}

// ErrOwnQueues is the answer to Send, Recv, Read or Write on a Conn that was made with Resources.
var ErrOwnQueues = errors.New("the connection's queues are the caller's own: use QP and CQs")

// closeLinger bounds how long Close waits for the peer to acknowledge the end.
const closeLinger = time.Second

// Conn is a connection. Its methods may be called at once from many goroutines.
//
// Send and Recv move messages through buffers of the Conn's own, one copy on
// either side; Read and Write move registered memory without a copy. Whoever
// wants to post requests of their own brings the queues with Resources: on a QP
// that the Conn made, their completions would be lost among its own.
type Conn struct {
	id *ID
	pd *ibv.PD
	qp *ibv.QP
	q  QueueConfig
	m  *mover // nil where the queues are the caller's

	closing sync.Once
	ending  atomic.Bool // Close has begun
	closed  chan struct{}
	err     error // of Close
}

// newConn makes the queues of a connection on the device where id has come to
// be. On success the Conn owns the id.
func newConn(id *ID, q QueueConfig, resources func(*ibv.Context) (Resources, error)) (*Conn, error) {
	c := &Conn{id: id, q: q.withDefaults(), closed: make(chan struct{})}
	var err error
	if resources != nil {
		returned := false
		defer func() {
			if !returned { // the caller's function has panicked, or ended its goroutine
				_ = id.Close()
			}
		}()
		err = c.borrowResources(resources)
		returned = true
	} else {
		err = c.makeResources()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Conn) borrowResources(resources func(*ibv.Context) (Resources, error)) error {
	r, err := resources(c.id.Context())
	if err != nil {
		return err
	}
	c.pd = r.PD
	if c.qp, err = c.id.CreateQP(r.PD, r.QP); err != nil {
		return err
	}
	if r.Prepare != nil {
		return r.Prepare(c.qp)
	}
	return nil
}

func (c *Conn) makeResources() (err error) {
	dev, err := c.id.Context().QueryDevice()
	if err != nil {
		return err
	}
	port, err := c.id.Context().QueryPort(max(c.id.Binding().Port, 1))
	if err != nil {
		return err
	}
	if err := c.q.check(dev, port); err != nil {
		return err
	}
	if c.pd, err = c.id.Context().AllocPD(); err != nil {
		return err
	}
	if c.m, err = newMover(c.id.Context(), c.pd, c.q); err != nil {
		return errors.Join(err, c.pd.Close())
	}
	c.m.siw = dev.VendorID == vendorSiw
	c.qp, err = c.id.CreateQP(c.pd, c.m.qpConfig())
	if err == nil {
		err = c.m.start(c.qp, c.id.Done(), c.id.qpFailed)
	}
	if err != nil {
		return errors.Join(err, c.qp.Close(), c.m.close(), c.pd.Close())
	}
	return nil
}

// Send sends p as one message, of at most QueueConfig.MaxMessage bytes, and
// returns when the peer's device has it; on iWARP, when TCP has taken it, and
// then a Close that follows at once can lose it. When ctx ends first, the message may
// or may not arrive.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	m, err := c.mover()
	if err == nil {
		err = m.send(ctx, p)
	}
	return c.fail("send", err)
}

// Recv takes the next message into p and returns its length. Where p is too
// small it returns io.ErrShortBuffer and the length that is needed, and the
// message stays. After the end of the connection it first returns the messages
// that had arrived, then ErrDisconnected; with an *ibv.WCError where this end
// knows a cause, such as a message of the peer over QueueConfig.MaxMessage.
func (c *Conn) Recv(ctx context.Context, p []byte) (int, error) {
	m, err := c.mover()
	n := 0
	if err == nil {
		n, err = m.recv(ctx, p)
	}
	if errors.Is(err, io.ErrShortBuffer) {
		return n, err
	}
	return n, c.fail("receive", err)
}

// Write copies local, a piece of memory registered with PD, to the peer's
// memory. It returns when the data is there. When ctx ends first, the device may
// still be reading local; only Close ends that.
func (c *Conn) Write(ctx context.Context, local ibv.SGE, remote ibv.Remote) error {
	m, err := c.mover()
	if err == nil {
		err = m.write(ctx, local, remote)
	}
	return c.fail("write", err)
}

// Read copies the peer's memory to local, a piece of memory registered with PD
// for local writing. When ctx ends first, the device may still write to local;
// only Close ends that.
//
// On rxe (kernel 6.1; 6.12 has the same lines) a READ whose answer the peer could
// not send, its link being down, can be reported as done with nothing or only a
// part of it in local; the connection has ended then, and the next operation says so.
// Of at most 32 bytes across a page's end siw makes two, as it answers one with other
// bytes.
func (c *Conn) Read(ctx context.Context, local ibv.SGE, remote ibv.Remote) error {
	m, err := c.mover()
	if err == nil {
		err = m.read(ctx, local, remote)
	}
	return c.fail("read", err)
}

func (c *Conn) mover() (*mover, error) {
	switch {
	case c == nil || c.id == nil:
		return nil, ErrClosed
	case c.m == nil:
		return nil, ErrOwnQueues
	}
	return c.m, nil
}

// fail dresses an error; a request that the end of the connection has flushed
// says how the connection ended.
func (c *Conn) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if c == nil || c.id == nil {
		return &OpError{Op: op, Err: err}
	}
	var wc *ibv.WCError
	if errors.As(err, &wc) && !errors.Is(err, ErrDisconnected) {
		err = fmt.Errorf("%w: %w", ErrDisconnected, err) // its queue pair is in error
	}
	if c.ending.Load() && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	} else if over := c.id.Err(); over != nil && !errors.Is(err, over) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", over, err)
	}
	return c.id.fail(op, err)
}

// ID is the connection's id; closing it ends the connection.
func (c *Conn) ID() *ID {
	if c == nil {
		return nil
	}
	return c.id
}

// QP is the connection's queue pair, to look at; to post on it, bring Resources.
func (c *Conn) QP() *ibv.QP {
	if c == nil {
		return nil
	}
	return c.qp
}

// PD is the protection domain of the connection's queues: memory for Read and
// Write is registered with it.
func (c *Conn) PD() *ibv.PD {
	if c == nil {
		return nil
	}
	return c.pd
}

// Binding says to what the connection is bound.
func (c *Conn) Binding() Binding { return c.ID().Binding() }

// Decision says why the connection is where it is.
func (c *Conn) Decision() Decision { return c.ID().Decision() }

// LocalAddr is the address and port of this end.
func (c *Conn) LocalAddr() netip.AddrPort { return c.ID().LocalAddr() }

// RemoteAddr is the address and port of the peer.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.ID().RemoteAddr() }

// Done is closed when the connection is over; Err says how.
func (c *Conn) Done() <-chan struct{} { return c.ID().Done() }

// Err is nil until Done is closed.
func (c *Conn) Err() error { return c.ID().Err() }

// Close ends the connection and frees its queues and buffers; whoever waits gets
// ErrClosed. It waits up to a second for the peer to acknowledge the end.
// Memory that the caller registered with PD must be closed before: otherwise
// Close ends the connection and returns ErrBusy for the PD, and may be called
// again. Closing twice, or a nil Conn, is fine.
func (c *Conn) Close() error {
	if c == nil || c.id == nil {
		return nil
	}
	c.closing.Do(func() {
		c.ending.Store(true)
		if err := c.id.Disconnect(); err == nil || errors.Is(err, ErrConcurrent) {
			c.id.waitAnswer(closeLinger)
		}
		c.err = c.id.Close()
		if c.m != nil {
			c.err = errors.Join(c.err, c.m.close())
		}
		close(c.closed)
	})
	<-c.closed
	if c.m == nil {
		return c.err
	}
	return errors.Join(c.err, c.pd.Close())
}

// abandon closes a connection that did not come to be. iWARP's kernel code does
// not let go of an id before its TCP peer has answered or its own 10 s are over,
// and the caller's deadline is past: that wait is left to the background.
func (c *Conn) abandon() {
	if c.id.transport() == policy.IWARP {
		go c.Close()
		return
	}
	c.Close()
}
