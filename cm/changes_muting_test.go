//go:build linux

package cm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// What TestPairChanges must leave out: the address goes, or the link, within
// Connect and Accept. A message of the connection manager that rxe cannot send puts
// its QP1 in error; ib_mad lets it send again, but it takes no message any more. So
// each round has a device of its own, in a process of its own.
func TestChangesMuting(t *testing.T) {
	needTopo(t, "pair")
	rxe9(t)
	child(t, "muting")
}

func childMuting(t *testing.T, _ []string) {
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/c0/keep_addr_on_down", []byte("1"), 0o600))
	var muting []netChange
	for _, c := range netChanges() {
		if c.muting {
			muting = append(muting, c)
		}
	}
	families := []side{
		{railC, "10.3.0.9", "10.3.0.2", "10.3.0.1", "10.2.0.2"},
		{railC, "fd03::9", "fd03::2", "fd03::1", "fd02::2"},
	}
	for _, s := range families {
		require.NoError(t, netlink.AddrAdd(link(s.netdev), address(s.local)))
	}
	steps := []string{"before connect", "path checked", "established", "before accept"}
	policies := []Policy{PinBound, RequireRoute}
	seed, n := changesSeed(), changesAsked(40)/10
	t.Logf("told: seed %d, %d rounds", seed, n)
	rnd := rand.New(rand.NewPCG(seed, 9))
	kept, told, deaf := 0, 0, 0
	for round := range n {
		if round > 0 {
			deleteIdle(t)
			run(t, dev("rdma link add rxe9 type rxe netdev c0"))
		}
		if !iwarp() {
			for _, s := range families {
				awaitGID(t, "rxe9", netip.MustParseAddr(s.local))
				awaitGID(t, "rxe9", netip.MustParseAddr(s.other))
			}
		}
		s, pol := families[rnd.IntN(2)], policies[rnd.IntN(2)]
		c := &changer{c: muting[rnd.IntN(len(muting))], step: steps[rnd.IntN(len(steps))], back: rnd.IntN(2) == 0, s: s, patience: 3 * time.Second}
		name := fmt.Sprintf("%s, %s, %s at %q, back %t", s.local, pol, c.c.name, c.step, c.back)
		err := connectRound(t, c, pol)
		c.undo()
		require.NoError(t, c.err, name)
		require.True(t, c.done, name)
		if err == nil {
			kept++
			continue
		}
		told++
		requireTold(t, err)
		requireNamed(t, err, c.c.object(s))
		require.False(t, t.Failed(), name)
		t.Logf("told: %d: %s: %v", round, name, err)
		if after := connectRound(t, &changer{step: "none", s: s, patience: 3 * time.Second}, pol); after != nil {
			deaf++ // as the kernel leaves it
			requireTold(t, after)
		}
	}
	t.Logf("told: kept %d, told %d, and after that the device took no messages %d times", kept, told, deaf)
}

// deleteIdle deletes the device while this process has no id, and so nobody that
// the kernel tells: the next look-up lets go of it.
func deleteIdle(t *testing.T) {
	t.Helper()
	h, err := OpenHost()
	require.NoError(t, err)
	defer h.Close()
	ended := make(chan error, 1)
	go func() { ended <- exec.Command("rdma", "link", "delete", dev("rxe9")).Run() }()
	require.Eventually(t, func() bool {
		_, err := h.RDMAPorts()
		require.NoError(t, err)
		return len(ended) > 0
	}, 30*time.Second, 5*time.Millisecond, "the device is not let go of")
	require.NoError(t, <-ended)
}
