package cm

import "github.com/railbind/railbind/cm/policy"

// Policy says what the routing table may do to a connection; see package
// policy for the table.
type Policy = policy.Policy

// The policies. Auto, the zero value, is PinBound where the id is bound to a
// device or a local address or device is given, and FollowRoute otherwise.
const (
	Auto         = policy.Auto
	PinBound     = policy.PinBound
	RequireRoute = policy.RequireRoute
	FollowRoute  = policy.FollowRoute
)

// Decision says which device and path a connection uses, and why; or why not.
type Decision = policy.Decision

// Binding says to what an id is bound.
type Binding = policy.Binding

// PolicyError is a refusal of the binding rule, with everything it saw.
type PolicyError = policy.Error

// The errors of the binding rule; each matches with errors.Is itself and the
// errno in its comment.
var (
	ErrRouteMismatch        = policy.ErrRouteMismatch        // EHOSTUNREACH
	ErrDeviceSplit          = policy.ErrDeviceSplit          // EHOSTUNREACH
	ErrChanged              = policy.ErrChanged              // EHOSTUNREACH
	ErrNoRoute              = policy.ErrNoRoute              // errno of the route
	ErrSourceConflict       = policy.ErrSourceConflict       // EINVAL
	ErrScope                = policy.ErrScope                // EINVAL
	ErrPoisoned             = policy.ErrPoisoned             // EINVAL
	ErrLoopbackDst          = policy.ErrLoopbackDst          // EADDRNOTAVAIL
	ErrAmbiguousDevice      = policy.ErrAmbiguousDevice      // ENOTUNIQ
	ErrNotRDMA              = policy.ErrNotRDMA              // ENODEV
	ErrNotLocal             = policy.ErrNotLocal             // EADDRNOTAVAIL
	ErrNotBound             = policy.ErrNotBound             // EINVAL
	ErrAlreadyBound         = policy.ErrAlreadyBound         // EINVAL
	ErrBindingLost          = policy.ErrBindingLost          // EADDRNOTAVAIL
	ErrFamilyMismatch       = policy.ErrFamilyMismatch       // EAFNOSUPPORT
	ErrKernelBindRegression = policy.ErrKernelBindRegression // EADDRNOTAVAIL
	ErrTransport            = policy.ErrTransport            // EOPNOTSUPP
	ErrLookup               = policy.ErrLookup               // errno of the cause
)
