//go:build linux

package route

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// TestJournal: what comes and goes is told afterwards, in order.
func TestJournal(t *testing.T) {
	s := newPair(t)
	m := s.Mark()
	require.Empty(t, s.Since(m))
	asked := s.Requests()
	require.Empty(t, s.Since(m))
	require.Equal(t, asked, s.Requests(), "where nothing changed, nothing is asked")

	var want []string
	for _, c := range []struct{ do, told string }{
		{"route add fd01::99/128 dev a0", "route fd01::99/128 dev a0 table 254 added"},
		{"route add 10.97.0.0/24 via 10.1.0.2", "route 10.97.0.0/24 via 10.1.0.2 dev a0 table 254 added"},
		{"route del fd01::99/128 dev a0", "route fd01::99/128 dev a0 table 254 deleted"},
		{"route add blackhole 10.98.0.0/24 table 1000", "route blackhole 10.98.0.0/24 table 1000 added"},
		{"route add ::/0 dev a0 metric 5", "route ::/0 dev a0 table 254 added"},
		{"rule add from 10.1.0.1 lookup 100 pref 77", "rule 77 from 10.1.0.1/32 table 100 added"},
		{"rule add from fd01::1 lookup 100 pref 78", "rule 78 from fd01::1/128 table 100 added"},
		{"rule del from 10.1.0.1 lookup 100 pref 77", "rule 77 from 10.1.0.1/32 table 100 deleted"},
		{"rule add to 10.97.0.0/24 prohibit pref 79", "rule 79 to 10.97.0.0/24 added"},
		{"nexthop add id 7 via 10.1.0.2 dev a0", "nexthop object 7 added"},
		{"addr add 10.9.0.1/24 dev a0", "address 10.9.0.1 of a0 added"},
		{"link set a0 mtu 1400", "link a0 changed (up, MTU 1400)"},
		{"link set a0 down", "link a0 changed (down, MTU 1400)"},
	} {
		s.ip(t, c.do)
		want = append(want, c.told)
	}
	var got []string
	for _, c := range s.Since(m) {
		got = append(got, c.String())
	}
	require.Subset(t, got, want)
	require.Empty(t, s.Since(s.Mark()))
}

// TestJournalFull: what was too much to keep is told as such.
func TestJournalFull(t *testing.T) {
	s := newPair(t)
	m := s.Mark()
	for range 3 * keep {
		s.journal.add(policy.Change{Kind: policy.RuleChange})
	}
	got := s.Since(m)
	require.Equal(t, policy.ChangesLost, got[0].Kind)
	require.GreaterOrEqual(t, len(got), keep)

	closed := newPair(t)
	m = closed.Mark()
	require.NoError(t, closed.Close())
	require.Equal(t, policy.ChangesLost, closed.Since(m)[0].Kind)
}
