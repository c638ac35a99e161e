//go:build linux && cgo

package ibv

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cgo/fakeverbs"
	"github.com/railbind/railbind/ci/model"
)

// TestFakeModel: random calls on random objects of all kinds that the fake device
// has, against what the objects' lives allow; see package model.
// RAILBIND_MODEL_SEED and RAILBIND_MODEL_N choose what is drawn, and how much.
func TestFakeModel(t *testing.T) {
	f := &fakes{dev: fakeverbs.Open()}
	defer f.dev.Free()
	f.dev.Attributes(0)
	before := len(Objects())
	model.Run(t, model.Config{
		Seed: asked("RAILBIND_MODEL_SEED", 1), Calls: int(asked("RAILBIND_MODEL_N", 1000)), Ops: fakeOps(f),
		Settled: func() {
			require.Len(t, Objects(), before)
			require.Zero(t, f.dev.Alive())
			require.Zero(t, f.dev.Regions())
			require.Zero(t, f.dev.Domains())
		},
	})
}

// asked reads a number from the environment.
func asked(name string, def uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return def
}

// made hands what a call has made to the model.
func made[T interface{ Close() error }](c *model.Call, it T, err error) error {
	if err == nil {
		c.Made(it)
	}
	return err
}

func fakeOps(f *fakes) []model.Op {
	full := []error{ErrQueueFull, ErrForeignPD}
	return []model.Op{
		{Name: "Open", Makes: "context", Do: func(c *model.Call) error { return made(c, f.context(), nil) }},
		{Name: "AllocPD", On: []string{"context"}, Makes: "PD", Do: func(c *model.Call) error {
			p, err := f.pd(model.Of[*Context](c, 0))
			return made(c, p, err)
		}},
		{Name: "AllocThreadDomain", On: []string{"context"}, Makes: "TD", Do: func(c *model.Call) error {
			d, err := model.Of[*Context](c, 0).AllocThreadDomain()
			return made(c, d, err)
		}},
		{Name: "Parent", On: []string{"PD", "TD"}, Makes: "PD", Do: func(c *model.Call) error {
			p, err := model.Of[*PD](c, 0).Parent(model.Of[*ThreadDomain](c, 1))
			return made(c, p, err)
		}},
		{Name: "NewCompletionRing", On: []string{"context"}, Makes: "ring", Do: func(c *model.Call) error {
			r, err := f.ring(model.Of[*Context](c, 0))
			return made(c, r, err)
		}},
		{Name: "CreateCQ", On: []string{"context"}, Makes: "CQ", Do: func(c *model.Call) error {
			cq, err := f.cq(model.Of[*Context](c, 0), nil)
			return made(c, cq, err)
		}},
		{Name: "CreateCQ on ring", On: []string{"context", "ring"}, Makes: "CQ of ring", Do: func(c *model.Call) error {
			cq, err := f.cq(model.Of[*Context](c, 0), model.Of[*CompletionRing](c, 1))
			return made(c, cq, err)
		}},
		{Name: "CreateQP", On: []string{"PD", "CQ", "CQ"}, Makes: "QP", Do: func(c *model.Call) error {
			q, err := f.qp(model.Of[*PD](c, 0), model.Of[*fakeCQ](c, 1), model.Of[*fakeCQ](c, 2), RC)
			return made(c, q, err)
		}},
		{Name: "CreateQP on ring", On: []string{"PD", "CQ of ring", "CQ"}, Makes: "QP", Do: func(c *model.Call) error {
			q, err := f.qp(model.Of[*PD](c, 0), model.Of[*fakeCQ](c, 1), model.Of[*fakeCQ](c, 2), RC)
			return made(c, q, err)
		}},
		{Name: "CreateQP raw", On: []string{"PD", "CQ", "CQ"}, Makes: "raw QP", Do: func(c *model.Call) error {
			q, err := f.qp(model.Of[*PD](c, 0), model.Of[*fakeCQ](c, 1), model.Of[*fakeCQ](c, 2), RawPacket)
			return made(c, q, err)
		}},
		{Name: "OpenXRCD", On: []string{"context"}, Makes: "XRCD", Do: func(c *model.Call) error {
			x, err := model.Of[*Context](c, 0).OpenXRCD(nil)
			return made(c, x, err)
		}},
		{Name: "CreateSRQ", On: []string{"PD", "CQ"}, Makes: "SRQ", Do: func(c *model.Call) error {
			s, err := f.srq(model.Of[*PD](c, 0), nil, model.Of[*fakeCQ](c, 1))
			return made(c, s, err)
		}},
		{Name: "CreateSRQ of XRC", On: []string{"PD", "CQ", "XRCD"}, Makes: "XRC SRQ", Do: func(c *model.Call) error {
			s, err := f.srq(model.Of[*PD](c, 0), model.Of[*XRCD](c, 2), model.Of[*fakeCQ](c, 1))
			return made(c, s, err)
		}},
		{Name: "CreateWQ", On: []string{"PD", "CQ"}, Makes: "WQ", Do: func(c *model.Call) error {
			w, err := model.Of[*PD](c, 0).CreateWQ(model.Of[*fakeCQ](c, 1).CQ, 8, 1)
			return made(c, w, err)
		}},
		{Name: "CreateRSSTable", On: []string{"context", "WQ", "WQ"}, Makes: "RSS table", Do: func(c *model.Call) error {
			x, err := model.Of[*Context](c, 0).CreateRSSTable(model.Of[*WQ](c, 1), model.Of[*WQ](c, 2))
			return made(c, x, err)
		}},
		{Name: "CreateCounters", On: []string{"context"}, Makes: "counters", Do: func(c *model.Call) error {
			n, err := model.Of[*Context](c, 0).CreateCounters()
			return made(c, n, err)
		}},
		{Name: "CreateFlow", On: []string{"raw QP", "counters"}, Makes: "flow", Do: func(c *model.Call) error {
			w, err := model.Of[*QP](c, 0).CreateFlow(FlowConfig{Specs: []FlowSpec{FlowCount(model.Of[*Counters](c, 1))}})
			return made(c, w, err)
		}},
		{Name: "AllocDM", On: []string{"context"}, Makes: "DM", Do: func(c *model.Call) error {
			d, err := model.Of[*Context](c, 0).AllocDM(256, 0)
			return made(c, d, err)
		}},
		{Name: "RegisterDM", On: []string{"PD", "DM"}, Makes: "MR", Do: func(c *model.Call) error {
			m, err := model.Of[*PD](c, 0).RegisterDM(model.Of[*DeviceMemory](c, 1), 0, 128, LocalWrite)
			return made(c, m, err)
		}},
		{Name: "AllocNullMR", On: []string{"PD"}, Makes: "MR", Do: func(c *model.Call) error {
			m, err := model.Of[*PD](c, 0).AllocNullMR()
			return made(c, m, err)
		}},
		{Name: "NewBuffer", Makes: "buffer", Do: func(c *model.Call) error {
			b, err := NewBuffer(4096, BufferConfig{})
			return made(c, b, err)
		}},

		{Name: "PostRecv", On: []string{"QP", "MR"}, Pins: true, May: full, Do: func(c *model.Call) error {
			return model.Of[*QP](c, 0).PostRecv(RecvWR{SGEs: []SGE{model.Of[*MR](c, 1).SGE(0, 64)}})
		}},
		{Name: "PostSend", On: []string{"QP", "MR"}, Pins: true, May: full, Do: func(c *model.Call) error {
			return model.Of[*QP](c, 0).PostSend(SendWR{SGEs: []SGE{model.Of[*MR](c, 1).SGE(64, 8)}})
		}},
		{Name: "AddTag", On: []string{"SRQ", "MR"}, Pins: true, May: full, Do: func(c *model.Call) error {
			_, err := model.Of[*SRQ](c, 0).AddTag(TagRecv{SGEs: []SGE{model.Of[*MR](c, 1).SGE(0, 8)}}, TagUpdate{})
			return err
		}},
		{Name: "WQ.Modify", On: []string{"WQ"}, Do: func(c *model.Call) error { return model.Of[*WQ](c, 0).Modify(WQReady) }},
		{Name: "Counters.Read", On: []string{"counters"}, Do: func(c *model.Call) error {
			return model.Of[*Counters](c, 0).Read(make([]uint64, 2), c.IntN(2) == 0)
		}},
		{Name: "DeviceMemory.WriteAt", On: []string{"DM"}, Do: func(c *model.Call) error {
			return second(model.Of[*DeviceMemory](c, 0).WriteAt(make([]byte, 8), 8))
		}},
		{Name: "CQ.Poll", On: []string{"CQ"}, Do: func(c *model.Call) error {
			return second(model.Of[*fakeCQ](c, 0).Poll(make([]WC, 2)))
		}},
		{Name: "CQ.Wait", On: []string{"CQ"}, Do: func(c *model.Call) error {
			return second(model.Of[*fakeCQ](c, 0).Wait(c.Ctx, make([]WC, 2)))
		}},
		{Name: "ring.Wait", On: []string{"ring"}, Do: func(c *model.Call) error {
			return second(model.Of[*CompletionRing](c, 0).Wait(c.Ctx, make([]WC, 2)))
		}},
	}
}
