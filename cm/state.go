package cm

import "strconv"

// State is where an id stands.
type State uint8

// The states of an id. Poisoned follows a failed kernel step: the kernel keeps
// hidden state of the failure, so only Close is allowed.
const (
	StateIdle State = iota
	StateBoundWildcard
	StateBoundDevice
	StateListening
	StateRequested
	StateResolving
	StateAddrResolved
	StateRouteResolved
	StateConnecting
	StateResponded // the peer has answered a Connect with a QP of the caller's own: Establish is next
	StateConnected
	StateDisconnected
	StateRemoved
	StatePoisoned
	StateDestroyed
)

var stateNames = [...]string{
	"Idle", "BoundWildcard", "BoundDevice", "Listening", "Requested", "Resolving",
	"AddrResolved", "RouteResolved", "Connecting", "Responded", "Connected", "Disconnected",
	"Removed", "Poisoned", "Destroyed",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}
