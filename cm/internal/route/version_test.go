//go:build linux

package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKernelVersion(t *testing.T) {
	for text, want := range map[string][2]int{
		"6.1.0-42-amd64": {6, 1}, "6.12.57+deb13-amd64": {6, 12}, "7.3-rc1": {7, 3}, "7.0": {7, 0}, "": {0, 0}, "odd": {0, 0},
	} {
		major, minor := release(text)
		require.Equal(t, want, [2]int{major, minor}, text)
	}
	major, _ := (&Handle{}).KernelVersion()
	require.NotZero(t, major)
}
