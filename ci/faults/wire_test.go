//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

func TestMessages(t *testing.T) {
	m := message{seq: 1 << 40, offset: 2, length: 3, sum: 4}
	got, rest, err := parse(append(m.appendTo(nil), "data"...))
	require.NoError(t, err)
	require.Equal(t, m, got)
	require.Equal(t, "data", string(rest))
	_, _, err = parse(make([]byte, headerLen-1))
	require.ErrorIs(t, err, errWrong)
}

func TestKinds(t *testing.T) {
	require.Equal(t, "device removed", kind(fmt.Errorf("%w: %w", cm.ErrDisconnected, ibv.ErrDeviceRemoved)))
	require.Equal(t, "deadline", kind(&cm.OpError{Err: context.DeadlineExceeded}))
	require.Equal(t, "other: new", kind(fmt.Errorf("new")))
}

func TestHoldings(t *testing.T) {
	before := Holdings{"qp": 1, "fd": 2}
	require.Empty(t, before.over(Holdings{"fd": 2}))
	require.Equal(t, "qp 2, was 1", before.over(Holdings{"qp": 2}))
	require.Equal(t, "mr 1, was 0", before.over(Holdings{"mr": 1}))
}

func TestFaults(t *testing.T) {
	var names []string
	for _, f := range faults {
		require.NotNil(t, f.strike, f.name)
		require.NotNil(t, f.mend, f.name)
		require.False(t, slices.Contains(names, f.name), f.name)
		names = append(names, f.name)
	}
	require.ErrorContains(t, run(t.Context(), config{only: []string{"no such"}}), "no fault")
}
