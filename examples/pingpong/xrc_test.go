package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/ibv"
)

// Soft-RoCE has no XRC: railbind says so beforehand, and rdma-core's program fails.
// When this fails, rb-pingpong wants a kind xsrq, and this is its peer.
func TestPairXRC(t *testing.T) {
	guest.NeedTopo(t, "pair")
	ctx, err := ibv.Open("rxe0")
	require.NoError(t, err)
	defer ctx.Close()
	_, err = ctx.OpenXRCD(nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "no XRC")

	p := guest.Theirs(t, "ibv_xsrq_pingpong", "-d rxe0 -g 1")
	require.NotZero(t, p.Status())
	require.Contains(t, p.Err.String()+p.Out.String(), "XRC")
}
