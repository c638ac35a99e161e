//go:build linux && cgo

package ibv

import (
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo/fakeverbs"
	"github.com/railbind/railbind/ci/churn"
)

// TestFakeChurn makes and closes objects of the binding itself, with a device
// that holds nothing. RAILBIND_CHURN_N says how many.
func TestFakeChurn(t *testing.T) {
	f := &fakes{dev: fakeverbs.Open()}
	defer f.dev.Free()
	f.dev.Attributes(0)
	c := f.context()
	p, err := f.pd(c)
	require.NoError(t, err)
	cq, err := f.cq(c, nil)
	require.NoError(t, err)
	lasting, err := f.srq(p, nil, cq)
	require.NoError(t, err)
	var goroutines, fds, objects int
	churn.Run(t, int(asked("RAILBIND_CHURN_N", 20_000)), []churn.Kind{
		{Name: "context", Make: func() (io.Closer, error) { return f.context(), nil }},
		{Name: "PD", Make: func() (io.Closer, error) { return f.pd(c) }},
		{Name: "parent domain", Make: func() (io.Closer, error) { return p.Parent(nil) }},
		{Name: "thread domain", Make: func() (io.Closer, error) { return c.AllocThreadDomain() }},
		{Name: "CQ", Make: func() (io.Closer, error) { return f.cq(c, nil) }},
		{Name: "ring", Make: func() (io.Closer, error) { return f.ring(c) }},
		{Name: "QP", Make: func() (io.Closer, error) { return f.qp(p, cq, cq, RC) }},
		{Name: "SRQ", Make: func() (io.Closer, error) { return f.srq(p, nil, cq) }},
		{Name: "WQ", Make: func() (io.Closer, error) { return p.CreateWQ(cq.CQ, 4, 1) }},
		{Name: "XRC domain", Make: func() (io.Closer, error) { return c.OpenXRCD(nil) }},
		{Name: "counters", Make: func() (io.Closer, error) { return c.CreateCounters() }},
		{Name: "device memory", Make: func() (io.Closer, error) { return c.AllocDM(64, 0) }},
		{Name: "MR", Make: func() (io.Closer, error) { return p.AllocNullMR() }},
		{Name: "buffer", Make: func() (io.Closer, error) { return NewBuffer(4096, BufferConfig{}) }},
		// What a queue knows of a region goes with either, whichever goes first.
		{Name: "MR in use", Make: func() (io.Closer, error) { return f.use(p, cq) }},
		{Name: "MR once used", Make: func() (io.Closer, error) {
			m, err := p.AllocNullMR()
			if err == nil {
				_, err = lasting.use("test", &m.held, m)
			}
			return m, err
		}},
	}, func() {
		if goroutines == 0 {
			goroutines, fds, objects = runtime.NumGoroutine(), openFiles(t), len(Objects())
		}
		for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
			require.True(t, time.Now().Before(end), "%d goroutines, before: %d", runtime.NumGoroutine(), goroutines)
		}
		require.LessOrEqual(t, openFiles(t), fds) // those of tests before may still be closed
		require.Len(t, Objects(), objects)
		require.Equal(t, fakeverbs.Alive{SRQs: 1}, f.dev.Alive())
		require.Zero(t, f.dev.Regions())
		require.Zero(t, f.dev.Domains())
	})
	for _, o := range []io.Closer{lasting, cq, p, c} {
		require.NoError(t, o.Close())
	}
}

// inUse is a region that a receive names, and the receive's queue pair.
type inUse struct {
	*MR
	qp *QP
}

func (f *fakes) use(p *PD, cq *fakeCQ) (io.Closer, error) {
	q, err := f.qp(p, cq, cq, RC)
	if err != nil {
		return nil, err
	}
	m, err := p.AllocNullMR()
	if err == nil {
		err = q.PostRecv(RecvWR{SGEs: []SGE{m.SGE(0, 8)}})
	}
	return inUse{m, q}, err
}

func (u inUse) Close() error {
	if err := u.MR.Close(); !errors.Is(err, ErrBusy) {
		return errors.Join(errors.New("a region in use was closed"), err)
	}
	return errors.Join(u.qp.Close(), u.MR.Close())
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(fds)
}
