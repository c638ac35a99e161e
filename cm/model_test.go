//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ci/model"
	"github.com/railbind/railbind/ibv"
)

// TestPairModel: random calls on random objects of both packages, against what
// the objects' lives allow; see package model. `make model SEED=1 N=2000` draws
// more of them.
func TestPairModel(t *testing.T) {
	needTopo(t, "pair")
	keepsPDs(t)
	var before map[string]int
	model.Run(t, model.Config{
		Seed: fromEnv("RAILBIND_MODEL_SEED", 1), Calls: int(fromEnv("RAILBIND_MODEL_N", 150)),
		Kinds: map[string]model.Kind{
			"context": {Most: 2},
			"id":      {Most: 12},
			"conn":    {Most: 8, Ends: true},
			// Requests that nobody took leave theirs a moment after their listener's Close.
			"event channel": {Lingers: true},
		},
		Ops: slices.Concat(verbsOps(), idOps(), connOps()),
		Settled: func() {
			if before == nil { // with what a process makes once
				before = holdings(t)
			}
			awaitHoldings(t, before)
		},
	})
}

// keepsPDs has librdmacm make what it keeps for good, of each device the first
// time that an id is on it: a protection domain.
func keepsPDs(t *testing.T) {
	t.Helper()
	for _, addr := range []string{home, "10.2.0.1:0"} {
		id, err := NewID(IDConfig{})
		require.NoError(t, err)
		require.NoError(t, id.Bind(ap(addr)))
		require.NoError(t, id.Close())
	}
}

// fromEnv reads a number from the environment.
func fromEnv(name string, def uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return def
}

// stepErrors are what a step may end in, on an id in any state.
var stepErrors = []error{
	ErrState, ErrConcurrent, ErrPoisoned, ErrDisconnected, ErrConnRefused, ErrRejected, ErrStale, ErrUnreachable,
	ErrNotLocal, ErrAlreadyBound, ErrSourceConflict, ErrRouteMismatch, ErrLoopbackDst, errors.ErrUnsupported,
}

// station is what an id's queue pair stands on, and the queue pair.
type station struct {
	pd *ibv.PD
	cq *ibv.CQ
	qp *ibv.QP
}

func (s *station) Close() error { return errors.Join(s.qp.Close(), s.cq.Close(), s.pd.Close()) }

// newStation makes a queue pair of id.
func newStation(id *ID) (*station, error) {
	ctx := id.Context()
	if ctx == nil {
		return nil, ErrState
	}
	s := &station{}
	var err error
	if s.pd, err = ctx.AllocPD(); err == nil {
		s.cq, err = ctx.CreateCQ(ibv.CQConfig{Size: 16})
	}
	if err == nil {
		s.qp, err = id.CreateQP(s.pd, ibv.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 4, MaxRecv: 4})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// member is a Group whose end is called Close.
type member struct{ *Group }

func (m member) Close() error { return m.Leave() }

var group = netip.MustParseAddr("239.1.2.3")

// idOps are the steps of ids, and what hangs on them.
func idOps() []model.Op {
	const whole = 2 * time.Second // a step's, which is several look-ups and an answer
	step := func(name string, do func(c *model.Call, id *ID) error) model.Op {
		return model.Op{Name: name, On: []string{"id"}, Lasts: whole, May: stepErrors, Do: func(c *model.Call) error {
			return do(c, model.Of[*ID](c, 0))
		}}
	}
	newIDOf := func(c *model.Call, ch *EventChannel) (*ID, error) {
		return NewID(IDConfig{Channel: ch, PortSpace: []PortSpace{PortSpaceTCP, PortSpaceTCP, PortSpaceUDP}[c.IntN(3)]})
	}
	return []model.Op{
		{Name: "NewEventChannel", Makes: "event channel", Do: func(c *model.Call) error {
			ch, err := NewEventChannel()
			return made(c, ch, err)
		}},
		{Name: "NewID", Makes: "id", Do: func(c *model.Call) error {
			id, err := newIDOf(c, nil)
			return made(c, id, err)
		}},
		{Name: "NewID on channel", On: []string{"event channel"}, Makes: "id", Apart: true, Do: func(c *model.Call) error {
			id, err := newIDOf(c, model.Of[*EventChannel](c, 0))
			return made(c, id, err)
		}},
		{Name: "NewID resolved", Makes: "id", Lasts: whole, May: stepErrors, Do: func(c *model.Call) error {
			id, err := newIDOf(c, nil)
			if err == nil {
				err = id.ResolveAddr(c.Ctx, ap(home), ap("10.1.0.1:7471"))
			}
			if err == nil {
				err = id.ResolveRoute(c.Ctx)
			}
			if err == nil {
				c.Made(id)
				return nil
			}
			return errors.Join(err, id.Close())
		}},
		{Name: "OpenHost", Makes: "host", Do: func(c *model.Call) error {
			h, err := OpenHost()
			return made(c, h, err)
		}},
		{Name: "Host.RDMAPorts", On: []string{"host"}, Do: func(c *model.Call) error { return no(model.Of[*Host](c, 0).RDMAPorts()) }},
		{Name: "Host.Watch", On: []string{"host"}, Do: func(c *model.Call) error { return no(model.Of[*Host](c, 0).Watch(c.Ctx)) }},
		step("Bind", func(c *model.Call, id *ID) error {
			return id.Bind(ap([]string{home, "10.2.0.1:0", "0.0.0.0:0", "10.99.0.1:0"}[c.IntN(4)]))
		}),
		step("Listen", func(_ *model.Call, id *ID) error { return id.Listen(2) }),
		step("ResolveAddr", func(c *model.Call, id *ID) error {
			return id.ResolveAddr(c.Ctx, netip.AddrPort{}, ap([]string{"10.1.0.1:7471", "10.1.0.2:7471", "10.2.0.1:7471"}[c.IntN(3)]))
		}),
		step("ResolveRoute", func(c *model.Call, id *ID) error { return id.ResolveRoute(c.Ctx) }),
		{Name: "CreateQP of id", On: []string{"id"}, Makes: "station", Apart: true, May: stepErrors, Do: func(c *model.Call) error {
			s, err := newStation(model.Of[*ID](c, 0))
			return made(c, s, err)
		}},
		step("Connect", func(c *model.Call, id *ID) error { return id.Connect(c.Ctx, ConnParam{}) }),
		{Name: "GetRequest", On: []string{"id"}, Makes: "id", Apart: true, May: stepErrors, Do: func(c *model.Call) error {
			id, err := model.Of[*ID](c, 0).GetRequest(c.Ctx)
			return made(c, id, err)
		}},
		step("Accept", func(c *model.Call, id *ID) error { return id.Accept(c.Ctx, ConnParam{}) }),
		step("StartAccept", func(_ *model.Call, id *ID) error { return id.StartAccept(ConnParam{}) }),
		step("FinishAccept", func(c *model.Call, id *ID) error { return id.FinishAccept(c.Ctx) }),
		step("Reject", func(_ *model.Call, id *ID) error { return id.Reject(nil) }),
		step("Establish", func(_ *model.Call, id *ID) error { return id.Establish() }),
		step("Disconnect", func(_ *model.Call, id *ID) error { return id.Disconnect() }),
		{Name: "JoinMulticast", On: []string{"id"}, Makes: "group", Apart: true, Lasts: whole, May: stepErrors, Do: func(c *model.Call) error {
			g, err := model.Of[*ID](c, 0).JoinMulticast(c.Ctx, group, JoinConfig{SendOnly: c.IntN(2) == 0})
			return made(c, member{g}, err)
		}},
		{Name: "Migrate", On: []string{"id", "event channel"}, May: stepErrors, Do: func(c *model.Call) error {
			return model.Of[*ID](c, 0).Migrate(model.Of[*EventChannel](c, 1))
		}},
		step("QPAttr", func(_ *model.Call, id *ID) error { _, _, err := id.QPAttr(ibv.QPInit); return err }),
	}
}

// connOps are listeners, connections, and the messages on them.
func connOps() []model.Op {
	const whole = 3 * time.Second
	over := []error{ErrDisconnected}
	answer := []error{ErrDisconnected, ErrRejected, ErrConnRefused, ErrStale, ErrUnreachable}
	return []model.Op{
		{Name: "Listen at once", Makes: "listener", Do: func(c *model.Call) error {
			l, err := Listen(ap(home), ListenConfig{Backlog: 2})
			return made(c, l, err)
		}},
		{Name: "Dial", On: []string{"listener"}, Makes: "conn", Apart: true, Lasts: whole, May: answer, Do: func(c *model.Call) error {
			l := model.Of[*Listener](c, 0)
			if l.ID().State() == StateDestroyed { // another may have its port
				return ErrClosed
			}
			conn, err := dialHome(c.Ctx, l)
			return made(c, conn, err)
		}},
		{Name: "Accept one", On: []string{"listener"}, Makes: "conn", Apart: true, Lasts: whole / 3, May: answer, Do: func(c *model.Call) error {
			r, err := model.Of[*Listener](c, 0).Accept(c.Ctx)
			if err != nil {
				return err
			}
			conn, err := r.Accept(c.Ctx, AcceptConfig{})
			return made(c, conn, err)
		}},
		{Name: "Meet", On: []string{"listener"}, Makes: "conn", Apart: true, Lasts: whole, May: answer, Do: func(c *model.Call) error {
			l := model.Of[*Listener](c, 0)
			dialed := make(chan error, 1)
			var client *Conn
			go func() {
				var err error
				client, err = dialHome(c.Ctx, l)
				dialed <- err
			}()
			r, err := l.Accept(c.Ctx)
			var server *Conn
			if err == nil {
				server, err = r.Accept(c.Ctx, AcceptConfig{})
			}
			if first := <-dialed; first == nil {
				c.Made(client)
			} else if err != nil {
				return errors.Join(first, err)
			}
			if err == nil {
				c.Made(server)
			}
			return nil
		}},
		{Name: "Conn.Send", On: []string{"conn"}, May: over, Do: func(c *model.Call) error {
			return model.Of[*Conn](c, 0).Send(c.Ctx, message(c))
		}},
		{Name: "Conn.Recv", On: []string{"conn"}, May: over, Do: func(c *model.Call) error {
			buf := make([]byte, 4096)
			n, err := model.Of[*Conn](c, 0).Recv(c.Ctx, buf)
			if err == nil {
				err = intact(buf[:n])
			}
			return err
		}},
		{Name: "AllocMR of Conn", On: []string{"conn"}, Makes: "MR of conn", Do: func(c *model.Call) error {
			m, err := model.Of[*Conn](c, 0).PD().AllocMR(4096, ibv.LocalWrite)
			return made(c, m, err)
		}},
		{Name: "Conn.Read", On: []string{"conn", "MR of conn"}, Pins: true, May: []error{ErrDisconnected, ibv.ErrForeignPD}, Do: func(c *model.Call) error {
			m := model.Of[*ibv.MR](c, 1)
			if err := model.Of[*Conn](c, 0).Read(c.Ctx, m.SGE(0, 64), m.Remote(0)); err != nil { // of a key that the peer has not given
				return err
			}
			return errors.New("the peer's memory was read without its leave")
		}},
	}
}

// message is a message that tells of itself whether it arrived whole.
func message(c *model.Call) []byte {
	m := make([]byte, 1+c.IntN(4096))
	for i := range m {
		m[i] = byte(len(m) + i)
	}
	return m
}

func intact(m []byte) error {
	for i := range m {
		if m[i] != byte(len(m)+i) {
			return fmt.Errorf("a wrong byte at %d of %d", i, len(m))
		}
	}
	return nil
}
