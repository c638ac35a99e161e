package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

func TestNoRDMA(t *testing.T)     { testNoRDMA(t) }
func TestBareNoRDMA(t *testing.T) { testNoRDMA(t) }
func TestNoneNoRDMA(t *testing.T) { testNoRDMA(t) }

// Without RDMA both roles say so, at once and in both forms.
func testNoRDMA(t *testing.T) {
	guest.NeedNoRDMA(t)
	for _, args := range []string{"-c -a 192.0.2.1 -C 1", "-c -a 192.0.2.1 -I 192.0.2.2", "-c -a 192.0.2.1 -device eth0", "-s", "-sP", "-s -device eth0"} {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, peer.NoRDMA, run(t.Context(), strings.Fields(args), &out, &errs), errs.String())
			require.Empty(t, out.String())
			require.Contains(t, errs.String(), ibv.ErrNoRDMA.Error())

			out.Reset()
			require.Equal(t, peer.NoRDMA, run(t.Context(), append(strings.Fields(args), "-json"), &out, &errs))
			var r result
			require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
			require.False(t, r.Connected)
			require.Zero(t, r.Rounds)
			require.Contains(t, r.Message, ibv.ErrNoRDMA.Error())
		})
	}
}
