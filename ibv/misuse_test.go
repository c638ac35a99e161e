//go:build linux && cgo

package ibv

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ci/misuse"
)

// Case 44: nothing that this package exports crashes or hangs, whatever it is
// called on and with.

// handles are the types whose objects are made and closed; their methods are
// called on nil, zero and closed ones.
var handles = []any{
	(*AH)(nil), (*Buffer)(nil), (*CQ)(nil), (*CompChannel)(nil), (*CompCounter)(nil), (*CompletionRing)(nil), (*Context)(nil), (*Counters)(nil),
	(*DMAHandle)(nil), (*Demux)(nil), (*DeviceMemory)(nil), (*Flow)(nil), (*MR)(nil), (*MW)(nil), (*PD)(nil), (*QP)(nil), (*RSSTable)(nil), (*RecvBatch)(nil),
	(*SRQ)(nil), (*SendBatch)(nil), (*ThreadDomain)(nil), (*WQ)(nil), (*XRCD)(nil),
}

// with are the types whose example is another type's.
var with = []string{"RecvBatch", "WQ"} // SRQ, RSSTable

// TestExamples: each of them is shown in an example.
func TestExamples(t *testing.T) {
	shown := misuse.Examples(t, ".")
	for _, h := range handles {
		name := reflect.TypeOf(h).Elem().Name()
		if !slices.Contains(with, name) {
			require.Contains(t, shown, name)
		}
	}
}

// values are the other types with methods.
var values = []any{
	Access(0), Advice(0), AsyncEvent{}, AsyncEventType(0), AtomicCap(0), AttrMask(0), CompCounterKind(0), CompOps(0), CounterKind(0), Finding{}, ForkStatus(0),
	GID{}, GIDQuery{}, GIDType(0), LinkLayer(0), MTU(0), MWType(0), MemoryKind(0), NodeType(0), Opcode(0), PortAttr{}, PortState(0), QPState(0),
	QPType(0), QPTypes(0), Queue(0), Rate(0), Selector{}, Severity(0), Transport(0), WCOpcode(0), WCStatus(0), WQState(0),
	&BusyError{}, &Error{Kind: ErrBusy, Err: ErrBusy}, &MemlockError{Err: ErrMemlock}, &RemoteBuffer{}, Ticket{}, &WC{}, &WCError{}, &WCExtra{}, Device{},
}

var functions = map[string]any{
	"Accessible": Accessible, "Devices": Devices, "Diagnose": Diagnose, "FlowCount": FlowCount, "FlowDrop": FlowDrop, "FlowEth": FlowEth, "FlowIPv4": FlowIPv4,
	"FlowTCP": FlowTCP, "FlowTag": FlowTag, "FlowUDP": FlowUDP, "ForkSupport": ForkSupport, "GIDOf": GIDOf,
	"ImportDevice": ImportDevice, "NewBuffer": NewBuffer, "NewDemux": NewDemux, "NextRKey": NextRKey, "Objects": Objects, "Open": Open,
	"RateOfMbps": RateOfMbps, "RateOfMult": RateOfMult, "UDPSourcePort": UDPSourcePort,
}

// unfit are functions that cannot be called so: package cm's own, whose arguments
// it answers for, and what changes the process.
var unfit = []string{"AHAttrOf", "Borrow", "ForkInit", "NewQP", "NewSRQ", "QPAttrOf", "SetMaxSpinners", "TraceObjects"}

// setters write one field of a request, whose index is the caller's to get right,
// as with a slice.
var setters = []string{"SetID", "SetIDs", "SetFlags", "SetImm", "SetRemote"}

func TestMisuseIsComplete(t *testing.T) {
	types, funcs := misuse.Exported(t, ".")
	var have []string
	for _, v := range slices.Concat(handles, values) {
		have = append(have, strings.TrimPrefix(reflect.TypeOf(v).String(), "*"))
	}
	for _, name := range types {
		require.Contains(t, have, "ibv."+name, "a type that nobody misuses")
	}
	for _, name := range funcs {
		if !slices.Contains(unfit, name) {
			require.Contains(t, functions, name, "a function that nobody misuses")
		}
	}
}

// TestMisuseFunctions: functions and plain values.
func TestMisuseFunctions(t *testing.T) {
	c := misuse.New(t, 1)
	for name, f := range functions {
		for range 20 {
			c.Func(name, reflect.ValueOf(f))
		}
	}
	for _, v := range values {
		c.Methods(v, 1, nil, nil)
		of := reflect.TypeOf(v)
		for range 20 {
			if of.Kind() == reflect.Pointer {
				p := reflect.New(of.Elem())
				p.Elem().Set(c.Value(of.Elem()))
				if e, ok := p.Interface().(*Error); ok { // an error has a cause
					e.Err = ErrBusy
				}
				if e, ok := p.Interface().(*MemlockError); ok {
					e.Err = ErrBusy
				}
				c.Methods(p.Interface(), 1, nil, nil)
			} else {
				c.Methods(c.Value(of).Interface(), 1, nil, nil)
			}
		}
	}
}

// passes are methods that have nothing to refuse on an object that is none, or,
// given no requests, nothing to do.
var passes = []string{"Close", "PostRange", "PostPollRange"}

// TestMisuseNilAndClosed: every method of an object that is nil, zero or closed is
// an error, or gives a zero value.
func TestMisuseNilAndClosed(t *testing.T) {
	objects := slices.Concat(handles, newShut(t).all)
	for _, h := range handles {
		objects = append(objects, reflect.New(reflect.TypeOf(h).Elem()).Interface())
	}
	c := misuse.New(t, 2, objects...)
	c.Fix(make([]WC, 1)) // room for none is no error
	for _, o := range objects {
		c.Methods(o, 8, leaveOf(o), func(method string, err error, hasErr bool) {
			if !hasErr || slices.Contains(passes, method) || err != nil {
				return
			}
			// What is set in a batch of a closed queue pair cannot be posted.
			if _, batch := o.(interface{ Post() (int, error) }); !batch || strings.HasPrefix(method, "Post") {
				t.Errorf("%T.%s is fine with an object that is none", o, method)
			}
		})
	}
}

func leaveOf(o any) []string {
	if _, batch := o.(interface{ Post() (int, error) }); batch {
		return setters
	}
	return nil
}

// TestPairMisuse: every method of objects that are there, on a real device.
func TestPairMisuse(t *testing.T) {
	needRDMA(t)
	e := newEnd(t, endConfig{})
	srq, err := e.pd.CreateSRQ(SRQConfig{})
	autoClose(t, srq, err)
	buf, err := NewBuffer(4096, BufferConfig{})
	autoClose(t, buf, err)
	mw, err := e.pd.AllocMW(MWType1)
	autoClose(t, mw, err)
	ring, err := e.ctx.NewCompletionRing(RingConfig{})
	autoClose(t, ring, err)
	send, err := e.qp.NewSendBatch(BatchConfig{Requests: 2})
	require.NoError(t, err)
	recv, err := e.qp.NewRecvBatch(BatchConfig{Requests: 2})
	require.NoError(t, err)
	live := []any{e.ctx, e.pd, e.ch, e.scq, e.mr, e.qp, srq, buf, mw, ring, send, recv}
	gone, err := Open("rxe0")
	require.NoError(t, err)
	pd, err := gone.AllocPD()
	require.NoError(t, err)
	cq, err := gone.CreateCQ(CQConfig{})
	require.NoError(t, err)
	qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq})
	require.NoError(t, err)
	for _, o := range []interface{ Close() error }{qp, cq, pd, gone} {
		require.NoError(t, o.Close())
	}
	other := newEnd(t, endConfig{device: "rxe1"})
	args := slices.Concat(live, []any{gone, pd, cq, qp, other.pd, other.scq, other.qp, other.mr, other.ch})
	for _, h := range handles {
		args = append(args, reflect.New(reflect.TypeOf(h).Elem()).Interface())
	}
	c := misuse.New(t, 3, args...)
	for _, o := range live {
		c.Methods(o, 20, append(leaveOf(o), "Close", "Drop"), nil)
	}
}
