//go:build linux

package oracle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
)

// Claim is what railbind says about a call: before the kernel is asked, from
// look-ups alone, and by an ID that makes the steps.
type Claim struct {
	Bound     policy.Binding  // where there is a bind
	Predicted []policy.Target // where accepted
	Err       error           // why refused, by look-ups alone
	Flags     string          // Overridden, AssumedOnLink
	Real      policy.Binding  // of the ID at the end
	RealErr   error           // why the ID refused or failed
	PathMTU   int
}

// Accepted says whether the look-ups accept the call.
func (c Claim) Accepted() bool { return c.Err == nil }

// String returns the claim on one line.
func (c Claim) String() string {
	if c.Err != nil {
		return "refused: " + c.Err.Error()
	}
	var places []string
	for _, p := range c.Predicted {
		places = append(places, fmt.Sprintf("%s on %s", p.Device, p.Netdev))
	}
	return "accepted" + c.Flags + ": " + strings.Join(places, " or ")
}

// claim asks railbind twice: policy.Decide with this host's look-ups, and an ID.
func (m *Machine) claim(ctx context.Context, c Call) (out Claim, err error) {
	out.decide(m.look, c)
	// The kernel may still be adding routes of addresses that it has just been
	// given: then the ID says so, and does as a Dialer does.
	for range 3 {
		if err = m.real(ctx, c, &out); err != nil || !errors.Is(out.RealErr, policy.ErrChanged) {
			break
		}
	}
	return out, err
}

// real makes the call on an ID.
func (m *Machine) real(ctx context.Context, c Call, out *Claim) error {
	space := cm.PortSpaceTCP
	if c.PortSpace == policy.PortSpaceUDP {
		space = cm.PortSpaceUDP
	}
	id, err := cm.NewID(cm.IDConfig{
		PortSpace: space, Policy: c.Policy, AllowLocalCrossing: c.LocalCrossing, RequireOnLinkRoute: c.RequireOnLink,
		Timeouts: cm.Timeouts{ResolveAddr: patience, ResolveRoute: patience},
	})
	if err != nil {
		return err
	}
	out.RealErr = steps(ctx, id, c)
	out.Real = id.Binding()
	return id.Close()
}

func (c *Claim) decide(h policy.Host, call Call) {
	if call.Bind.IsValid() {
		c.Bound, c.Err = policy.ResolveBinding(h, call.Bind)
		if c.Err != nil {
			return
		}
		if c.Bound.Addr.Port() == 0 {
			// The kernel will choose one.
			c.Bound.Addr = netip.AddrPortFrom(c.Bound.Addr.Addr(), 1)
		}
	}
	d := policy.Decide(h, policy.Request{
		Policy: call.Policy, Binding: c.Bound, Src: call.Src, Dst: call.Dst, PortSpace: call.PortSpace,
		AllowLocalCrossing: call.LocalCrossing, RequireOnLinkRoute: call.RequireOnLink,
	})
	c.Err, c.Predicted = d.Err, d.Predicted
	if d.Overridden {
		c.Flags += ", overriding the route"
	}
	if d.AssumedOnLink {
		c.Flags += ", assumed on-link"
	}
}

func steps(ctx context.Context, id *cm.ID, c Call) error {
	if c.Bind.IsValid() {
		if err := id.Bind(c.Bind); err != nil {
			return err
		}
	}
	if err := id.ResolveAddr(ctx, c.Src, c.Dst); err != nil {
		return err
	}
	return id.ResolveRoute(ctx)
}
