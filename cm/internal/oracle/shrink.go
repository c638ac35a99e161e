//go:build linux

package oracle

import (
	"slices"

	"github.com/railbind/railbind/cm/policy"
)

// Shrink looks for the smallest case that is of the same class for the same
// reason: it leaves steps and options out, one at a time, as long as one can be.
func (r *Runner) Shrink(found Result) (Result, error) {
	for {
		smaller, err := r.smaller(found)
		if err != nil || smaller == nil {
			return found, err
		}
		found = *smaller
	}
}

// smaller returns the first case that is one thing less, nil where there is none.
func (r *Runner) smaller(found Result) (*Result, error) {
	for _, c := range found.reductions() {
		taken, err := r.Set(c.Steps)
		if err != nil {
			return nil, err
		}
		if len(taken) != len(c.Steps) {
			continue // a step needed the one that was left out
		}
		got, err := r.Try(c.Steps, c.Call)
		if err != nil {
			return nil, err
		}
		if got.kind() == found.kind() {
			return &got, nil
		}
	}
	return nil, nil
}

func (r Result) reductions() (out []Case) {
	for i := range slices.Backward(r.Steps) {
		steps := slices.Delete(slices.Clone(r.Steps), i, i+1)
		out = append(out, Case{steps, r.Case.Call})
	}
	for i, s := range r.Steps {
		for _, simple := range simpler(s) {
			steps := slices.Clone(r.Steps)
			steps[i] = simple
			out = append(out, Case{steps, r.Case.Call})
		}
	}
	for _, c := range r.Case.Call.simpler() {
		out = append(out, Case{r.Steps, c})
	}
	return out
}

// simpler returns a route without one of its parts, a group without one member.
func simpler(s Step) (out []Step) {
	if object, ok := s.(Nexthop); ok && len(object.Group) > 1 {
		for i := range object.Group {
			less := object
			less.Group = slices.Delete(slices.Clone(object.Group), i, i+1)
			out = append(out, less)
		}
		return out
	}
	route, ok := s.(Route)
	if !ok {
		return nil
	}
	for _, part := range []func(*Route){
		func(r *Route) { r.Metric = 0 },
		func(r *Route) { r.Table = 0 },
		func(r *Route) { r.Src = Route{}.Src },
		func(r *Route) { r.Via = Route{}.Via },
	} {
		less := route
		if part(&less); less.String() != route.String() {
			out = append(out, less)
		}
	}
	for i := range route.Hops {
		if len(route.Hops) > 2 {
			less := route
			less.Hops = slices.Delete(slices.Clone(route.Hops), i, i+1)
			out = append(out, less)
		}
	}
	return out
}

func (c Call) simpler() (out []Call) {
	for _, part := range []func(*Call){
		func(c *Call) { c.Src = Call{}.Src },
		func(c *Call) { c.LocalCrossing = false },
		func(c *Call) { c.RequireOnLink = false },
		func(c *Call) { c.Policy = 0 },
		func(c *Call) { c.PortSpace = policy.PortSpaceTCP },
	} {
		less := c
		if part(&less); less != c {
			out = append(out, less)
		}
	}
	return out
}
