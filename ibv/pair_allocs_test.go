//go:build linux && cgo

package ibv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPairQueueAllocs: posting to an SRQ, sending datagrams and polling an
// extended CQ allocate nothing.
func TestPairQueueAllocs(t *testing.T) {
	srq, _, mr, _ := newShared(t, 1, SRQConfig{MaxRecv: 512})
	rb, err := srq.NewRecvBatch(BatchConfig{})
	require.NoError(t, err)
	require.NoError(t, rb.Recv(0, mr.SGE(0, 8)))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := rb.Post(); err != nil {
			t.Error(err)
		}
	}))

	a, ah := newUD(t, "rxe0", "rxe0")
	sb, err := a.qp.NewSendBatch(BatchConfig{})
	require.NoError(t, err)
	to := Dest{AH: ah, QPNum: a.qp.Num(), QKey: testQKey}
	require.NoError(t, sb.SendTo(0, to, a.mr.SGE(0, 8)))
	wcs, extra := make([]WC, 16), make([]WCExtra, 16)
	ext, err := a.ctx.CreateCQ(CQConfig{Extended: true})
	ext = autoClose(t, ext, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := sb.SetDest(0, to); err != nil {
			t.Error(err)
		}
		if _, err := sb.Post(); err != nil {
			t.Error(err)
		}
		for n := 0; n == 0; {
			if n, err = a.scq.Poll(wcs); err != nil {
				t.Error(err)
				break
			}
		}
		if _, err := ext.PollEx(wcs, extra); err != nil {
			t.Error(err)
		}
	}))
}
