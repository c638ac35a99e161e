//go:build linux

package oracle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/policy"
)

// Class is how a prediction stands to the truth.
type Class string

// The classes. Of Wrong and Disagree there must be none.
const (
	Right      Class = "accepted, and on the promised device and path"
	Wrong      Class = "accepted, and wrong"
	Disagree   Class = "decided otherwise by the ID than by look-ups"
	Needed     Class = "refused, and needed"
	Needless   Class = "refused without need"
	OtherErrno Class = "refused, with another errno than the kernel's"
)

// Classes are all of them, in the order of the table.
var Classes = []Class{Right, Wrong, Disagree, Needed, Needless, OtherErrno}

// good says that a class needs no look.
func (c Class) good() bool { return c == Right || c == Needed }

// Result is a case with both sides.
type Result struct {
	Case
	Class Class
	Why   string // what makes it this class
	Claim Claim
	Evidence
}

// Runner runs cases on one machine.
type Runner struct {
	m   *Machine
	raw *raw
}

// NewRunner opens the machine and a raw event channel.
func NewRunner() (*Runner, error) {
	m, err := Open()
	if err != nil {
		return nil, err
	}
	r, err := newRaw()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &Runner{m, r}, nil
}

// Close takes the last host down.
func (r *Runner) Close() error { return errors.Join(r.raw.close(), r.m.Close()) }

// Set makes the machine a host; see Machine.Set.
func (r *Runner) Set(steps []Step) ([]Step, error) { return r.m.Set(steps) }

// Try makes one call on the host that is set up, of these steps.
func (r *Runner) Try(steps []Step, c Call) (Result, error) {
	out := Result{Case: Case{steps, c}}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	var err error
	if out.Claim, err = r.m.claim(ctx, c); err != nil {
		return out, err
	}
	if out.Evidence, err = r.evidence(steps, c); err != nil {
		return out, err
	}
	out.Class, out.Why = out.compare()
	return out, nil
}

func (r *Runner) evidence(steps []Step, c Call) (e Evidence, err error) {
	e = Evidence{Call: c, Owners: r.m.owner, Member: r.m.member}
	if e.Kernel, err = r.raw.try(r.m, c); err != nil {
		return e, err
	}
	local, dst := unmap(c.local()), unmap(c.Dst)
	if iwarp && !specific(local) && e.Kernel.Failed == "" {
		local = e.Kernel.Local
	}
	switch {
	case local.IsValid() && local.Addr().Is4() != dst.Addr().Is4() || linkLocal(dst.Addr()):
		return e, nil
	case linkLocal(local.Addr()):
		e.Habit = r.m.table(local.Addr().WithZone(""), dst.Addr())
	default:
		if !specific(local) {
			local = netip.AddrPort{}
		}
		e.Habit, err = r.m.habit(local, dst, multipath(steps))
	}
	if err != nil {
		return e, err
	}
	if dev := e.netdev(); dev != "" {
		e.Habit.OnLink, e.Habit.BroadcastHere = r.m.onLink(local.Addr(), dst.Addr(), dev)
	}
	return e, nil
}

func multipath(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		route, _ := s.(Route)
		object, _ := s.(Nexthop)
		return len(route.Hops) > 0 || len(object.Group) > 0
	})
}

// kind names an error of railbind: its sentinel, or else its errno.
func kind(err error) string {
	if err == nil {
		return "accepted"
	}
	if name := policy.SentinelName(err); name != "" {
		return name
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	return unix.ErrnoName(errno)
}

// compare says of which class a result is, and why.
func (r Result) compare() (Class, string) {
	c := r.Claim
	if errors.Is(c.Err, policy.ErrAmbiguousDevice) && r.Kernel.Bound {
		// Look-ups cannot tell where it will be bound; once it is, the ID can.
		if c.RealErr == nil && !r.Kernel.at(c.Real.Device, c.Real.Netdev) {
			return Wrong, fmt.Sprintf("the ID says %s", c.Real)
		}
		c.RealErr = c.Err
	}
	switch {
	case kind(c.Err) != kind(c.RealErr):
		return Disagree, fmt.Sprintf("by look-ups %s, by the ID %s", kind(c.Err), kind(c.RealErr))
	}
	forbidden := r.judge()
	if c.Err != nil {
		if forbidden == "" {
			return Needless, kind(c.Err)
		}
		if k := r.Kernel; k.Failed != "" && errors.Is(c.Err, policy.ErrNoRoute) && !errors.Is(c.Err, k.Errno) {
			return OtherErrno, "the kernel's is " + unix.ErrnoName(k.Errno)
		}
		return Needed, forbidden
	}
	if forbidden != "" {
		return Wrong, forbidden
	}
	promised := func(t policy.Target) bool { return r.Kernel.at(t.Device, t.Netdev) }
	switch {
	case !slices.ContainsFunc(c.Predicted, promised):
		return Wrong, "not where it was promised"
	case len(c.Predicted) > 1 && !multipath(r.Steps):
		return Wrong, "several places promised without multipath"
	case !r.Kernel.at(c.Real.Device, c.Real.Netdev):
		return Wrong, fmt.Sprintf("the ID says %s", c.Real)
	}
	return Right, ""
}

// String returns the case as commands and what each side says.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Class, r.Why)
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "  %s\n", command(s))
	}
	fmt.Fprintf(&b, "  call:     %s\n  railbind: %s\n", r.Case.Call, r.Claim)
	if r.Claim.RealErr != nil {
		fmt.Fprintf(&b, "  the ID:   %v\n", r.Claim.RealErr)
	} else {
		fmt.Fprintf(&b, "  the ID:   %s\n", r.Claim.Real)
	}
	fmt.Fprintf(&b, "  kernel:   %s\n  host:     %s\n", r.Kernel, r.Habit)
	return b.String()
}

// kind is what results of one cause have in common.
func (r Result) kind() string { return string(r.Class) + ": " + r.Why }
