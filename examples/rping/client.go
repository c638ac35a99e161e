package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// runClient connects and plays the client's part.
func runClient(ctx context.Context, o options, out *output) *result {
	r := newResult("client")
	r.Policy, r.Size, r.Asked = o.policy, o.size, o.count
	d := cm.Dialer{
		LocalDevice: o.device,
		Policy:      o.policy,
		Queues:      queues,
		Timeouts:    cm.Timeouts{ResolveAddr: o.timeout, ResolveRoute: o.timeout, Connect: o.timeout},
	}
	if o.source.IsValid() {
		d.LocalAddr = netip.AddrPortFrom(o.source, 0)
	}
	to := net.JoinHostPort(o.addr, strconv.Itoa(int(o.port)))
	out.debug("connecting to %s", to)
	limit, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	c, err := d.Dial(limit, to)
	if err != nil {
		r.Fail(err)
		return r
	}
	r.Place(c)
	out.established(r)
	began := time.Now()
	r.Fail(pings(ctx, c, o, r, out))
	r.Seconds = time.Since(began).Seconds()
	return r
}

// pings runs the rounds and closes the connection.
func pings(ctx context.Context, c *cm.Conn, o options, r *result, out *output) (err error) {
	p := pinger{c: c, out: out}
	defer func() { err = errors.Join(err, hangUp(c, p.source, p.sink)) }()
	if p.source, err = c.PD().AllocMR(o.size, ibv.RemoteRead); err != nil {
		return err
	}
	if p.sink, err = c.PD().AllocMR(o.size, ibv.RemoteWrite); err != nil {
		return err
	}
	for n := 0; o.count == 0 || n < o.count; n++ {
		if err := peer.WithLimit(ctx, o.timeout, func(ctx context.Context) error { return p.round(ctx, n) }); err != nil {
			return round(n, err)
		}
		r.round(o.size)
		out.progress(r)
		out.data("ping data: %s\n", p.sink.Bytes())
	}
	return nil
}

// pinger is the client's end.
type pinger struct {
	c            *cm.Conn
	source, sink *ibv.MR
	out          *output
}

// round sends ping n and checks its echo.
func (p *pinger) round(ctx context.Context, n int) error {
	fill(p.source.Bytes(), n)
	clear(p.sink.Bytes()) // an echo that never comes is no echo of before
	if err := p.offer(ctx, "source", p.source); err != nil {
		return err
	}
	if err := p.offer(ctx, "sink", p.sink); err != nil {
		return err
	}
	return verify(p.sink.Bytes(), p.source.Bytes(), n)
}

// offer advertises a buffer and waits until the server is done with it.
func (p *pinger) offer(ctx context.Context, what string, mr *ibv.MR) error {
	a := advert{addr: mr.Addr(), rkey: mr.RKey(), size: uint32(mr.Len())}
	p.out.debug("advertise the %s, %v", what, a)
	if err := p.c.Send(ctx, a.encode()); err != nil {
		return err
	}
	_, err := receive(ctx, p.c)
	p.out.debug("go-ahead for the %s", what)
	return err
}

// receive takes the next message, which must have an advert's form.
func receive(ctx context.Context, c *cm.Conn) (advert, error) {
	var b [64]byte
	n, err := c.Recv(ctx, b[:])
	if err != nil {
		return advert{}, err
	}
	return decode(b[:n])
}
