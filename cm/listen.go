package cm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// DefaultBacklog is the backlog of a listener that names none, MaxBacklog the
// largest.
const (
	DefaultBacklog = 128
	MaxBacklog     = 1 << 16
)

// Listen makes a bound id a listener. Requests wait in a queue of backlog (0:
// DefaultBacklog), also while nobody calls GetRequest; one that finds the queue
// full is rejected and counted. The kernel's own queue, for requests not yet
// fetched, has the same length, at most 1024 (net.rdma_ucm.max_backlog).
//
// Errors: EADDRINUSE (another id listens there: possible with Options.ReuseAddr; on
// iWARP also a TCP socket).
//
// Implements: int rdma_listen(struct rdma_cm_id *id, int backlog)
func (id *ID) Listen(backlog int) error {
	const op = "listen"
	if err := id.begin(op, StateBoundWildcard, StateBoundDevice); err != nil {
		return err
	}
	defer id.step.Unlock()
	if backlog == 0 {
		backlog = DefaultBacklog
	}
	if backlog < 0 || backlog > MaxBacklog {
		return id.fail(op, fmt.Errorf("%w: a backlog of %d, at most %d", ibv.ErrInvalid, backlog, MaxBacklog))
	}
	id.mu.Lock()
	if !id.closing {
		id.requests = newRequestQueue(backlog)
		id.state = StateListening // before the first request can come
	}
	id.mu.Unlock()
	since := id.host.Mark()
	err := id.call(func(h cgo.ID) error {
		if err := h.Listen(backlog); err != nil {
			return err
		}
		// The kernel has now chosen a port where none was given.
		info := h.Info()
		id.mu.Lock()
		id.info = info
		id.binding.Addr = info.Local
		id.mu.Unlock()
		return nil
	})
	if err == nil && id.State() == StateDestroyed {
		err = ErrClosed
	}
	if err != nil {
		return id.poison(op, explainBind(id.host, id.LocalAddr(), id.host.Since(since), err))
	}
	return nil
}

// GetRequest waits for the next connection request and returns its id, in the
// state Requested, on the device where the request landed. It is checked
// against the listener's binding; one that landed elsewhere is rejected,
// counted in Refused, and not returned. Many goroutines may wait at once.
//
// Implements: int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
func (id *ID) GetRequest(ctx context.Context) (*ID, error) {
	const op = "wait for a connection request"
	id = id.orNone()
	id.mu.Lock()
	q := id.requests
	id.mu.Unlock()
	if q == nil {
		// Not a listener: begin knows how to say what it is.
		if err := id.begin(op, StateListening); err != nil {
			return nil, err
		}
		id.step.Unlock()
		return nil, id.fail(op, ErrState)
	}
	for {
		child, err := q.get(ctx)
		if err != nil {
			return nil, id.fail(op, err)
		}
		if err := child.inspect(id.Binding()); err != nil {
			if policy.SentinelName(err) != "" {
				q.refuse(err)
				child.refused(err)
			}
			child.Close() // destroying it rejects the peer
			continue
		}
		child.accepted(child.Decision())
		return child, nil
	}
}

// ListenStats are a listener's counters.
type ListenStats struct {
	Dropped uint64 // requests rejected because the queue was full
	Refused uint64 // requests rejected because they landed off the binding
	// LastRefusal says why, for the latest of Refused.
	LastRefusal error
}

// ListenStats gives the counters of a listener.
func (id *ID) ListenStats() ListenStats {
	id = id.orNone()
	id.mu.Lock()
	q := id.requests
	id.mu.Unlock()
	if q == nil {
		return ListenStats{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// adopt makes the id of a connection request known, on the pump's goroutine; nil
// where the listener cannot take it.
func (c *EventChannel) adopt(listener *ID, ev *cgo.Event) *ID {
	if listener == nil {
		return nil
	}
	listener.mu.Lock()
	q := listener.requests
	ok := q != nil && !listener.closing && q.reserve()
	if ok {
		listener.host.retain() // while the listener still does
	}
	listener.mu.Unlock()
	if !ok {
		return nil
	}
	child := newID(c, listener.host, listener.cfg)
	child.h = ev.NewID
	child.landed = time.Now()
	child.state = StateRequested
	child.info = ev.Info
	child.request = ev
	cookie, err := c.register(child)
	if err != nil {
		child.host.release()
		return nil
	}
	child.cookie = cookie
	ev.NewID.SetCookie(cookie)
	if !q.put(child) {
		go child.Close() // the listener closed meanwhile
	}
	return child
}

// inspect finds out where a request landed, and holds it against the
// listener's binding.
func (id *ID) inspect(listener Binding) error {
	id.mu.Lock()
	info := id.info
	id.mu.Unlock()
	if err := id.setInfo(info); err != nil {
		return err
	}
	if err := id.call(id.cfg.Options.ofChild().set); err != nil {
		return err
	}
	since := id.host.Mark()
	b, err := policy.CheckRequest(id.host, listener, id.kernelView(info))
	if err == nil {
		err = policy.CheckPortSpace(b, id.cfg.PortSpace.policy())
	}
	if err != nil {
		return err
	}
	id.decide(Decision{
		Request: policy.Request{Dst: info.Peer},
		Policy:  id.cfg.Policy,
		Verdict: policy.Accepted,
		Reason:  "the connection request landed here",
		Binding: b,
	}, since)
	id.mu.Lock()
	defer id.mu.Unlock()
	id.bound(b)
	id.binding.Since = id.landed
	id.info.Local = b.Addr // with its zone, which the kernel leaves out
	if zone := b.Addr.Addr().Zone(); zone != "" {
		id.info.Peer = withZone(info.Peer, zone)
	}
	return nil
}

// RequestData is the private data of the connection request behind an id that
// a listener gave, as the wire has it: padded with zeros.
func (id *ID) RequestData() []byte {
	if id == nil || id.request == nil {
		return nil
	}
	return id.request.PrivateData
}

// requestQueue holds the requests that nobody has taken yet.
type requestQueue struct {
	ch    chan *ID
	ended chan struct{}

	mu    sync.Mutex
	err   error // set when ended is closed
	stats ListenStats
}

func newRequestQueue(n int) *requestQueue {
	return &requestQueue{ch: make(chan *ID, n), ended: make(chan struct{})}
}

// reserve reports whether the queue has room; only the pump puts, so room that
// it saw stays.
func (q *requestQueue) reserve() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return false
	}
	if len(q.ch) == cap(q.ch) {
		q.stats.Dropped++
		return false
	}
	return true
}

func (q *requestQueue) put(id *ID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return false
	}
	q.ch <- id
	return true
}

func (q *requestQueue) get(ctx context.Context) (*ID, error) {
	select {
	case id := <-q.ch:
		return id, nil
	case <-q.ended:
		q.mu.Lock()
		defer q.mu.Unlock()
		return nil, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (q *requestQueue) refuse(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Refused++
	q.stats.LastRefusal = err
}

// fail wakes all waiters with err; what is queued stays for close.
func (q *requestQueue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		close(q.ended)
	}
}

// close ends the queue and destroys what nobody took.
func (q *requestQueue) close() {
	q.fail(ErrClosed)
	for {
		select {
		case id := <-q.ch:
			id.Close()
		default:
			return
		}
	}
}
