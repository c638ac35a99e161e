//go:build linux

package cm

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ci/misuse"
	"github.com/railbind/railbind/ibv"
)

// Case 44: nothing that this package exports crashes or hangs, whatever it is
// called on and with.

// handles are the types whose objects are made and closed; their methods are
// called on nil, zero and closed ones.
var handles = []any{
	(*Conn)(nil), (*EventChannel)(nil), (*Group)(nil), (*Host)(nil), (*ID)(nil), (*Listener)(nil), (*Request)(nil), (*Dialer)(nil),
}

// TestExamples: each of them is shown in an example.
func TestExamples(t *testing.T) {
	shown := misuse.Examples(t, ".")
	for _, h := range handles {
		name := reflect.TypeOf(h).Elem().Name()
		require.Contains(t, shown, name)
	}
}

// values are the other types with methods.
var values = []any{
	PortSpace(0), RejectReason(0), State(0), EventType(0), UDPeer{},
	&MessageError{}, &OpError{Err: ErrState}, &PrivateDataError{}, &RejectError{}, &TimeoutError{cause: ErrState},
}

var functions = map[string]any{
	"Frame": Frame, "GetAddrInfo": GetAddrInfo, "Listen": Listen, "NewEventChannel": NewEventChannel, "NewID": NewID,
	"OpenHost": OpenHost, "ReadCounters": ReadCounters, "Unframe": Unframe,
}

func TestMisuseIsComplete(t *testing.T) {
	types, funcs := misuse.Exported(t, ".")
	var have []string
	for _, v := range slices.Concat(handles, values) {
		have = append(have, strings.TrimPrefix(reflect.TypeOf(v).String(), "*"))
	}
	for _, name := range types {
		require.Contains(t, have, "cm."+name, "a type that nobody misuses")
	}
	for _, name := range funcs {
		require.Contains(t, functions, name, "a function that nobody misuses")
	}
}

// passes are methods that have nothing to refuse on an object that is none, or
// that is over.
var passes = []string{"Close", "Leave", "Disconnect"}

// misuseNone calls every method of objects that are nil, zero or closed.
func misuseNone(c *misuse.Caller, t *testing.T, closed ...any) {
	t.Helper()
	objects := slices.Concat(handles, closed)
	for _, h := range handles {
		objects = append(objects, reflect.New(reflect.TypeOf(h).Elem()).Interface())
	}
	for _, o := range objects {
		c.Methods(o, 2, nil, func(method string, err error, hasErr bool) {
			if hasErr && err == nil && !slices.Contains(passes, method) {
				t.Errorf("%T.%s is fine with an object that is none", o, method)
			}
		})
	}
}

// TestMisuseNil needs no RDMA, and is the same with it.
func TestMisuseNil(t *testing.T) {
	c := misuse.New(t, 1, &EventChannel{}, &ID{}, &Conn{}, &Host{})
	misuseNone(c, t)
	for name, f := range functions {
		for range 20 {
			c.Func(name, reflect.ValueOf(f))
		}
	}
	for _, v := range values {
		c.Methods(v, 4, nil, nil)
	}
}

// TestPairMisuse: every method of objects in every state, on a real device.
func TestPairMisuse(t *testing.T) {
	needTopo(t, "pair")
	t.Run("closed", func(t *testing.T) {
		client, server := pairUp(t, "10.1.0.1:0", Dialer{LocalAddr: ap("10.1.0.1:0")}, AcceptConfig{})
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		ch, err := NewEventChannel()
		require.NoError(t, err)
		h, err := OpenHost()
		require.NoError(t, err)
		for _, o := range []interface{ Close() error }{client, server, l, ch, h} {
			require.NoError(t, o.Close())
		}
		objects := []any{client, server, l, ch, h, client.ID(), l.ID(), client.QP(), client.PD()}
		misuseNone(misuse.New(t, 2, objects...), t, client, server, l, ch, h, client.ID(), l.ID())
	})
	t.Run("live", func(t *testing.T) {
		client, server := pairUp(t, "10.1.0.1:0", Dialer{LocalAddr: ap("10.1.0.1:0")}, AcceptConfig{})
		l := listen(t, "10.1.0.1:0", ListenConfig{})
		ids := map[State]*ID{}
		for _, s := range states {
			if s.make != nil {
				ids[s.state] = s.make(t)
			}
		}
		ctx, err := ibv.Open(dev("rxe0"))
		require.NoError(t, err)
		defer ctx.Close()
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		defer pd.Close()
		zero := &ID{}
		c := misuse.New(t, 3, client, l, zero, pd, client.PD(), client.QP(), &EventChannel{}, ids[StateAddrResolved])
		live := []any{client, server, l}
		for _, id := range ids {
			live = append(live, id)
		}
		for _, o := range live {
			c.Methods(o, 2, []string{"Close"}, nil)
		}
	})
}
