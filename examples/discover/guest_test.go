package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

// What is wrong is named, with what to do instead.
func TestMisuseSays(t *testing.T) {
	guest.WantSays(t, run, map[string]string{
		"find rxe0":    `discover: LOCAL "rxe0" is not an address`,
		"offer rxe0 a": `discover: LOCAL "rxe0" is not an address`,
	})
}

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "discover", "", "find", "find nowhere", "offer 10.1.0.1", "-wait 0s find 10.1.0.1",
		"-n -1 find 10.1.0.1", "offer 10.1.0.1 "+strings.Repeat("x", size))
	guest.WantHelp(t, run, usage)
}

func TestPairDiscover(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, offer := range []string{"10.1.0.1 kv=10.1.0.1:7473", "10.1.0.1 copy=10.1.0.1:7472", "10.2.0.1 other=10.2.0.1:7473"} {
		guest.Ours(t, "offer "+offer).Says("offering")
	}
	for _, c := range []struct{ args, found string }{
		{"-n 2 find 10.1.0.1", `"copy=10.1.0.1:7472" "kv=10.1.0.1:7473"`},
		{"-n 1 find 10.2.0.1", `"other=10.2.0.1:7473"`},
	} {
		p := guest.Inside(t, run, "-wait 50s "+c.args)
		p.WantStatus(0)
		require.ElementsMatch(t, strings.Fields(c.found), strings.Fields(p.Out.String()))
	}
	p := guest.Inside(t, run, "-wait 1s find 10.3.0.1")
	p.WantStatus(1)
	require.Contains(t, p.Err.String(), "no usable RDMA device")
}

func TestPairNobody(t *testing.T) {
	guest.NeedTopo(t, "pair")
	p := guest.Inside(t, run, "-wait 300ms find 10.1.0.1")
	p.WantStatus(1)
	require.Contains(t, p.Err.String(), "nobody has answered")
}
