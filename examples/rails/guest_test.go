package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"rail0=10.1.0.1:7":  `rails: LOCAL "rail0" is not an address`,
		"10.1.0.1=10.1.0.2": `rails: PEER "10.1.0.2" is not ADDR:PORT or [ADDR]:PORT`,
	})
}

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "rails", "", "10.0.0.1", "x=10.0.0.1:1", "10.0.0.1=x", "-n 0 10.0.0.1=10.0.0.2:1")
	guest.WantHelp(t, run, usage)
}

// Host 2 runs serve. The wire of rail 1 is cut for a while.
func TestRailsMultirail(t *testing.T) {
	guest.NeedTopo(t, "rails")
	wire := func(what string) {
		out, err := exec.Command("tc", "qdisc", what, "dev", "rail1", "root", "netem", "loss", "100%").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	p := guest.Ours(t, "-n 10000000 10.10.0.1=10.10.0.2:7471 10.10.1.1=10.10.1.2:7471")
	p.Says("with 10.10.0.1 on rxe0")
	p.Says("with 10.10.1.1 on rxe1")
	wire("add")
	p.Says("without 10.10.1.1")
	wire("del")
	p.SaysTimes("with 10.10.1.1 on rxe1", 2)
	p.Signal(os.Interrupt)
	p.WantStatus(0)
	var sent, failed [2]int
	_, err := fmt.Sscanf(p.Out.String(), "10.10.0.1: %d messages, %d failures\n10.10.1.1: %d messages, %d failures",
		&sent[0], &failed[0], &sent[1], &failed[1])
	require.NoError(t, err, p.Out.String())
	require.Positive(t, sent[0])
	require.Zero(t, failed[0], p.Err.String())
	require.Positive(t, failed[1])
}
