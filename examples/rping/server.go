package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// serve listens and plays the server's part, for one client or for all.
func serve(ctx context.Context, o options, out *output) int {
	l, err := listen(o)
	if err != nil {
		r := newResult("server")
		r.Fail(err)
		out.result(r)
		return r.status(ctx, o)
	}
	defer l.Close()
	out.listening(l)
	if o.persistent {
		return serveAll(ctx, l, o, out)
	}
	req, err := l.Accept(ctx)
	l.Close() // who comes now is refused at once, instead of waiting for a turn
	r := newResult("server")
	if err != nil {
		r.Fail(err)
	} else {
		r = answer(ctx, req, o, out)
	}
	out.result(r)
	return r.status(ctx, o)
}

func listen(o options) (*cm.Listener, error) {
	a, err := netip.ParseAddr(o.addr)
	if err == nil && o.device != "" {
		a, err = peer.AddressOf(o.device, a)
	}
	if err != nil {
		return nil, err
	}
	return cm.Listen(netip.AddrPortFrom(a, o.port), cm.ListenConfig{Timeouts: cm.Timeouts{Connect: o.timeout}})
}

// serveAll serves every client on a goroutine of its own until ctx ends.
func serveAll(ctx context.Context, l *cm.Listener, o options, out *output) int {
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		req, err := l.Accept(ctx)
		if err != nil {
			r := newResult("server")
			r.Fail(err)
			if ctx.Err() == nil {
				out.result(r)
			}
			return r.status(ctx, o)
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			out.result(answer(ctx, req, o, out))
		}()
	}
}

// answer accepts a connection and echoes its pings until the client leaves.
func answer(ctx context.Context, req *cm.Request, o options, out *output) *result {
	r := newResult("server")
	r.Remote = req.RemoteAddr().String()
	limit, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	c, err := req.Accept(limit, cm.AcceptConfig{Queues: queues})
	if err != nil {
		r.Fail(err)
		return r
	}
	r.Place(c)
	out.established(r)
	began := time.Now()
	r.Fail(echoes(ctx, c, o, r, out))
	r.Seconds = time.Since(began).Seconds()
	return r
}

// echoes runs the rounds and closes the connection. A client that leaves between
// two rounds has ended the connection in order.
func echoes(ctx context.Context, c *cm.Conn, o options, r *result, out *output) (err error) {
	e := echoer{c: c, o: o, out: out}
	defer func() { err = errors.Join(err, hangUp(c, e.mr)) }()
	access := ibv.LocalWrite
	if c.Binding().Transport == policy.IWARP {
		access |= ibv.RemoteWrite // iWARP's READ response is a write by the peer
	}
	if e.mr, err = c.PD().AllocMR(o.size, access); err != nil {
		return err
	}
	want := make([]byte, o.size)
	for n := 0; ; n++ {
		var a advert
		err := peer.WithLimit(ctx, o.timeout, func(ctx context.Context) (err error) {
			a, err = receive(ctx, c)
			return err
		})
		if errors.Is(err, cm.ErrDisconnected) {
			return nil
		}
		if err == nil {
			err = peer.WithLimit(ctx, o.timeout, func(ctx context.Context) error { return e.round(ctx, a, want, n) })
		}
		if err != nil {
			return round(n, err)
		}
		r.round(int(a.size))
		if !o.verify {
			r.Bytes = 0
		}
		r.Size = int(a.size)
		out.progress(r)
		out.data("server ping data: %s\n", e.mr.Bytes()[:a.size])
	}
}

// echoer is the server's end.
type echoer struct {
	c   *cm.Conn
	o   options
	mr  *ibv.MR
	out *output
}

// round fetches the ping at source and writes it back.
func (e *echoer) round(ctx context.Context, source advert, want []byte, n int) error {
	e.out.debug("source: %v", source)
	if source.size == 0 || int64(source.size) > int64(e.o.size) {
		return fmt.Errorf("%w: a ping of %d bytes; this server takes 1 to %d (-S)", errProtocol, source.size, e.o.size)
	}
	data := e.mr.SGE(0, int(source.size))
	if err := e.c.Read(ctx, data, source.remote()); err != nil {
		return err
	}
	if e.o.verify {
		want = want[:source.size]
		fill(want, n)
		if err := verify(e.mr.Bytes()[:source.size], want, n); err != nil {
			return err
		}
	}
	if err := e.goAhead(ctx); err != nil {
		return err
	}
	sink, err := receive(ctx, e.c)
	if err != nil {
		return err
	}
	e.out.debug("sink: %v", sink)
	if sink.size < source.size {
		return fmt.Errorf("%w: the sink has %d bytes, the ping %d", errProtocol, sink.size, source.size)
	}
	if err := e.c.Write(ctx, data, sink.remote()); err != nil {
		return err
	}
	return e.goAhead(ctx)
}

func (e *echoer) goAhead(ctx context.Context) error { return e.c.Send(ctx, advert{}.encode()) }
