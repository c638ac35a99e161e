package cm

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/railbind/railbind/cm/policy"
)

// timed counts the time that the look-ups take, apart from the rule's own.
type timed struct {
	policy.Host
	spent time.Duration
}

func (t *timed) count(began time.Time) { t.spent += time.Since(began) }

func (t *timed) Route(q policy.Query) (policy.Route, error) {
	defer t.count(time.Now())
	return t.Host.Route(q)
}

func (t *timed) Owners(a netip.Addr) ([]policy.Interface, error) {
	defer t.count(time.Now())
	return t.Host.Owners(a)
}

func (t *timed) Interface(i int) (policy.Interface, error) {
	defer t.count(time.Now())
	return t.Host.Interface(i)
}

func (t *timed) RDMAPorts() ([]policy.RDMAPort, error) {
	defer t.count(time.Now())
	return t.Host.RDMAPorts()
}

// BenchmarkPairDecide is one decision of the rule on the real host: its own time
// beside that of its look-ups. In the guest of topology pair:
//
//	ci/guest -- bin/test/plain/cm.test -test.run NONE -test.bench PairDecide
func BenchmarkPairDecide(b *testing.B) {
	if os.Getenv("RAILBIND_TOPO") != "pair" {
		b.Skip("runs in the guest: ci/guest -topo pair")
	}
	h, err := OpenHost()
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	bound, err := policy.ResolveBinding(h, ap("10.1.0.1:0"))
	if err != nil {
		b.Fatal(err)
	}
	for name, r := range map[string]policy.Request{
		"bound":   {Binding: bound, Dst: ap("10.1.0.2:1")},
		"unbound": {Dst: ap("10.1.0.2:1")},
	} {
		b.Run(name, func(b *testing.B) {
			t, lookups := &timed{Host: h}, 0
			b.ReportAllocs()
			for b.Loop() {
				d := policy.Decide(t, r)
				if d.Err != nil {
					b.Fatal(d.Err)
				}
				lookups = d.Lookups
			}
			n := float64(b.N)
			b.ReportMetric(float64(b.Elapsed()-t.spent)/n, "rule-ns/op")
			b.ReportMetric(float64(t.spent)/n, "lookup-ns/op")
			b.ReportMetric(float64(lookups), "lookups/op")
		})
	}
}
