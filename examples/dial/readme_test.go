package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows this very program.
func TestReadme(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, program, ok := strings.Cut(string(source), "\npackage main\n")
	require.True(t, ok)
	require.Contains(t, string(readme), "```go\npackage main\n"+program+"```\n")
}
