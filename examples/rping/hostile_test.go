package main

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/ibv"
)

// peers gives the two ends of a connection over rxe0: one to play a hostile
// peer, one for our code.
func peers(t *testing.T) (client, server *cm.Conn) {
	t.Helper()
	t.Cleanup(func() { requireNothingLeft(t) })
	ctx := within(t, guest.Patience)
	l, err := cm.Listen(netip.MustParseAddrPort("10.1.0.1:0"), cm.ListenConfig{})
	require.NoError(t, err)
	defer l.Close()
	dialed := make(chan error, 1)
	go func() {
		d := cm.Dialer{LocalAddr: netip.MustParseAddrPort("10.1.0.1:0"), Queues: queues}
		c, err := d.DialAddr(ctx, l.Addr())
		client = c
		dialed <- err
	}()
	req, err := l.Accept(ctx)
	require.NoError(t, err)
	server, err = req.Accept(ctx, cm.AcceptConfig{Queues: queues})
	require.NoError(t, err)
	require.NoError(t, <-dialed)
	return client, server
}

// requireNothingLeft wants every queue and buffer closed. Devices are the
// library's to keep open.
func requireNothingLeft(t *testing.T) {
	t.Helper()
	for _, o := range ibv.Objects() {
		for _, kind := range []string{"QP ", "CQ ", "PD ", "MR "} {
			require.False(t, strings.HasPrefix(o.Name, kind), "left open: %s", o.Name)
		}
	}
}

func quiet(o options) *output { return &output{options: o, out: io.Discard, err: io.Discard} }

// buffer registers memory of the hostile peer.
func buffer(t *testing.T, c *cm.Conn, size int, data []byte) *ibv.MR {
	t.Helper()
	mr, err := c.PD().AllocMR(size, ibv.RemoteRead|ibv.RemoteWrite)
	require.NoError(t, err)
	copy(mr.Bytes(), data)
	return mr
}

func own(mr *ibv.MR) advert {
	return advert{addr: mr.Addr(), rkey: mr.RKey(), size: uint32(mr.Len())}
}

// Clients that break the protocol, against our server: each ends with a typed
// error, none hangs it.
func TestPairHostileClient(t *testing.T) {
	guest.NeedTopo(t, "pair")
	ping := make([]byte, 64)
	fill(ping, 0)
	send := func(t *testing.T, c *cm.Conn, b []byte) { require.NoError(t, c.Send(within(t, guest.Patience), b)) }
	goAhead := func(t *testing.T, c *cm.Conn) {
		_, err := receive(within(t, guest.Patience), c)
		require.NoError(t, err)
	}
	for _, c := range []struct {
		name    string
		attack  func(t *testing.T, c *cm.Conn, mr *ibv.MR)
		options func(o *options)
		want    error
		says    string
	}{
		{name: "empty message", want: errProtocol, says: "0 bytes",
			attack: func(t *testing.T, c *cm.Conn, _ *ibv.MR) { send(t, c, nil) }},
		{name: "short message", want: errProtocol, says: "5 bytes",
			attack: func(t *testing.T, c *cm.Conn, _ *ibv.MR) { send(t, c, []byte("hello")) }},
		{name: "long message", want: errProtocol, says: "64 bytes",
			attack: func(t *testing.T, c *cm.Conn, _ *ibv.MR) { send(t, c, make([]byte, 64)) }},
		{name: "key of nothing", want: ibv.WCRemAccessErr,
			attack: func(t *testing.T, c *cm.Conn, _ *ibv.MR) {
				send(t, c, advert{addr: 0xdeadbeef000, rkey: 0xdeadbeef, size: 64}.encode())
			}},
		{name: "beyond the buffer", want: ibv.WCRemAccessErr,
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				a := own(mr)
				a.size = 4096
				send(t, c, a.encode())
			}},
		{name: "empty ping", want: errProtocol, says: "a ping of 0 bytes",
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				send(t, c, advert{addr: mr.Addr(), rkey: mr.RKey()}.encode())
			}},
		{name: "ping over the limit", want: errProtocol, says: "65537 bytes",
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				send(t, c, advert{addr: mr.Addr(), rkey: mr.RKey(), size: maxSize + 1}.encode())
			}},
		{name: "ping of 4 GiB", want: errProtocol, says: "4294967295 bytes",
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				send(t, c, advert{addr: mr.Addr(), rkey: mr.RKey(), size: 1<<32 - 1}.encode())
			}},
		{name: "other data", want: errMismatch, says: "ping 0, byte 20",
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				mr.Bytes()[20] = '!'
				send(t, c, own(mr).encode())
			}},
		{name: "other data, not checked", want: nil,
			options: func(o *options) { o.verify = false },
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				mr.Bytes()[20] = '!'
				for range 2 {
					send(t, c, own(mr).encode())
					goAhead(t, c)
				}
				require.NoError(t, c.ID().Disconnect())
			}},
		{name: "sink too small", want: errProtocol, says: "the sink has 63 bytes",
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				a := own(mr)
				send(t, c, a.encode())
				goAhead(t, c)
				a.size--
				send(t, c, a.encode())
			}},
		{name: "sink of nothing", want: ibv.WCRemAccessErr,
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				send(t, c, own(mr).encode())
				goAhead(t, c)
				send(t, c, advert{addr: 1, rkey: 1, size: 64}.encode())
			}},
		{name: "leaves in the middle", want: cm.ErrDisconnected, says: "round 0",
			attack: func(t *testing.T, c *cm.Conn, mr *ibv.MR) {
				send(t, c, own(mr).encode())
				goAhead(t, c)
				require.NoError(t, c.ID().Disconnect())
			}},
		{name: "says nothing", want: context.DeadlineExceeded, says: "no answer within 200ms",
			options: func(o *options) { o.timeout = 200 * time.Millisecond },
			attack:  func(*testing.T, *cm.Conn, *ibv.MR) {}},
		{name: "falls silent in the middle", want: context.DeadlineExceeded, says: "no answer within 200ms",
			options: func(o *options) { o.timeout = 200 * time.Millisecond },
			attack:  func(t *testing.T, c *cm.Conn, mr *ibv.MR) { send(t, c, own(mr).encode()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := peers(t)
			mr := buffer(t, client, len(ping), ping)
			o := options{server: true, size: maxSize, verify: true, timeout: guest.Patience}
			if c.options != nil {
				c.options(&o)
			}
			done := make(chan error, 1)
			r := &result{}
			go func() { done <- echoes(context.Background(), server, o, r, quiet(o)) }()
			c.attack(t, client, mr)
			err := <-done
			if c.want == nil {
				require.NoError(t, err)
				require.Equal(t, 1, r.Rounds)
				require.Zero(t, r.Bytes, "nothing was verified")
			} else {
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, c.says)
			}
			require.NoError(t, hangUp(client, mr))
		})
	}
}

// Servers that break the protocol, against our client.
func TestPairHostileServer(t *testing.T) {
	guest.NeedTopo(t, "pair")
	ctx := within(t, guest.Patience)
	for _, c := range []struct {
		name   string
		attack func(t *testing.T, c *cm.Conn, source advert, sink func() advert)
		want   error
		says   string
	}{
		{name: "short go-ahead", want: errProtocol, says: "5 bytes",
			attack: func(t *testing.T, c *cm.Conn, _ advert, _ func() advert) {
				require.NoError(t, c.Send(ctx, []byte("hello")))
			}},
		{name: "long go-ahead", want: errProtocol, says: "17 bytes",
			attack: func(t *testing.T, c *cm.Conn, _ advert, _ func() advert) {
				require.NoError(t, c.Send(ctx, make([]byte, 17)))
			}},
		{name: "no echo", want: errMismatch, says: "ping 0, byte 0 of 100",
			attack: func(t *testing.T, c *cm.Conn, _ advert, sink func() advert) {
				require.NoError(t, c.Send(ctx, make([]byte, 16)))
				sink()
				require.NoError(t, c.Send(ctx, make([]byte, 16)))
			}},
		{name: "part of an echo", want: errMismatch, says: "ping 0, byte 90 of 100",
			attack: func(t *testing.T, c *cm.Conn, source advert, sink func() advert) {
				mr := buffer(t, c, 100, nil)
				require.NoError(t, c.Read(ctx, mr.SGE(0, 100), source.remote()))
				require.NoError(t, c.Send(ctx, make([]byte, 16)))
				require.NoError(t, c.Write(ctx, mr.SGE(0, 90), sink().remote()))
				require.NoError(t, c.Send(ctx, make([]byte, 16)))
				require.NoError(t, mr.Close())
			}},
		{name: "writes beyond the sink", want: cm.ErrDisconnected,
			attack: func(t *testing.T, c *cm.Conn, _ advert, sink func() advert) {
				mr := buffer(t, c, 200, nil)
				require.NoError(t, c.Send(ctx, make([]byte, 16)))
				require.ErrorIs(t, c.Write(ctx, mr.SGE(0, 101), sink().remote()), ibv.WCRemAccessErr)
				require.NoError(t, mr.Close())
			}},
		{name: "writes to the source", want: cm.ErrDisconnected,
			attack: func(t *testing.T, c *cm.Conn, source advert, _ func() advert) {
				mr := buffer(t, c, 100, nil)
				require.ErrorIs(t, c.Write(ctx, mr.SGE(0, 100), source.remote()), ibv.WCRemAccessErr)
				require.NoError(t, mr.Close())
			}},
		{name: "leaves", want: cm.ErrDisconnected, says: "round 0",
			attack: func(t *testing.T, c *cm.Conn, _ advert, _ func() advert) { require.NoError(t, c.ID().Disconnect()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := peers(t)
			o := options{size: 100, count: 3, timeout: guest.Patience}
			done := make(chan error, 1)
			r := &result{}
			go func() { done <- pings(context.Background(), client, o, r, quiet(o)) }()
			next := func() advert {
				a, err := receive(ctx, server)
				require.NoError(t, err)
				require.EqualValues(t, 100, a.size)
				return a
			}
			c.attack(t, server, next(), next)
			err := <-done
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
			require.Zero(t, r.Bytes)
			require.NoError(t, server.Close())
		})
	}
	t.Run("says nothing", func(t *testing.T) {
		client, server := peers(t)
		o := options{size: 100, timeout: 200 * time.Millisecond}
		err := pings(ctx, client, o, &result{}, quiet(o))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer within 200ms")
		require.NoError(t, server.Close())
	})
}
