//go:build linux && cgo

package ibv

import (
	"errors"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo"
)

// TestBusyTree: Close refuses while children are left and names them.
func TestBusyTree(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 64, LocalWrite)
	require.NoError(t, f.qp.PostRecv(RecvWR{SGEs: []SGE{m.SGE(0, 8)}}))
	for _, c := range []struct {
		obj  interface{ Close() error }
		want []string
	}{
		{f.ctx, []string{"CQ of 32 on fake0", "CQ of 32 on fake0", "PD on fake0"}},
		{f.pd, []string{"MR of 64 bytes (lkey 0x1140) on fake0", "QP 17 on fake0"}},
		{f.scq, []string{"QP 17 on fake0"}},
		{f.rcq, []string{"QP 17 on fake0"}},
		{m, []string{"requests in flight on QP 17 on fake0"}},
	} {
		err := c.obj.Close()
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorIs(t, err, syscall.EBUSY)
		var busy *BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, c.want, busy.Children)
		for _, w := range c.want {
			require.Contains(t, err.Error(), w)
		}
	}
	require.Zero(t, f.closed)
	many := &BusyError{Object: "x", Children: make([]string, 20)}
	require.Contains(t, many.Error(), "and 12 more")
}

// TestCloseTwice: idempotent, also from many goroutines; the object is destroyed
// once.
func TestCloseTwice(t *testing.T) {
	f := newBench(t, benchConfig{})
	var destroyed atomic.Int32
	c := &CQ{ctx: f.ctx}
	fake := f.dev.NewCQ(4)
	defer fake.Free()
	require.NoError(t, c.finish(fake.Handle(), func() error { destroyed.Add(1); return nil }, f.ctx.node))
	var wg sync.WaitGroup
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	require.Equal(t, int32(1), destroyed.Load())
	require.NoError(t, c.Close())
}

// TestFailedDestroy: an object that could not be destroyed works on.
func TestFailedDestroy(t *testing.T) {
	f := newBench(t, benchConfig{})
	m := f.mr(t, 64, LocalWrite)
	busy := errors.New("device says no")
	fail := true
	flaky := func() error {
		if fail {
			return busy
		}
		return nil
	}
	f.qp.destroy, m.destroy = flaky, flaky
	f.pd.destroy, f.ctx.destroy = flaky, flaky
	require.NoError(t, f.qp.PostSend(SendWR{SGEs: []SGE{m.SGE(0, 8)}}))
	require.Len(t, drain(t, f.scq), 1)
	require.ErrorIs(t, f.qp.Close(), busy)
	require.ErrorIs(t, m.Close(), busy)
	require.NoError(t, f.qp.PostSend(SendWR{ID: 3, SGEs: []SGE{m.SGE(0, 8)}}))
	requireBusy(t, m, f.qp)
	require.Len(t, drain(t, f.scq), 1)
	fail = false
	require.NoError(t, m.Close())
	require.NoError(t, f.qp.Close())
	require.NoError(t, f.scq.Close())
	require.NoError(t, f.rcq.Close())
	fail = true
	require.ErrorIs(t, f.pd.Close(), busy)
	fail = false
	require.NoError(t, f.pd.Close())
	fail = true
	require.ErrorIs(t, f.ctx.Close(), busy)
	fail = false
	require.NoError(t, f.ctx.Close())
}

// TestCloseWaitsForCalls: a call in flight keeps the object; calls after are
// refused.
func TestCloseWaitsForCalls(t *testing.T) {
	f := newBench(t, benchConfig{})
	pd := newPD(f.ctx, f.dev.PD(), f.gone)
	require.NoError(t, pd.node.enter("test"))
	done := make(chan error)
	go func() { done <- pd.Close() }()
	for pd.node.calls.Load()&closing == 0 {
		runtime.Gosched()
	}
	require.ErrorIs(t, second(pd.Register(make([]byte, 1), 0)), ErrClosed)
	select {
	case err := <-done:
		t.Fatalf("closed under a call: %v", err)
	default:
	}
	// The call makes a child, so Close has to refuse after all.
	m := newMR(pd, make([]byte, 64), 0, 1, 2, f.gone, nil)
	pd.node.leave()
	require.ErrorIs(t, <-done, ErrBusy)
	require.NoError(t, m.Close())
	require.NoError(t, pd.Close())
	require.ErrorIs(t, second(pd.CreateQP(QPConfig{})), ErrClosed)
}

// TestBorrowed: a connection manager's context goes when its last child and its
// last hold are gone, and not by the user's Close.
func TestBorrowed(t *testing.T) {
	f := newBench(t, benchConfig{})
	released := 0
	c := Borrow(f.dev.Context(), func() { released++ })
	require.ErrorIs(t, c.Close(), ErrBorrowed)
	require.NoError(t, c.Hold())
	pd := newPD(c, f.dev.PD(), f.gone)
	c.Drop()
	c.Drop()
	require.Zero(t, released)
	require.NoError(t, pd.Close())
	require.Equal(t, 1, released)
	require.ErrorIs(t, c.Hold(), ErrClosed)
	require.ErrorIs(t, second(c.AllocPD()), ErrClosed)
	c.Drop()
	require.Equal(t, 1, released)
	require.Nil(t, Borrow(cgo.Context{}, nil))
}

// TestForeignContext: objects of two contexts, also of one device.
func TestForeignContext(t *testing.T) {
	a, b := newBench(t, benchConfig{}), newBench(t, benchConfig{})
	_, err := NewQP(a.pd.Context(), a.pd, QPConfig{SendCQ: a.scq, RecvCQ: b.rcq}, nil, nil)
	require.ErrorIs(t, err, ErrForeignContext)
	require.ErrorIs(t, err, syscall.EXDEV)
	require.Contains(t, err.Error(), "fake0 twice: the same device, opened twice")
	b.ctx.name = "fake1"
	_, err = NewQP(a.pd.Context(), a.pd, QPConfig{SendCQ: b.scq, RecvCQ: a.rcq}, nil, nil)
	require.ErrorIs(t, err, ErrForeignContext)
	require.Contains(t, err.Error(), "fake0 and fake1")
}

// shut is a device with objects that are closed, and the batches of its queue pair.
type shut struct {
	*bench
	region *MR
	buf    *Buffer
	send   *SendBatch
	recv   *RecvBatch
	all    []any
}

func newShut(t *testing.T) shut {
	t.Helper()
	f := newBench(t, benchConfig{})
	m := f.mr(t, 64, LocalWrite)
	send, recv := sendBatch(t, f.qp, BatchConfig{}), recvBatch(t, f.qp, BatchConfig{})
	require.NoError(t, send.Send(0, m.SGE(0, 8)))
	buf, err := NewBuffer(4096, BufferConfig{})
	require.NoError(t, err)
	f.dev.Attributes(0)
	dm, err := f.ctx.AllocDM(64, 0)
	require.NoError(t, err)
	td, err := f.ctx.AllocThreadDomain()
	require.NoError(t, err)
	mw := &MW{held: held{node: newNode("memory window", nil, f.pd.node), pd: f.pd}, destroy: f.gone}
	ah := newAH(f.pd, cgo.AH{}, "nobody", f.gone)
	all := []any{ah, f.qp, m, mw, dm, td, f.rcq, f.scq, f.pd, f.ctx, buf}
	for _, c := range all {
		require.NoError(t, c.(interface{ Close() error }).Close())
	}
	return shut{f, m, buf, send, recv, append(all, send, recv)}
}

// TestNilAndClosed calls every exported method on nil, zero and closed objects:
// an error or a zero value, never a crash.
func TestNilAndClosed(t *testing.T) {
	f := newShut(t)
	// These write one field of a request, whose index is the caller's to get
	// right, as with a slice.
	setters := map[string]bool{"SetID": true, "SetIDs": true, "SetFlags": true, "SetImm": true, "SetRemote": true, "SetOffset": true}
	for _, objs := range [][]any{
		{(*Context)(nil), (*PD)(nil), (*MR)(nil), (*Buffer)(nil), (*CompChannel)(nil), (*CompletionRing)(nil), (*CQ)(nil), (*QP)(nil),
			(*SendBatch)(nil), (*RecvBatch)(nil), (*DeviceMemory)(nil), (*ThreadDomain)(nil), (*MW)(nil)},
		{new(Context), new(PD), new(MR), new(Buffer), new(CompChannel), new(CompletionRing), new(CQ), new(QP), new(SendBatch), new(RecvBatch), new(DeviceMemory), new(ThreadDomain), new(MW)},
		f.all,
	} {
		for _, o := range objs {
			v := reflect.ValueOf(o)
			for i := range v.NumMethod() {
				method := v.Type().Method(i)
				if strings.HasSuffix(method.Type.In(0).String(), "Batch") && setters[method.Name] {
					continue
				}
				var args []reflect.Value
				for k := 1; k < method.Type.NumIn(); k++ {
					if in := method.Type.In(k); !method.Type.IsVariadic() || k < method.Type.NumIn()-1 {
						args = append(args, reflect.Zero(in))
					}
				}
				if method.Name == "Wait" {
					args[0] = reflect.ValueOf(t.Context())
					args[1] = reflect.ValueOf(make([]WC, 1))
				}
				if method.Name == "PostRange" {
					args[1] = reflect.ValueOf(1)
				}
				if method.Name == "Poll" {
					args[0] = reflect.ValueOf(make([]WC, 1))
				}
				out := v.Method(i).Call(args)
				if len(out) == 0 || method.Name == "Close" || strings.HasPrefix(method.Name, "Set") {
					continue
				}
				if err, ok := out[len(out)-1].Interface().(error); ok {
					require.Error(t, err, "%T.%s", o, method.Name)
				} else if out[len(out)-1].Type() == reflect.TypeFor[error]() && !v.IsNil() {
					// A zero or closed batch may be given an operation; it
					// cannot be posted.
					require.NotContains(t, strings.Fields("Post PostRange PostSend PostRecv Poll Wait Query Modify CreateQP"), method.Name, "%T", o)
				}
			}
		}
	}
	require.Nil(t, f.region.Bytes())
	require.Nil(t, f.buf.Bytes())
	require.ErrorIs(t, second(f.send.Post()), ErrClosed)
	require.ErrorIs(t, f.qp.PostSend(SendWR{}), ErrClosed)
	require.ErrorIs(t, f.qp.PostRecv(RecvWR{}), ErrClosed)
	require.ErrorIs(t, second(f.scq.Poll(make([]WC, 1))), net.ErrClosed)
	require.ErrorIs(t, second(f.pd.AllocMR(1, 0)), syscall.EBADF)
	require.ErrorIs(t, second(f.pd.RegisterBuffer(f.buf, 0)), os.ErrClosed)
}

// TestLeaks: what is open, and what nobody can close any more.
func TestLeaks(t *testing.T) {
	f := newBench(t, benchConfig{})
	find := func(name string) (found []Object) {
		for _, o := range Objects() {
			if o.Name == name {
				found = append(found, o)
			}
		}
		return found
	}
	const name = "MR of 77 bytes (lkey 0x5) on fake0"
	func() {
		m := newMR(f.pd, make([]byte, 77), 0, 5, 6, f.gone, nil)
		left := find(name)
		require.Len(t, left, 1)
		require.False(t, left[0].Dropped)
		require.Equal(t, "github.com/railbind/railbind/ibv.TestLeaks.func2", left[0].Created[2].Function)
		runtime.KeepAlive(m)
	}()
	for !find(name)[0].Dropped {
		runtime.GC()
		runtime.Gosched()
	}
	for n := range f.pd.node.children {
		if n.name == name {
			require.NoError(t, n.close(func() error { return nil }))
		}
	}
	require.Empty(t, find(name))
}
