//go:build linux

package cm

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// states is every state of an id, with a way to get one there. A refused step
// leaves the id where it is.
var states = []struct {
	state State
	make  func(t *testing.T) *ID
	why   error // of a step that the state does not allow
}{
	{StateIdle, idle1, ErrState},
	{StateBoundWildcard, func(t *testing.T) *ID { return boundTo(t, "0.0.0.0:0") }, ErrState},
	{StateBoundDevice, func(t *testing.T) *ID { return boundTo(t, home) }, ErrState},
	{StateListening, func(t *testing.T) *ID {
		id := boundTo(t, home)
		require.NoError(t, id.Listen(0))
		return id
	}, ErrState},
	{StateRequested, func(t *testing.T) *ID { return requestedID(t, nil) }, ErrState},
	{StateResolving, func(t *testing.T) *ID {
		id := boundTo(t, home)
		done := make(chan error, 1)
		go func() { done <- id.ResolveAddr(context.Background(), netip.AddrPort{}, ap("10.1.0.77:1")) }()
		require.Eventually(t, func() bool { return id.State() == StateResolving }, time.Minute, time.Millisecond)
		t.Cleanup(func() { _ = id.Close(); <-done })
		return id
	}, ErrConcurrent},
	{StateAddrResolved, func(t *testing.T) *ID { return resolvedID(t, false) }, ErrState},
	{StateRouteResolved, func(t *testing.T) *ID { return resolvedID(t, true) }, ErrState},
	{StateConnecting, func(t *testing.T) *ID {
		id := requestedID(t, nil)
		withQP(t, id)
		require.NoError(t, id.StartAccept(ConnParam{}))
		return id
	}, ErrState},
	{StateResponded, func(t *testing.T) *ID {
		client := make(chan *ID, 1)
		request := requestedID(t, func(id *ID) ConnParam {
			q := newQueues(t, id.Context())
			qp, err := q.pd.CreateQP(q.config(0))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, qp.Close()) })
			require.NoError(t, id.Move(qp, ibv.QPInit))
			client <- id
			return ConnParam{QP: qp}
		})
		withQP(t, request)
		require.NoError(t, request.StartAccept(ConnParam{}))
		id := <-client
		require.Eventually(t, func() bool { return id.State() == StateResponded }, time.Minute, time.Millisecond)
		return id
	}, ErrState},
	{StateConnected, connectedID, ErrState},
	{StateDisconnected, func(t *testing.T) *ID {
		id := connectedID(t)
		require.NoError(t, id.Disconnect())
		return id
	}, ErrDisconnected},
	{StateRemoved, func(t *testing.T) *ID {
		id := boundTo(t, home)
		id.mu.Lock()
		id.lost(StateRemoved, ibv.ErrDeviceRemoved)
		id.mu.Unlock()
		return id
	}, ibv.ErrDeviceRemoved},
	{StatePoisoned, func(t *testing.T) *ID {
		id := newTestID(t, IDConfig{})
		require.Error(t, id.Bind(ap("10.99.0.1:0")))
		return id
	}, ErrPoisoned},
	{StateDestroyed, func(t *testing.T) *ID {
		id := connectedID(t)
		require.NoError(t, id.Close())
		return id
	}, ErrClosed},
}

func idle1(t *testing.T) *ID { return newTestID(t, IDConfig{}) }

func boundTo(t *testing.T, addr string) *ID {
	id := newTestID(t, IDConfig{})
	require.NoError(t, id.Bind(ap(addr)))
	return id
}

func resolvedID(t *testing.T, route bool) *ID {
	id := boundTo(t, home)
	require.NoError(t, id.ResolveAddr(within(t, time.Minute), netip.AddrPort{}, ap("10.1.0.1:1")))
	if route {
		require.NoError(t, id.ResolveRoute(within(t, time.Minute)))
	}
	return id
}

// withQP gives the id a queue pair that ends with it.
func withQP(t *testing.T, id *ID) {
	q := newQueues(t, id.Context())
	_, err := id.CreateQP(q.pd, q.config(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, id.Close()) })
}

// requestedID is the request of a client that waits, with a queue pair of
// CreateQP's or what lend says.
func requestedID(t *testing.T, lend func(id *ID) ConnParam) *ID {
	_, request, asked := asking(t, home, func(id *ID) error {
		var p ConnParam
		if lend != nil {
			p = lend(id)
		} else {
			withQP(t, id)
		}
		return id.Connect(context.Background(), p)
	})
	t.Cleanup(func() { _ = request.Close(); <-asked })
	return request
}

func connectedID(t *testing.T) *ID {
	id := requestedID(t, nil)
	withQP(t, id)
	require.NoError(t, id.Accept(within(t, time.Minute), ConnParam{}))
	return id
}

// steps is every call on an id that needs it to stand somewhere, with where.
var steps = []struct {
	name  string
	call  func(ctx context.Context, id *ID) error
	needs []State
}{
	{"Bind", func(_ context.Context, id *ID) error { return id.Bind(ap(home)) }, []State{StateIdle}},
	{"Listen", func(_ context.Context, id *ID) error { return id.Listen(1) }, []State{StateBoundWildcard, StateBoundDevice}},
	{"GetRequest", func(ctx context.Context, id *ID) error { _, err := id.GetRequest(ctx); return err }, []State{StateListening}},
	{"ResolveAddr", func(ctx context.Context, id *ID) error {
		return id.ResolveAddr(ctx, netip.AddrPort{}, ap("10.1.0.1:1"))
	},
		[]State{StateIdle, StateBoundWildcard, StateBoundDevice}},
	{"ResolveRoute", func(ctx context.Context, id *ID) error { return id.ResolveRoute(ctx) }, []State{StateAddrResolved}},
	{"ResolveAddrInfo", func(ctx context.Context, id *ID) error {
		_, err := id.ResolveAddrInfo(ctx, "10.1.0.1", "1", AddrInfoHints{})
		return err
	}, []State{StateIdle, StateBoundWildcard, StateBoundDevice}},
	{"ResolveService", func(ctx context.Context, id *ID) error { _, err := id.ResolveService(ctx, "1"); return err }, []State{StateBoundDevice}},
	{"CreateQP", func(_ context.Context, id *ID) error { _, err := id.CreateQP(nil, ibv.QPConfig{}); return err },
		[]State{StateBoundDevice, StateRequested, StateAddrResolved, StateRouteResolved}},
	{"Connect", func(ctx context.Context, id *ID) error { return id.Connect(ctx, ConnParam{}) }, nil}, // none of them has a QP
	{"Accept", func(ctx context.Context, id *ID) error { return id.Accept(ctx, ConnParam{}) }, nil},
	{"StartAccept", func(_ context.Context, id *ID) error { return id.StartAccept(ConnParam{}) }, nil},
	{"FinishAccept", func(ctx context.Context, id *ID) error { return id.FinishAccept(ctx) }, []State{StateConnecting}},
	{"Reject", func(_ context.Context, id *ID) error { return id.Reject(nil) }, []State{StateRequested}},
	{"RejectECE", func(_ context.Context, id *ID) error { return id.RejectECE(nil) }, []State{StateRequested}},
	{"Establish", func(_ context.Context, id *ID) error { return id.Establish() }, nil}, // its QP is in INIT
	{"Disconnect", func(_ context.Context, id *ID) error { return id.Disconnect() }, []State{StateConnected, StateDisconnected}},
	{"JoinMulticast", func(ctx context.Context, id *ID) error {
		_, err := id.JoinMulticast(ctx, netip.MustParseAddr("239.1.1.1"), JoinConfig{})
		return err
	}, []State{StateBoundDevice, StateAddrResolved}}, // which say that it is no id of datagrams
	{"SetLocalECE", func(_ context.Context, id *ID) error { return id.SetLocalECE(ECE{Vendor: 1}) },
		[]State{StateIdle, StateBoundDevice, StateRequested, StateAddrResolved, StateRouteResolved}},
	{"Migrate", func(_ context.Context, id *ID) error { return id.Migrate(nil) }, []State{StateIdle, StateBoundWildcard, StateBoundDevice,
		StateRequested, StateAddrResolved, StateRouteResolved, StateConnecting, StateResponded, StateConnected, StateDisconnected}},
}

// TestDocStates: the package's documentation names the states of each step.
func TestDocStates(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, step := range steps {
		_, row, found := strings.Cut(string(doc), "\n//\t"+step.name+" ")
		require.True(t, found, step.name)
		row, _, _ = strings.Cut(row, "\n")
		row, _, _ = strings.Cut(strings.TrimSpace(row), ";")
		if step.needs == nil { // the test's ids cannot take it
			continue
		}
		others, all := strings.CutPrefix(row, "all but ")
		named := strings.Split(others, ", ")
		for s := StateIdle; s <= StateDestroyed; s++ {
			require.Equal(t, slices.Contains(step.needs, s), slices.Contains(named, s.String()) != all, "%s in %v", step.name, s)
		}
	}
}

// TestPairEveryStepInEveryState: a step that the state does not allow says why,
// and changes nothing; one that it allows returns, and does not say that.
func TestPairEveryStepInEveryState(t *testing.T) {
	needTopo(t, "pair")
	for s := StateIdle; s <= StateDestroyed; s++ {
		require.True(t, slices.ContainsFunc(states, func(c struct {
			state State
			make  func(t *testing.T) *ID
			why   error
		}) bool {
			return c.state == s
		}), "%v is not in the table", s)
	}
	for _, s := range states {
		t.Run(s.state.String(), func(t *testing.T) {
			id := s.make(t)
			ctx := within(t, time.Minute)
			for _, step := range steps {
				if slices.Contains(step.needs, s.state) {
					continue
				}
				require.Equal(t, s.state, id.State())
				err := step.call(ctx, id)
				require.ErrorIs(t, err, s.why, step.name)
				var op *OpError
				require.ErrorAs(t, err, &op, step.name)
				require.Equal(t, s.state, id.State(), "%s has moved it", step.name)
			}
			for _, step := range steps {
				if !slices.Contains(step.needs, s.state) {
					continue
				}
				t.Run(step.name, func(t *testing.T) {
					id := s.make(t)
					short, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					if step.name == "GetRequest" { // nobody comes
						cancel()
					}
					defer cancel()
					err := step.call(short, id)
					require.NotErrorIs(t, err, ErrState)
					require.False(t, err != nil && errors.Is(err, s.why) && s.state != StateDisconnected, "%v", err)
				})
			}
		})
	}
}

// TestPairEveryQuestionInEveryState: what only asks does not fail, or says why.
func TestPairEveryQuestionInEveryState(t *testing.T) {
	needTopo(t, "pair")
	for _, s := range states {
		t.Run(s.state.String(), func(t *testing.T) {
			id := s.make(t)
			for to := ibv.QPReset; to <= ibv.QPErr; to++ {
				if _, _, err := id.QPAttr(to); err != nil {
					var op *OpError
					require.ErrorAs(t, err, &op)
				}
			}
			for _, err := range []error{id.Notify(ibv.EventCommEst), id.Notify(ibv.EventPathMig), func() error { _, err := id.RemoteECE(); return err }()} {
				var op *OpError
				require.True(t, err == nil || errors.As(err, &op), "%v", err)
			}
			require.Equal(t, s.state, id.State())
			require.Equal(t, id.Err() != nil, isClosed(id.Done()))
		})
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
