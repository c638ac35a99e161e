package cm

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/railbind/railbind/ibv"
)

// ListenConfig says how a listener behaves. The zero value is usable.
type ListenConfig struct {
	Backlog  int // requests that may wait, at most MaxBacklog; 0: DefaultBacklog
	Timeouts Timeouts
	Options  Options
	Channel  *EventChannel // nil: one that the process shares
	Logger   *slog.Logger  // see IDConfig
}

// Listener takes connection requests. All its methods may be called at once
// from many goroutines.
type Listener struct {
	id *ID
}

// Listen binds local and listens there. A specific address pins every
// connection to its device: a request that lands elsewhere is rejected. The
// unspecified address takes requests on all devices; Request.Binding says where
// each landed. Port 0 lets the kernel choose; Addr tells.
func Listen(local netip.AddrPort, cfg ListenConfig) (*Listener, error) {
	id, err := NewID(IDConfig{Channel: cfg.Channel, Timeouts: cfg.Timeouts, Options: cfg.Options, Logger: cfg.Logger})
	if err != nil {
		return nil, &OpError{Op: "listen", Local: local, Err: err}
	}
	err = id.Bind(local)
	if err == nil {
		err = id.Listen(cfg.Backlog)
	}
	if err != nil {
		id.Close()
		return nil, err
	}
	return &Listener{id: id}, nil
}

// Accept waits for the next connection request.
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	id, err := l.ID().GetRequest(ctx)
	if err != nil {
		return nil, err
	}
	return &Request{id: id}, nil
}

// Addr is the address and port that the listener is bound to.
func (l *Listener) Addr() netip.AddrPort { return l.ID().LocalAddr() }

// Binding says which device the listener is pinned to, if any.
func (l *Listener) Binding() Binding { return l.ID().Binding() }

// ID is the listening id.
func (l *Listener) ID() *ID {
	if l == nil {
		return nil
	}
	return l.id
}

// Stats gives the listener's counters.
func (l *Listener) Stats() ListenStats { return l.ID().ListenStats() }

// Close ends the listener: waiting Accepts return ErrClosed, requests that
// nobody took are rejected. Connections made before live on.
func (l *Listener) Close() error { return l.ID().Close() }

// Request is a connection request that waits for an answer: Accept, Reject, or
// Close, which rejects. After Accept or Reject it is answered: Close does
// nothing, and a second answer is ErrState. It may be used by one goroutine at a
// time.
type Request struct {
	id       *ID
	answered bool
}

// AcceptConfig says how a request is accepted. The zero value is usable.
type AcceptConfig struct {
	Queues QueueConfig
	Param  ConnParam
	// Resources, where given, brings the PD and the queues, on the device where
	// the request landed.
	Resources func(*ibv.Context) (Resources, error)
}

// Binding says where the request landed: device, port, network device, GID.
func (r *Request) Binding() Binding { return r.ID().Binding() }

// LocalAddr is the address that the peer asked for.
func (r *Request) LocalAddr() netip.AddrPort { return r.ID().LocalAddr() }

// RemoteAddr is the peer's address.
func (r *Request) RemoteAddr() netip.AddrPort { return r.ID().RemoteAddr() }

// PrivateData is what the peer sent with the request, padded with zeros to the
// field's length.
func (r *Request) PrivateData() []byte { return r.ID().RequestData() }

// ID is the id behind the request, for those who answer step by step.
func (r *Request) ID() *ID {
	if r == nil {
		return nil
	}
	return r.id
}

// Accept makes the connection's queues, posts their receives, answers the peer
// and waits until the connection is established. On an error the request is
// rejected and gone.
func (r *Request) Accept(ctx context.Context, cfg AcceptConfig) (*Conn, error) {
	if r == nil || r.id == nil {
		return nil, &OpError{Op: "accept", Err: ErrClosed}
	}
	if r.answered {
		return nil, r.id.fail("accept", errAnswered)
	}
	r.answered = true
	c, err := newConn(r.id, cfg.Queues, cfg.Resources)
	if err != nil {
		err = r.id.fail("accept", err)
		r.id.Close()
		return nil, err
	}
	if err := r.id.Accept(ctx, cfg.Param); err != nil {
		c.abandon()
		return nil, err
	}
	return c, nil
}

// Reject refuses the request with private data of at most MaxRejectData bytes,
// and closes it. Where the data is too long, the request stays open.
func (r *Request) Reject(private []byte) error {
	if r == nil || r.id == nil {
		return &OpError{Op: "reject", Err: ErrClosed}
	}
	if r.answered {
		return r.id.fail("reject", errAnswered)
	}
	if err := r.id.Reject(private); err != nil {
		return err
	}
	r.answered = true
	return r.id.Close()
}

// Close rejects the request without private data, if it is not answered.
func (r *Request) Close() error {
	if r == nil || r.answered {
		return nil
	}
	r.answered = true
	return r.id.Close()
}

var errAnswered = fmt.Errorf("%w: the request is answered already", ErrState)
