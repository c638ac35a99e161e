package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"
	"sync"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// The pool: 256 KiB of memory, for all clients together. Where all is in use, RDMA
// lets the next senders wait.
const (
	receives = 256
	size     = 1024 // bytes of the longest message
	answers  = 4    // under way to one client, at most
	drained  = receives

	// patience is how long an answer may wait for its client to take it: how often
	// it is sent again is what the client asks for, and that may be without end.
	patience = 5 * time.Second
)

// server is what its clients share. A piece of the memory is either posted as a
// receive, or an answer is being sent from it; its number is the request's id.
type server struct {
	pd  *ibv.PD
	ch  *ibv.CompChannel
	cq  *ibv.CQ
	srq *ibv.SRQ
	mr  *ibv.MR

	mu      sync.Mutex
	clients map[uint32]*client // by the number of the queue pair
}

type client struct {
	id      *cm.ID
	qp      *ibv.QP
	sending int
	moved   time.Time     // when an answer was last taken, or began to wait
	gone    chan struct{} // closed when nothing of its is in the queues any more
}

// serve answers clients until ctx ends.
func serve(ctx context.Context, local netip.AddrPort, stdout io.Writer) (err error) {
	l, err := cm.Listen(local, cm.ListenConfig{})
	if err != nil {
		return err
	}
	defer l.Close()
	if l.ID().Context() == nil {
		return errors.New("want the address of one device: its clients share a queue there")
	}
	s, err := newServer(l.ID().Context())
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "listening on", l.Addr())
	ctx, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop(nil)
	all.Go(func() { stop(s.answer(ctx)) })
	for {
		r, err := l.Accept(ctx)
		if err != nil {
			return context.Cause(ctx)
		}
		all.Go(func() {
			if err := s.host(ctx, r); err != nil {
				log.Print(err)
			}
		})
	}
}

func newServer(ctx *ibv.Context) (*server, error) {
	s := &server{clients: map[uint32]*client{}}
	var err error
	if s.pd, err = ctx.AllocPD(); err != nil {
		return s, err
	}
	if s.ch, err = ctx.NewCompChannel(); err != nil {
		return s, err
	}
	if s.cq, err = ctx.CreateCQ(ibv.CQConfig{Size: 4 * receives, Channel: s.ch}); err != nil {
		return s, err
	}
	if s.mr, err = s.pd.AllocMR(receives*size, ibv.LocalWrite); err != nil {
		return s, err
	}
	if s.srq, err = s.pd.CreateSRQ(ibv.SRQConfig{MaxRecv: receives}); err != nil {
		return s, err
	}
	for i := range receives {
		if err := s.post(i); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *server) close() error {
	return errors.Join(s.srq.Close(), s.mr.Close(), s.cq.Close(), s.ch.Close(), s.pd.Close())
}

func (s *server) post(i int) error {
	return s.srq.PostRecv(ibv.RecvWR{ID: uint64(i), SGEs: []ibv.SGE{s.mr.SGE(i*size, size)}})
}

// host has a client until it goes, or ctx ends.
func (s *server) host(ctx context.Context, r *cm.Request) error {
	c := &client{id: r.ID(), gone: make(chan struct{})}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.clients, c.qp.Num())
	}()
	conn, err := r.Accept(ctx, cm.AcceptConfig{Resources: func(*ibv.Context) (cm.Resources, error) {
		return cm.Resources{
			PD: s.pd,
			QP: ibv.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq, MaxSend: answers + 1},
			Prepare: func(qp *ibv.QP) error { // before its first message can come
				s.mu.Lock()
				defer s.mu.Unlock()
				c.qp = qp
				s.clients[qp.Num()] = c
				return nil
			},
		}, nil
	}})
	if err != nil {
		return err
	}
	defer conn.Close()
	if !s.busy(ctx, conn, c) {
		return nil
	}
	// What is in flight ends before the queue pair does, or its piece would be lost.
	if err := c.qp.Drain(drained); err != nil {
		return err
	}
	select {
	case <-c.gone:
	case <-ctx.Done():
	}
	return nil
}

// busy returns at the end of a connection, which comes too where the client takes no
// answers; false where ctx has ended before.
func (s *server) busy(ctx context.Context, conn *cm.Conn, c *client) bool {
	look := time.NewTicker(patience / 2)
	defer look.Stop()
	for {
		select {
		case <-conn.Done():
			return true
		case <-ctx.Done():
			return false
		case <-look.C:
		}
		s.mu.Lock()
		stuck := c.sending > 0 && time.Since(c.moved) > patience
		s.mu.Unlock()
		if stuck {
			_ = c.id.Disconnect()
		}
	}
}

// answer sends each message back to where it came from, until ctx ends.
func (s *server) answer(ctx context.Context) error {
	wcs := make([]ibv.WC, 64)
	for {
		n, err := s.cq.Wait(ctx, wcs)
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := s.completed(&wcs[i]); err != nil {
				return err
			}
		}
	}
}

// completed either sends from the piece that a request has let go, or posts it again.
func (s *server) completed(wc *ibv.WC) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[wc.QPNum()]
	i := int(wc.ID())
	switch {
	case i == drained:
		close(c.gone)
		return nil
	case c == nil: // one that was never accepted
	case wc.Err() == nil && wc.Queue() == ibv.RecvQueue:
		if c.sending < answers && c.qp.PostSend(ibv.SendWR{ID: wc.ID(), SGEs: []ibv.SGE{s.mr.SGE(i*size, wc.Len())}}) == nil {
			if c.sending == 0 {
				c.moved = time.Now()
			}
			c.sending++
			return nil
		}
		_ = c.id.Disconnect() // it sends, and takes no answers
	case wc.Queue() == ibv.SendQueue:
		c.sending--
		c.moved = time.Now()
	}
	return s.post(i)
}
