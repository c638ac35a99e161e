package guest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/examples/internal/program"
	"github.com/railbind/railbind/ibv"
)

// WantMisuse wants each of these command lines to be refused with a hint.
func WantMisuse(t *testing.T, run program.Run, name string, lines ...string) {
	t.Helper()
	for _, args := range lines {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, program.Misuse, run(t.Context(), strings.Fields(args), &out, &errs))
			require.Empty(t, out.String())
			require.Contains(t, errs.String(), name+": ")
			require.Contains(t, errs.String(), name+" -h")
		})
	}
}

// WantSays wants each of these command lines to be refused with its text.
func WantSays(t *testing.T, run program.Run, says map[string]string) {
	t.Helper()
	for args, text := range says {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, program.Misuse, run(t.Context(), strings.Fields(args), &out, &errs), errs.String())
			require.Contains(t, errs.String(), text+"\n")
		})
	}
}

// WantHelp wants the usage for each way to ask for it.
func WantHelp(t *testing.T, run program.Run, usage string) {
	t.Helper()
	for _, flag := range []string{"-h", "-help", "--help"} {
		var out, errs strings.Builder
		require.Equal(t, program.OK, run(t.Context(), []string{flag}, &out, &errs))
		require.Equal(t, usage, out.String())
		require.Empty(t, errs.String())
	}
}

// WantNoRDMA wants that to be said on a machine without RDMA.
func WantNoRDMA(t *testing.T, run program.Run, lines ...string) {
	t.Helper()
	NeedNoRDMA(t)
	for _, args := range lines {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, peer.NoRDMA, run(t.Context(), strings.Fields(args), &out, &errs), errs.String())
			require.Empty(t, out.String())
			require.Contains(t, errs.String(), ibv.ErrNoRDMA.Error())
		})
	}
}
