package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// end is the service, or its client.
type end struct {
	*peer.Options
	r      *peer.Traffic
	stderr io.Writer
	nodes  []*node
}

// node is one queue pair, and the id that it was made for.
type node struct {
	id *cm.ID
	*peer.Datagrams
	to   ibv.Dest // the peer
	last []byte   // what it has sent
}

func (e *end) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, e.close()) }()
	connect, move := e.accept, e.serve
	if e.Server != "" {
		connect, move = e.connect, e.ask
	}
	if err := connect(ctx); err != nil {
		return err
	}
	e.r.Place(e.nodes[0].id)
	e.r.Connections = len(e.nodes)
	began := time.Now()
	err = peer.Each(len(e.nodes), func(i int) error {
		return peer.WithLimit(ctx, e.Timeout, func(ctx context.Context) error { return move(ctx, e.nodes[i]) })
	})
	for _, n := range e.nodes {
		e.r.Add(&n.Messages)
	}
	e.r.Seconds = time.Since(began).Seconds()
	return err
}

// add takes an id, and makes its queue pair.
func (e *end) add(id *cm.ID) (*node, error) {
	n := &node{id: id}
	e.nodes = append(e.nodes, n)
	var err error
	n.Datagrams, err = peer.NewDatagrams(id, e.Size, e.Count, e.Count)
	return n, err
}

// accept answers who asks for the service.
func (e *end) accept(ctx context.Context) error {
	at, err := e.Local()
	if err != nil {
		return err
	}
	l, err := cm.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP, Timeouts: e.Steps()})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Bind(at); err != nil {
		return err
	}
	if err := l.Listen(0); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "%s: listening on %v\n", e.Name, l.LocalAddr())
	return e.AcceptAll(ctx, func(ctx context.Context) error {
		id, err := l.GetRequest(ctx)
		if err != nil {
			return err
		}
		n, err := e.add(id)
		if err != nil {
			return err
		}
		n.Arrived = func(wc *ibv.WC, slot []byte) (err error) {
			if n.to.AH == nil {
				n.to, err = n.Dest(wc, slot, id.Binding().Port)
			}
			n.last = append(n.last[:0], slot[ibv.GRHSize:]...)
			return errors.Join(err, n.Take(n.last))
		}
		return id.Accept(ctx, cm.ConnParam{})
	})
}

// connect asks for the service, from as many ids as are wanted.
func (e *end) connect(ctx context.Context) error {
	to, err := e.Lookup(ctx, e.Server)
	if err != nil {
		return err
	}
	for range e.Connections {
		err := peer.WithLimit(ctx, e.Timeout, func(ctx context.Context) error {
			id, err := e.Resolve(ctx, cm.PortSpaceUDP, netip.AddrPortFrom(to, e.Port))
			if err != nil {
				return err
			}
			n, err := e.add(id)
			if err != nil {
				return err
			}
			n.Arrived = func(_ *ibv.WC, slot []byte) error { return n.reply(slot[ibv.GRHSize:]) }
			if err := id.ResolveRoute(ctx); err != nil {
				return err
			}
			if err := id.Connect(ctx, cm.ConnParam{}); err != nil {
				return err
			}
			service, _ := id.UDPeer()
			n.to, err = service.Dest(n.PD())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *end) serve(ctx context.Context, n *node) error {
	if err := n.Receive(ctx, e.Count); err != nil {
		return err
	}
	return n.Send(ctx, n.to, n.last, e.Count)
}

func (e *end) ask(ctx context.Context, n *node) error {
	n.Strict = true
	if err := n.Send(ctx, n.to, peer.Pattern(e.Size), e.Count); err != nil {
		return err
	}
	return n.Receive(ctx, e.Count)
}

// reply checks what the server sent back. C's udaddy sends from the start of the
// memory that it had received to: what tells where the message came from, and of
// the message what fits behind it.
func (n *node) reply(b []byte) error {
	if len(b) == n.Size && n.Size > ibv.GRHSize {
		if head := peer.Pattern(n.Size - ibv.GRHSize); bytes.Equal(b[ibv.GRHSize:], head) {
			n.Count++
			n.Verified += int64(len(head))
			return nil
		}
	}
	return n.Take(b)
}

func (e *end) close() error {
	var errs []error
	for _, n := range e.nodes {
		errs = append(errs, n.to.AH.Close())
		if n.Datagrams != nil {
			errs = append(errs, n.Close())
		}
		errs = append(errs, n.id.Close())
	}
	return errors.Join(errs...)
}
