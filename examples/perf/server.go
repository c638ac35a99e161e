package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// serve listens and takes part in the measurements of one client, or of one after
// another.
func serve(ctx context.Context, o options, out *output) error {
	l, err := listen(o)
	if err != nil {
		return out.failed(err)
	}
	defer l.Close()
	out.listening(l)
	for {
		req, err := l.Accept(ctx)
		if err != nil {
			return out.failed(err)
		}
		token, ours := tokenOf(req.PrivateData())
		if !ours || token != 0 {
			if err := req.Reject(nil); err != nil {
				out.say("reject %v: %v", req.RemoteAddr(), err)
			}
			continue
		}
		err = out.failed((&server{options: o, out: out, l: l}).session(ctx, req))
		if !o.persistent || ctx.Err() != nil {
			return err
		}
	}
}

func listen(o options) (*cm.Listener, error) {
	a := o.source
	if !a.IsValid() {
		a = netip.IPv4Unspecified()
	}
	if o.device != "" {
		var err error
		if a, err = peer.AddressOf(o.device, a); err != nil {
			return nil, err
		}
	}
	return cm.Listen(netip.AddrPortFrom(a, o.port), cm.ListenConfig{Timeouts: cm.Timeouts{Connect: o.timeout}, Backlog: maxQPs})
}

// server is one client's session.
type server struct {
	options
	out   *output
	l     *cm.Listener
	c     *cm.Conn // for control
	link  *link
	token uint64
	run   player // nil between runs
}

// player is the server's part of a run under way.
type player interface {
	end(count int) (answer, error)
}

func (s *server) session(ctx context.Context, req *cm.Request) (err error) {
	err = peer.WithLimit(ctx, s.timeout, func(ctx context.Context) error {
		s.c, err = req.Accept(ctx, cm.AcceptConfig{Queues: control})
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		// The client's end of the connection is the end of what it measured.
		cancel(cm.ErrDisconnected)
		if s.run != nil {
			_, _ = s.run.end(0)
		}
		if s.link != nil {
			err = errors.Join(err, s.link.close())
		}
		err = errors.Join(err, s.c.Close())
	}()
	s.out.established(s.c)
	for {
		var q question
		err := peer.WithLimit(ctx, s.timeout, func(ctx context.Context) error { return receive(ctx, s.c, &q) })
		if err != nil {
			if errors.Is(err, cm.ErrDisconnected) && s.run == nil {
				return nil
			}
			return err
		}
		a, bad := s.answer(ctx, q)
		if bad != nil {
			a.Error = bad.Error()
		}
		if err := errors.Join(bad, send(ctx, s.c, a)); err != nil {
			return err
		}
		if q.Verb == askPlan && s.link != nil {
			if err := s.connections(ctx); err != nil {
				return err
			}
		}
	}
}

// answer does what the client asks for.
func (s *server) answer(ctx context.Context, q question) (a answer, err error) {
	switch {
	case q.Verb == askPlan && q.Plan != nil && s.token == 0:
		return s.follow(*q.Plan)
	case q.Verb == askRegion && q.At != nil && s.link != nil:
		s.link.peer = *q.At
		return answer{At: s.link.region()}, nil
	case q.Verb == askStart && q.Run != nil && s.token != 0 && s.run == nil:
		return answer{}, s.start(ctx, *q.Run)
	case q.Verb == askWait && s.run != nil:
		return answer{}, nil
	case q.Verb == askEnd && s.run != nil:
		run := s.run
		s.run = nil
		return run.end(q.Count)
	}
	return a, fmt.Errorf("%w: %q at the wrong time", errProtocol, q.Verb)
}

// follow takes the client's plan.
func (s *server) follow(p plan) (answer, error) {
	if err := p.check(); err != nil {
		return answer{}, err
	}
	if s.Test != anyTest && s.Test != p.Test {
		return answer{}, fmt.Errorf("this server is for %s, not %s", s.Test, p.Test)
	}
	s.plan = p
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	s.token = binary.BigEndian.Uint64(b[:]) | 1
	if tests[p.Test].kind != connects {
		s.link = newLink(&s.plan)
	}
	return answer{Token: s.token}, nil
}

// connections takes those that are to be measured.
func (s *server) connections(ctx context.Context) error {
	for range s.QPs {
		err := peer.WithLimit(ctx, s.timeout, func(ctx context.Context) error {
			req, err := s.next(ctx)
			if err != nil {
				return err
			}
			c, err := req.Accept(ctx, cm.AcceptConfig{Resources: s.link.resources})
			if err != nil {
				return err
			}
			return s.link.add(c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// next gives this session's next connection; others are turned away, as there is
// one session at a time.
func (s *server) next(ctx context.Context) (*cm.Request, error) {
	for {
		req, err := s.l.Accept(ctx)
		if err != nil {
			return nil, err
		}
		if token, ours := tokenOf(req.PrivateData()); ours && token == s.token {
			return req, nil
		}
		s.out.say("turned away %v: another client is being served", req.RemoteAddr())
		if err := req.Reject(nil); err != nil { // it may have gone: not this session's concern
			s.out.say("reject %v: %v", req.RemoteAddr(), err)
		}
	}
}

// start is this end's part of a run.
func (s *server) start(ctx context.Context, j job) error {
	if s.link == nil {
		s.run = s.accept(ctx, j)
		return nil
	}
	if len(s.link.sends) < s.QPs || s.link.peer.Addr == 0 {
		return fmt.Errorf("%w: a run before the connections", errProtocol)
	}
	if j.Size < 1 || j.Size > s.stride() {
		return fmt.Errorf("%w: a run of %d bytes, the plan has up to %d", errProtocol, j.Size, s.stride())
	}
	if err := s.link.ready(j); err != nil {
		return err
	}
	now, stop := context.WithCancelCause(ctx)
	s.run = s.link.start(newWatch(now), newWatch(ctx), j, func() { stop(errStopped) })
	return nil
}
