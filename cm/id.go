package cm

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/internal/route"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// IDConfig says how an id behaves. The zero value is a TCP port space id under
// the policy Auto on the process's own event channel.
type IDConfig struct {
	Channel   *EventChannel // nil: one that the process shares
	PortSpace PortSpace     // 0: PortSpaceTCP
	Policy    Policy
	// AllowLocalCrossing lets PinBound pass a destination that is a local
	// address of another network device. It connects only on hosts with routing
	// rules made for it.
	AllowLocalCrossing bool
	// RequireOnLinkRoute refuses a destination that the kernel would merely
	// assume to be on the bound link.
	RequireOnLinkRoute bool
	Timeouts           Timeouts
	Options            Options
	// Logger gets a record of each decision of the binding rule, with the
	// Decision as an attribute: accepted at level Info, refused at Warn, and what
	// the kernel did against the rule at Error. nil: none. See also ReadCounters.
	Logger *slog.Logger

	stepHook func(step string) // tests change the network between the steps
}

// Timeouts bound the steps, also where the context has no deadline; the
// kernel's own bound for an unanswered connect is 78 to 102 s. Zero is the
// default in the comment.
type Timeouts struct {
	ResolveAddr  time.Duration // 5 s
	ResolveRoute time.Duration // 5 s
	Connect      time.Duration // 15 s; also Accept's wait for the peer's answer
}

func (t Timeouts) withDefaults() Timeouts {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&t.ResolveAddr, 5*time.Second)
	def(&t.ResolveRoute, 5*time.Second)
	def(&t.Connect, 15*time.Second)
	return t
}

// ID is a cm_id: one end of a connection, or a listener. Its steps are taken
// one at a time (a second one meanwhile is ErrConcurrent); Close and the
// questions may be called at any time.
type ID struct {
	cfg    IDConfig
	ch     *EventChannel
	host   *host
	cookie uint64
	past   []place // on the channels that it has been on before

	step sync.Mutex // held during a step

	calls     sync.RWMutex // read-held while C uses h; written to destroy it or its QP
	h         cgo.ID
	destroyed bool

	mu        sync.Mutex
	state     State
	binding   Binding
	decision  Decision
	decided   route.Mark // before it
	info      cgo.IDInfo // as of the last event or bind
	ctx       *ibv.Context
	qp        *ibv.QP
	srq       *ibv.SRQ
	fault     bool           // the QP is known to be in error
	cause     error          // of Poisoned and Removed
	landed    time.Time      // when the request behind a child came
	pending   chan cgo.Event // where a waiting step gets its event
	requests  *requestQueue  // of a listener
	request   *cgo.Event     // the CONNECT_REQUEST behind a child
	peerData  []byte         // of the answer that established the connection
	own       *ibv.QP        // the caller's queue pair that stands for qp, see ConnParam.QP
	udPeer    *UDPeer        // of an id of datagrams, once it is known
	answering *attempt       // between StartAccept and FinishAccept
	groups    groups
	notices   chan Notice

	answered chan struct{} // closed when the peer has acknowledged the end, begun it, or never will
	over     chan struct{} // closed when the connection is over, or the id
	overErr  error
	closed   chan struct{} // closed when Close is done
	closing  bool
	acks     sync.WaitGroup // what Close waits for: telling the peer of the end, and a scratch id
}

// NewID makes an id in the network namespace of the calling goroutine's OS
// thread (which matters only to callers that lock their thread and change its
// namespace).
//
// Implements: int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
func NewID(cfg IDConfig) (*ID, error) {
	switch p := cfg.PortSpace.orTCP(); p {
	case PortSpaceTCP, PortSpaceUDP, PortSpaceIB, PortSpaceIPoIB:
	default:
		return nil, fmt.Errorf("cm: new id: there is no %v: %w", p, errors.ErrUnsupported)
	}
	ch, err := channelOrDefault(cfg.Channel)
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := acquireHost()
	if err != nil {
		return nil, err
	}
	id := newID(ch, h, cfg)
	if id.cookie, err = ch.register(id); err != nil {
		h.release()
		return nil, err
	}
	if id.h, err = cgo.CreateID(ch.h, id.cookie, int(cfg.PortSpace.orTCP())); err != nil {
		ch.unregister(id.cookie)
		h.release()
		return nil, fmt.Errorf("cm: %w", err)
	}
	if err := id.call(cfg.Options.set); err != nil {
		return nil, errors.Join(fmt.Errorf("cm: set an option of a new id: %w", err), id.Close())
	}
	return id, nil
}

func newID(ch *EventChannel, h *host, cfg IDConfig) *ID {
	cfg.Channel = ch
	cfg.Timeouts = cfg.Timeouts.withDefaults()
	return &ID{
		cfg:      cfg,
		ch:       ch,
		host:     h,
		over:     make(chan struct{}),
		answered: make(chan struct{}),
		closed:   make(chan struct{}),
		notices:  make(chan Notice, maxNotices),
	}
}

// none stands for an id that is nil or zero: one that is closed.
var none = func() *ID {
	id := newID(nil, nil, IDConfig{})
	id.state, id.closing, id.destroyed = StateDestroyed, true, true
	id.finish(ErrClosed)
	close(id.closed)
	return id
}()

func (id *ID) orNone() *ID {
	if id == nil || id.over == nil {
		return none
	}
	return id
}

// Close destroys the id, whatever it was doing: a waiting step returns
// ErrClosed, a connection is ended, a QP made by CreateQP is closed. Closing
// twice, or a nil id, is fine. On iWARP it can take up to 10 s while the peer
// has not answered a Connect, and two minutes where the peer's host is silent: so
// long the kernel does not let go of the id.
//
// Implements: int rdma_destroy_id(struct rdma_cm_id *id)
func (id *ID) Close() error {
	id = id.orNone()
	id.mu.Lock()
	if id.closing {
		id.mu.Unlock()
		<-id.closed
		return nil
	}
	id.closing = true
	id.state = StateDestroyed
	id.finish(ErrClosed)
	qp, ctx, queue := id.qp, id.ctx, id.requests
	removed := errors.Is(id.overErr, ibv.ErrDeviceRemoved) || errors.Is(id.cause, ibv.ErrDeviceRemoved)
	id.mu.Unlock()

	if queue != nil {
		queue.close()
	}
	id.acks.Wait()
	// The kernel's id goes first and the QP after it: then no event can be in
	// the middle of moving the QP when it is destroyed.
	id.leaveAll()
	id.calls.Lock()
	err := id.h.Destroy()
	id.destroyed = true
	id.calls.Unlock()
	id.ch.unregister(id.cookie)
	for _, p := range id.past {
		p.vacate()
	}
	err = errors.Join(err, qp.Close())
	if ctx != nil {
		ctx.Drop()
	}
	if removed {
		forgetRemoved()
	}
	id.host.release()
	close(id.closed)
	if err != nil {
		return fmt.Errorf("cm: close id: %w", err)
	}
	return nil
}

// finish marks the connection as over; id.mu is held.
func (id *ID) finish(err error) {
	if id.overErr == nil {
		id.overErr = err
		close(id.over)
	}
}

// Done is closed when the connection is over: ended by the peer, by Disconnect,
// by a fault, or by Close. Err says which.
func (id *ID) Done() <-chan struct{} { return id.orNone().over }

// Err is nil until Done is closed; then ErrDisconnected, ErrDeviceRemoved or
// ErrClosed.
func (id *ID) Err() error {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.overErr
}

// State says where the id stands.
func (id *ID) State() State {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.state
}

// Binding says whether, to what and since when the id is bound, in any state.
// It is this library's own record, checked against the host at every step,
// because no field of the kernel's id is proof:
//
//   - a nil id->verbs is also that of an id bound to a wildcard or to loopback,
//     and of one on which a resolve failed after the kernel had bound it;
//   - the local address of a wildcard-bound id looks like that of an idle one,
//     and an IPv4 resolve fills it in before it is known to succeed;
//   - id->verbs and the source GID stay those of the bound device where an IPv6
//     path leaves through another one: only the path's MTU may show it.
//
// An id from a listener is bound where its request landed, since then; a
// listener where it was bound, or to no device. Where a step failed that could
// have bound the id in part, the state is policy.BoundUnknown. What was true
// last stays on record after the end of the connection and of the id.
func (id *ID) Binding() Binding {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.binding
}

// Decision is what the last ResolveAddr decided; its Verdict is Undecided
// before.
func (id *ID) Decision() Decision {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.decision
}

// Context is the device the id is on, nil while it is on none. It is borrowed:
// closing it is refused, and it lives as long as the id or what was made on it.
func (id *ID) Context() *ibv.Context {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ctx
}

// QP is the queue pair made by CreateQP, nil before.
func (id *ID) QP() *ibv.QP {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// LocalAddr is the local address and port; the zone of a link-local address is
// its interface's index.
//
// Implements: static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id)
// and __be16 rdma_get_src_port(struct rdma_cm_id *id)
func (id *ID) LocalAddr() netip.AddrPort {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.info.Local
}

// RemoteAddr is the peer's address and port.
//
// Implements: static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id)
// and __be16 rdma_get_dst_port(struct rdma_cm_id *id)
func (id *ID) RemoteAddr() netip.AddrPort {
	id = id.orNone()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.info.Peer
}

// begin opens a step: it checks that none is in progress and that the id stands
// where the step may be taken. The step's end is id.step.Unlock.
func (id *ID) begin(op string, allowed ...State) error {
	if id.orNone() == none {
		return &OpError{Op: op, Err: ErrClosed}
	}
	if !id.step.TryLock() {
		return id.fail(op, ErrConcurrent)
	}
	id.mu.Lock()
	state, cause := id.state, id.cause
	id.mu.Unlock()
	for _, s := range allowed {
		if s == state {
			return nil
		}
	}
	id.step.Unlock()
	switch state {
	case StateDestroyed:
		return id.fail(op, ErrClosed)
	case StatePoisoned:
		return id.fail(op, fmt.Errorf("%w: close it and make a new one; it was: %w", ErrPoisoned, cause))
	case StateRemoved:
		return id.fail(op, ibv.ErrDeviceRemoved)
	case StateDisconnected:
		return id.fail(op, ErrDisconnected)
	}
	return id.fail(op, fmt.Errorf("%w: needs the state %s, the id is in %s", ErrState, stateList(allowed), state))
}

func stateList(states []State) string {
	s := ""
	for i, st := range states {
		if i > 0 {
			s += " or "
		}
		s += st.String()
	}
	return s
}

// at tells a test that the id has come to a step.
func (id *ID) at(step string) {
	if id.cfg.stepHook != nil {
		id.cfg.stepHook(step)
	}
}

// call runs f on the C id, which cannot be destroyed meanwhile.
func (id *ID) call(f func(h cgo.ID) error) error {
	id = id.orNone()
	id.calls.RLock()
	defer id.calls.RUnlock()
	if id.destroyed {
		return ErrClosed
	}
	return f(id.h)
}

// naming adds to a step's error what has changed since the decision.
func (id *ID) naming(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	id.mu.Lock()
	d, since := id.decision, id.decided
	id.mu.Unlock()
	if text := policy.Meanwhile(d, id.host.Since(since)); text != "" && !strings.Contains(err.Error(), text) {
		return fmt.Errorf("%w; %s", err, text)
	}
	return err
}

// poison records a failed kernel step; only Close is allowed after it. It
// returns the error as the caller sees it.
func (id *ID) poison(op string, err error) error {
	if !errors.Is(err, ibv.ErrDeviceRemoved) && !errors.Is(err, ErrClosed) && id.deviceGone() {
		err = fmt.Errorf("%w: %w", ibv.ErrDeviceRemoved, err)
	}
	err = id.fail(op, id.naming(err))
	id.refused(err)
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.overErr == nil {
		id.state, id.cause = StatePoisoned, err
		if id.binding.State != policy.BoundDevice || errors.Is(err, ErrDeviceSplit) {
			id.binding = Binding{State: policy.BoundUnknown, Addr: id.binding.Addr, Since: time.Now()}
		}
	}
	return err
}

// fail dresses err with the step and the id's addresses.
func (id *ID) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &OpError{Op: op, Err: err}
	if id != nil {
		id.mu.Lock()
		e.Local, e.Remote, e.Device = id.info.Local, id.info.Peer, id.info.Device
		id.mu.Unlock()
	}
	return e
}

// setInfo records what the kernel's id says and takes hold of its device.
func (id *ID) setInfo(info cgo.IDInfo) error {
	var ctx *ibv.Context
	id.mu.Lock()
	id.info = info
	need := id.ctx == nil && !info.Verbs.IsNil()
	id.mu.Unlock()
	if !need {
		return nil
	}
	ctx, err := borrow(info.Verbs)
	if err != nil {
		return err
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closing {
		ctx.Drop()
		return ErrClosed
	}
	id.ctx = ctx
	return nil
}

// kernelView is what the policy's checks need of an id's fields.
func (id *ID) kernelView(info cgo.IDInfo) policy.Kernel {
	k := policy.Kernel{
		Device:      info.Device,
		DeviceIndex: info.DeviceIndex,
		Port:        info.Port,
		Local:       info.Local,
		Peer:        info.Peer,
		SGID:        policy.GID(info.SGID),
		DGID:        policy.GID(info.DGID),
	}
	if info.NumPaths > 0 {
		k.SGID, k.DGID = policy.GID(info.PathSGID), policy.GID(info.PathDGID)
		k.PathMTU = ibv.MTU(info.PathMTU).Bytes()
	}
	if !info.Verbs.IsNil() {
		k.Transport = id.transport()
	}
	return k
}

// transport is that of the device and port the id is on.
func (id *ID) transport() policy.Transport {
	id.mu.Lock()
	ctx, port := id.ctx, id.info.Port
	id.mu.Unlock()
	if ctx == nil {
		return policy.TransportUnknown
	}
	if ctx.Transport() == ibv.TransportIWARP {
		return policy.IWARP
	}
	attr, err := ctx.QueryPort(port)
	if err != nil {
		return policy.TransportUnknown
	}
	return transportOf(ctx.Transport(), attr.LinkLayer)
}
