package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBetween(t *testing.T) {
	const text = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n<!-- y -->\n<!-- end of y -->\n"
	got, err := between(text, "x", "new\n")
	require.NoError(t, err)
	require.Equal(t, "a\n<!-- x -->\n\nnew\n\n<!-- end of x -->\nb\n<!-- y -->\n<!-- end of y -->\n", got)
	again, err := between(got, "x", "new")
	require.NoError(t, err)
	require.Equal(t, got, again)
	_, err = between(text, "z", "new")
	require.ErrorContains(t, err, "end of z")
}

// Every section has its place in the file.
func TestPlaces(t *testing.T) {
	text, err := os.ReadFile("../BENCHMARKS.md")
	require.NoError(t, err)
	for _, s := range sections() {
		_, err := between(string(text), s.name, "new")
		require.NoError(t, err)
	}
}

func TestTables(t *testing.T) {
	const out = `goos: linux
BenchmarkPostPoll/batch=4/separate-2   8000   10.04 c-ns/req   3.0 go/c   1.1 of-bar   0 B/op   0 allocs/op
BenchmarkPostPoll/batch=4/combined-2   8000   2.31 go/c   1.2 of-bar
BenchmarkPostPoll/batch=4/combined-2   8000   2.52 go/c   1.3 of-bar
BenchmarkEmptyPoll/CQ-2   100   1234 ns/op   0 B/op   1 allocs/op
PASS`
	got, err := postPoll(out)
	require.NoError(t, err)
	require.Contains(t, got, "\n| 4 | 3.00 | 2.31-2.52 |  | 1.10 | 1.20-1.30 |  |\n")
	require.NotContains(t, got, "EmptyPoll")
	got, err = ranges(out)
	require.NoError(t, err)
	require.Contains(t, got, "\n| EmptyPoll/CQ | 1234 |  | 1.00 |\n")
	_, err = ranges("PASS")
	require.Error(t, err)
}

func TestQuoted(t *testing.T) {
	require.Equal(t, "go test -run '^$' ./ibv", quoted([]string{"go", "test", "-run", "^$", "./ibv"}))
}
