package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// needNoRDMA says which machine a test is for: the guests `bare` and `none`, or
// one without RDMA anyway.
func needNoRDMA(t *testing.T) {
	t.Helper()
	if devices, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(devices) > 0 {
		require.Empty(t, os.Getenv("RAILBIND_GUEST"), "this test is for a guest without RDMA")
		t.Skip("this machine has RDMA")
	}
}

func TestNoRDMA(t *testing.T)     { testNoRDMA(t) }
func TestBareNoRDMA(t *testing.T) { testNoRDMA(t) }
func TestNoneNoRDMA(t *testing.T) { testNoRDMA(t) }

// Without RDMA both roles say so, at once and in both forms.
func testNoRDMA(t *testing.T) {
	needNoRDMA(t)
	for _, args := range []string{"-c -a 192.0.2.1 -C 1", "-c -a 192.0.2.1 -I 192.0.2.2", "-c -a 192.0.2.1 -device eth0", "-s", "-sP", "-s -device eth0"} {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, statusNoRDMA, run(t.Context(), strings.Fields(args), &out, &errs), errs.String())
			require.Empty(t, out.String())
			require.Contains(t, errs.String(), ibv.ErrNoRDMA.Error())

			out.Reset()
			require.Equal(t, statusNoRDMA, run(t.Context(), append(strings.Fields(args), "-json"), &out, &errs))
			var r result
			require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
			require.False(t, r.Connected)
			require.Zero(t, r.Rounds)
			require.Contains(t, r.Message, ibv.ErrNoRDMA.Error())
		})
	}
}
