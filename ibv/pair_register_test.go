//go:build linux && cgo

package ibv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPairRegisterFor: a peer can do with memory what it was registered for, and
// nothing else.
func TestPairRegisterFor(t *testing.T) {
	needRDMA(t)
	for name, c := range map[string]struct {
		register      func(*PD, []byte) (*MR, error)
		reads, writes bool
	}{
		"messages": {(*PD).RegisterMessages, false, false},
		"read":     {(*PD).RegisterForRead, true, false},
		"write":    {(*PD).RegisterForWrite, false, true},
	} {
		for op, allowed := range map[Opcode]bool{OpRead: c.reads, OpWrite: c.writes} {
			t.Run(name+" "+op.String(), func(t *testing.T) {
				a, b := newPair(t, endConfig{qp: QPConfig{MaxSendSGE: 2}})
				mem := make([]byte, 100)
				mr, err := c.register(b.pd, mem)
				mr = autoClose(t, mr, err)
				fill(mem, 1)
				fill(a.mr.Bytes()[:100], 1)
				require.NoError(t, b.qp.PostRecv(RecvWR{SGEs: []SGE{mr.SGE(0, 100)}}))
				require.NoError(t, a.qp.PostSend(SendWR{SGEs: []SGE{a.mr.SGE(0, 100)}}))
				waitOK(t, a.scq, 1)
				waitOK(t, b.rcq, 1)
				requirePattern(t, mem, 1)
				require.NoError(t, a.qp.PostSend(SendWR{Op: op, SGEs: []SGE{a.mr.SGE(0, 40), a.mr.SGE(40, 60)}, Remote: mr.Remote(0)}))
				if wc := wait(t, a.scq, 1)[0]; allowed {
					require.NoError(t, wc.Err())
					requirePattern(t, mem, 1)
					requirePattern(t, a.mr.Bytes()[:100], 1)
				} else {
					require.ErrorIs(t, wc.Err(), WCRemAccessErr)
				}
				require.NoError(t, b.qp.Close())
			})
		}
	}
	_, err := (*PD)(nil).RegisterMessages(make([]byte, 1))
	require.ErrorIs(t, err, ErrClosed)
}
