package cm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// A message to a peer, from the device that has 10.1.0.1, wherever the routing
// table would send it.
func ExampleDialer() {
	hello := func(ctx context.Context) error {
		d := cm.Dialer{LocalAddr: netip.MustParseAddrPort("10.1.0.1:0")}
		c, err := d.Dial(ctx, "peer.example:7471")
		if errors.Is(err, cm.ErrRouteMismatch) {
			fmt.Println("that device cannot reach it:", err) // with the `ip` command that mends it
		}
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Send(ctx, []byte("hello"))
	}
	_ = hello
}

// A service of one rail: who comes by another one is not heard.
func ExampleListener() {
	serve := func(ctx context.Context, talk func(*cm.Conn)) error {
		l, err := cm.Listen(netip.MustParseAddrPort("10.1.0.1:7471"), cm.ListenConfig{})
		if err != nil {
			return err
		}
		defer l.Close()
		for {
			r, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			go func() {
				c, err := r.Accept(ctx, cm.AcceptConfig{})
				if err != nil {
					return // the peer gave up, or its device cannot reach this one
				}
				defer c.Close()
				talk(c)
			}()
		}
	}
	_ = serve
}

// A request tells who asks, and on which device, before it is accepted.
func ExampleRequest() {
	answer := func(ctx context.Context, r *cm.Request) (*cm.Conn, error) {
		version, err := cm.Unframe(r.PrivateData())
		if err != nil || string(version) != "v1" {
			return nil, errors.Join(err, r.Reject([]byte("v1 only")))
		}
		fmt.Println(r.RemoteAddr(), "asks on", r.Binding().Device)
		return r.Accept(ctx, cm.AcceptConfig{Queues: cm.QueueConfig{MaxMessage: 64 << 10}})
	}
	_ = answer
}

// One end lends its memory, the other reads it without the first one's help.
func ExampleConn() {
	lend := func(ctx context.Context, c *cm.Conn, data []byte) (*ibv.MR, error) {
		mr, err := c.PD().AllocMR(len(data), ibv.LocalWrite|ibv.RemoteRead)
		if err != nil {
			return nil, err
		}
		copy(mr.Bytes(), data)
		lent, err := mr.RemoteBuffer(0, len(data))
		if err != nil {
			return nil, err
		}
		where, err := lent.MarshalBinary()
		if err != nil {
			return nil, err
		}
		return mr, c.Send(ctx, where)
	}
	fetch := func(ctx context.Context, c *cm.Conn) ([]byte, error) {
		var message [64]byte
		n, err := c.Recv(ctx, message[:])
		if err != nil {
			return nil, err
		}
		var there ibv.RemoteBuffer
		if err := there.UnmarshalBinary(message[:n]); err != nil {
			return nil, err
		}
		mr, err := c.PD().AllocMR(int(there.Len), ibv.LocalWrite)
		if err != nil {
			return nil, err
		}
		defer mr.Close()
		from, err := there.At(0, there.Len)
		if err != nil {
			return nil, err
		}
		if err := c.Read(ctx, mr.SGE(0, mr.Len()), from); err != nil {
			return nil, err
		}
		return append([]byte(nil), mr.Bytes()...), nil
	}
	_, _ = lend, fetch
}

// The steps of a connection one by one, with queues of the caller's own.
func ExampleID() {
	connect := func(ctx context.Context, local, peer netip.AddrPort) (*cm.ID, error) {
		id, err := cm.NewID(cm.IDConfig{})
		if err != nil {
			return nil, err
		}
		steps := func() error {
			if err := id.Bind(local); err != nil {
				return err
			}
			fmt.Println("the memory has to be registered on", id.Binding().Device)
			if err := id.ResolveAddr(ctx, netip.AddrPort{}, peer); err != nil {
				return err
			}
			if err := id.ResolveRoute(ctx); err != nil {
				return err
			}
			pd, err := id.Context().AllocPD()
			if err != nil {
				return err
			}
			cq, err := id.Context().CreateCQ(ibv.CQConfig{Size: 64})
			if err != nil {
				return err
			}
			if _, err := id.CreateQP(pd, ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 16, MaxRecv: 16}); err != nil {
				return err
			}
			return id.Connect(ctx, cm.ConnParam{InitiatorDepth: 4, ResponderResources: 4})
		}
		if err := steps(); err != nil {
			return nil, errors.Join(err, id.Close())
		}
		return id, nil
	}
	_ = connect
}

// Datagrams to all who have joined a group.
func ExampleGroup() {
	announce := func(ctx context.Context, id *cm.ID, qp *ibv.QP) error { // of the port space UDP, bound
		g, err := id.JoinMulticast(ctx, netip.MustParseAddr("239.0.0.7"), cm.JoinConfig{SendOnly: true})
		if err != nil {
			return err
		}
		defer g.Leave()
		to, err := g.Peer().Dest(qp.PD())
		if err != nil {
			return err
		}
		defer to.AH.Close()
		return qp.PostSend(ibv.SendWR{Inline: []byte("here I am"), Dest: to})
	}
	_ = announce
}

// Ids whose events are heard by a goroutine each of its own channel: one that is
// flooded does not delay the others.
func ExampleEventChannel() {
	apart := func(id *cm.ID) error {
		ch, err := cm.NewEventChannel()
		if err != nil {
			return err
		}
		return id.Migrate(ch) // close ch after the id
	}
	_ = apart
}

// What would become of a connection, without one.
func ExampleHost() {
	explain := func(local, peer netip.AddrPort) error {
		h, err := cm.OpenHost()
		if err != nil {
			return err
		}
		defer h.Close()
		b, err := policy.ResolveBinding(h, local)
		if err != nil {
			return err
		}
		d := policy.Decide(h, policy.Request{Binding: b, Dst: peer})
		if d.Err != nil {
			return d.Err
		}
		for _, p := range d.Predicted {
			fmt.Println("it will use", p.Device)
		}
		return nil
	}
	_ = explain
}

// Errors say by their kind what a program can do about them.
func ExampleOpError() {
	retry := func(err error) bool {
		switch {
		case errors.Is(err, cm.ErrChanged), errors.Is(err, cm.ErrStale):
			return true // another try will do
		case errors.Is(err, cm.ErrRouteMismatch), errors.Is(err, cm.ErrNotRDMA):
			return false // somebody has to mend the host; the error says how
		case errors.Is(err, cm.ErrConnRefused):
			time.Sleep(time.Second) // nobody listens yet
			return true
		}
		return false
	}
	_ = retry
}

// Private data arrives padded with zeros, unless both ends frame it.
func ExampleFrame() {
	framed, _ := cm.Frame([]byte("v1\x00"), cm.MaxConnectData)
	field := make([]byte, cm.MaxConnectData) // as the peer gets it
	copy(field, framed)
	data, err := cm.Unframe(field)
	fmt.Printf("%q %v\n", data, err)
	_, err = cm.Unframe([]byte("something else"))
	fmt.Println(errors.Is(err, cm.ErrNotFramed))
	// Output:
	// "v1\x00" <nil>
	// true
}
