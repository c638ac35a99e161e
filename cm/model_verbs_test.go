//go:build linux

package cm

import (
	"slices"
	"syscall"

	"github.com/railbind/railbind/ci/model"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// made hands what a call has made to the model.
func made[T interface{ Close() error }](c *model.Call, it T, err error) error {
	if err == nil {
		c.Made(it)
	}
	return err
}

// no leaves the result out.
func no[T any](_ T, err error) error { return err }

// verbsOps are the operations of package ibv, on two devices. A queue pair that
// fails flushes its requests, so that there is something to poll.
func verbsOps() []model.Op {
	foreign := []error{ibv.ErrForeignContext, ibv.ErrForeignPD}
	post := append(foreign, ibv.ErrQueueFull, ibv.ErrQPState)
	move := []error{ibv.ErrInvalid, ibv.ErrQPState, syscall.EINVAL} // not from every state
	return []model.Op{
		{Name: "Open", Makes: "context", Do: func(c *model.Call) error {
			x, err := ibv.Open(dev([]string{"rxe0", "rxe1"}[c.IntN(2)]))
			return made(c, x, err)
		}},
		{Name: "AllocPD", On: []string{"context"}, Makes: "PD", Do: func(c *model.Call) error {
			p, err := model.Of[*ibv.Context](c, 0).AllocPD()
			return made(c, p, err)
		}},
		{Name: "NewCompChannel", On: []string{"context"}, Makes: "channel", Do: func(c *model.Call) error {
			ch, err := model.Of[*ibv.Context](c, 0).NewCompChannel()
			return made(c, ch, err)
		}},
		{Name: "NewCompletionRing", On: []string{"context"}, Makes: "ring", Do: func(c *model.Call) error {
			r, err := model.Of[*ibv.Context](c, 0).NewCompletionRing(ibv.RingConfig{Size: 64})
			return made(c, r, err)
		}},
		{Name: "CreateCQ", On: []string{"context", "channel"}, Makes: "CQ", May: foreign, Do: func(c *model.Call) error {
			cq, err := model.Of[*ibv.Context](c, 0).CreateCQ(ibv.CQConfig{Size: 64, Channel: model.Of[*ibv.CompChannel](c, 1)})
			return made(c, cq, err)
		}},
		{Name: "CreateCQ on ring", On: []string{"context", "ring"}, Makes: "CQ", May: foreign, Do: func(c *model.Call) error {
			cq, err := model.Of[*ibv.Context](c, 0).CreateCQ(ibv.CQConfig{Size: 64, Ring: model.Of[*ibv.CompletionRing](c, 1)})
			return made(c, cq, err)
		}},
		{Name: "CreateSRQ", On: []string{"PD"}, Makes: "SRQ", Do: func(c *model.Call) error {
			s, err := model.Of[*ibv.PD](c, 0).CreateSRQ(ibv.SRQConfig{MaxRecv: 16})
			return made(c, s, err)
		}},
		{Name: "CreateQP", On: []string{"PD", "CQ", "CQ"}, Makes: "QP", May: foreign, Do: func(c *model.Call) error {
			q, err := model.Of[*ibv.PD](c, 0).CreateQP(ibv.QPConfig{SendCQ: model.Of[*ibv.CQ](c, 1), RecvCQ: model.Of[*ibv.CQ](c, 2), MaxSend: 8, MaxRecv: 8})
			return made(c, q, err)
		}},
		{Name: "CreateQP on SRQ", On: []string{"PD", "CQ", "SRQ"}, Makes: "QP", May: foreign, Do: func(c *model.Call) error {
			cq := model.Of[*ibv.CQ](c, 1)
			q, err := model.Of[*ibv.PD](c, 0).CreateQP(ibv.QPConfig{SendCQ: cq, RecvCQ: cq, SRQ: model.Of[*ibv.SRQ](c, 2), MaxSend: 8})
			return made(c, q, err)
		}},
		{Name: "AllocMR", On: []string{"PD"}, Makes: "MR", Do: func(c *model.Call) error {
			m, err := model.Of[*ibv.PD](c, 0).AllocMR(4096, ibv.LocalWrite|ibv.RemoteRead)
			return made(c, m, err)
		}},
		{Name: "Register", On: []string{"PD"}, Makes: "MR", Do: func(c *model.Call) error {
			m, err := model.Of[*ibv.PD](c, 0).Register(make([]byte, 4096), ibv.LocalWrite)
			return made(c, m, err)
		}},
		{Name: "NewBuffer", Makes: "buffer", Do: func(c *model.Call) error {
			b, err := ibv.NewBuffer(4096, ibv.BufferConfig{})
			return made(c, b, err)
		}},
		{Name: "RegisterBuffer", On: []string{"PD", "buffer"}, Makes: "MR", Do: func(c *model.Call) error {
			m, err := model.Of[*ibv.PD](c, 0).RegisterBuffer(model.Of[*ibv.Buffer](c, 1), ibv.LocalWrite)
			return made(c, m, err)
		}},
		{Name: "AllocMW", On: []string{"PD"}, Makes: "MW", Do: func(c *model.Call) error {
			w, err := model.Of[*ibv.PD](c, 0).AllocMW(ibv.MWType1 + ibv.MWType(c.IntN(2)))
			return made(c, w, err)
		}},
		{Name: "CreateAH", On: []string{"PD"}, Makes: "AH", Do: func(c *model.Call) error {
			p := model.Of[*ibv.PD](c, 0)
			rows, err := p.Context().GIDTable()
			// (Nobody answers for a link-local address of one's own.)
			n := slices.IndexFunc(rows, func(r ibv.GIDEntry) bool { return policy.GID(r.GID).Addr().Is4() })
			if err != nil || n < 0 {
				return err
			}
			a, err := p.CreateAH(ibv.AHAttr{Global: true, DGID: rows[n].GID, SGIDIndex: rows[n].Index, HopLimit: 1, Port: 1})
			return made(c, a, err)
		}},

		{Name: "QP.ToInit", On: []string{"QP"}, May: move, Do: func(c *model.Call) error {
			return model.Of[*ibv.QP](c, 0).ToInit(ibv.ConnectConfig{})
		}},
		{Name: "QP.ToError", On: []string{"QP"}, May: move, Do: func(c *model.Call) error { return model.Of[*ibv.QP](c, 0).ToError() }},
		{Name: "QP.Reset", On: []string{"QP"}, May: move, Do: func(c *model.Call) error { return model.Of[*ibv.QP](c, 0).Reset() }},
		{Name: "QP.Query", On: []string{"QP"}, Do: func(c *model.Call) error { return no(model.Of[*ibv.QP](c, 0).Query()) }},
		{Name: "QP.PostRecv", On: []string{"QP", "MR"}, Pins: true, May: append(post, ibv.ErrInvalid), Do: func(c *model.Call) error {
			return model.Of[*ibv.QP](c, 0).PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{model.Of[*ibv.MR](c, 1).SGE(0, 64)}})
		}},
		{Name: "QP.PostSend", On: []string{"QP", "MR"}, Pins: true, May: post, Do: func(c *model.Call) error {
			return model.Of[*ibv.QP](c, 0).PostSend(ibv.SendWR{SGEs: []ibv.SGE{model.Of[*ibv.MR](c, 1).SGE(64, 64)}})
		}},
		{Name: "SRQ.PostRecv", On: []string{"SRQ", "MR"}, Pins: true, May: post, Do: func(c *model.Call) error {
			return model.Of[*ibv.SRQ](c, 0).PostRecv(ibv.RecvWR{SGEs: []ibv.SGE{model.Of[*ibv.MR](c, 1).SGE(0, 64)}})
		}},
		{Name: "SRQ.SetLimit", On: []string{"SRQ"}, Do: func(c *model.Call) error { return model.Of[*ibv.SRQ](c, 0).SetLimit(c.IntN(8)) }},
		{Name: "CQ.Poll", On: []string{"CQ"}, Do: func(c *model.Call) error { return no(model.Of[*ibv.CQ](c, 0).Poll(make([]ibv.WC, 4))) }},
		{Name: "CQ.Wait", On: []string{"CQ"}, May: []error{ibv.ErrNoChannel}, Do: func(c *model.Call) error {
			return no(model.Of[*ibv.CQ](c, 0).Wait(c.Ctx, make([]ibv.WC, 4)))
		}},
		{Name: "ring.Wait", On: []string{"ring"}, Do: func(c *model.Call) error {
			return no(model.Of[*ibv.CompletionRing](c, 0).Wait(c.Ctx, make([]ibv.WC, 4)))
		}},
		{Name: "NextAsyncEvent", On: []string{"context"}, Do: func(c *model.Call) error {
			return no(model.Of[*ibv.Context](c, 0).NextAsyncEvent(c.Ctx))
		}},
		{Name: "GIDTable", On: []string{"context"}, Do: func(c *model.Call) error { return no(model.Of[*ibv.Context](c, 0).GIDTable()) }},
	}
}
