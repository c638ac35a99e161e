package ibv

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func openSiw(t *testing.T) *Context {
	t.Helper()
	if os.Getenv("RAILBIND_GUEST") == "" {
		t.Skip("runs in the guest: ci/guest -transport siw")
	}
	c, err := Open("siw0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// The place in siw's memory map that its library takes for none is never
// given to a queue of ours, however many there are.
func TestSiwManyQueues(t *testing.T) {
	c := openSiw(t)
	require.Equal(t, TransportIWARP, c.Transport())
	pd, err := c.AllocPD()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pd.Close()) })
	for i := range 200 {
		cq, err := c.CreateCQ(CQConfig{Size: 64})
		require.NoError(t, err, "completion queue %d", i)
		t.Cleanup(func() { require.NoError(t, cq.Close()) })
		qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 16, MaxRecv: 16})
		require.NoError(t, err, "queue pair %d", i)
		t.Cleanup(func() { require.NoError(t, qp.Close()) })
	}
}

// What iWARP does not have is refused before the kernel is asked; where the
// kernel is, its refusal is told.
func TestSiwUnsupported(t *testing.T) {
	c := openSiw(t)
	pd, err := c.AllocPD()
	require.NoError(t, err)
	defer pd.Close()
	cq, err := c.CreateCQ(CQConfig{Size: 64})
	require.NoError(t, err)
	defer cq.Close()
	qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 16, MaxRecv: 16})
	require.NoError(t, err)
	defer qp.Close()
	for _, typ := range []QPType{UC, UD, RawPacket} {
		_, err := pd.CreateQP(QPConfig{Type: typ, SendCQ: cq, RecvCQ: cq})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "iWARP has RC queue pairs only")
	}
	_, err = pd.CreateAH(AHAttr{Port: 1, Global: true})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	mr, err := pd.AllocMR(64, LocalWrite)
	require.NoError(t, err)
	defer mr.Close()
	b, err := qp.NewSendBatch(BatchConfig{})
	require.NoError(t, err)
	require.ErrorIs(t, b.SendImm(0, 1, mr.SGE(0, 8)), errors.ErrUnsupported)
	require.ErrorIs(t, b.WriteImm(0, Remote{}, 1, mr.SGE(0, 8)), errors.ErrUnsupported)
	require.ErrorIs(t, b.FetchAdd(0, Remote{}, 1, mr.SGE(0, 8)), errors.ErrUnsupported)
	require.ErrorIs(t, b.CompareSwap(0, Remote{}, 1, 2, mr.SGE(0, 8)), errors.ErrUnsupported)
}
