// Package cm is the RDMA connection manager with one rule on top: an id that
// was bound to a device keeps that device, whatever the routing table says, and
// where the kernel cannot keep it, the call is refused at once with the reason
// and the remedy.
//
// A [Dialer] gives a connected [Conn]; a [Listener] gives [Request] values that
// become one. Below them stands [ID], the cm_id itself, one call per step:
//
//	Idle -> BoundDevice -> Resolving -> AddrResolved -> RouteResolved -> Connecting -> Connected
//
// Every step that waits takes a context, and a deadline of its own bounds it
// when the context has none. A failed kernel step poisons the id: only Close is
// allowed after it, because the kernel keeps hidden state of the failure.
//
// # What an ID may do in which state
//
//	Bind           Idle
//	Listen         BoundWildcard, BoundDevice
//	GetRequest     Listening
//	ResolveAddr    Idle, BoundWildcard, BoundDevice
//	ResolveRoute   AddrResolved
//	CreateQP       BoundDevice, Requested, AddrResolved, RouteResolved
//	Connect        RouteResolved; TCP: with a queue pair
//	Accept         Requested; TCP: with a queue pair
//	StartAccept    Requested; TCP: with a queue pair
//	FinishAccept   Connecting
//	Reject         Requested
//	RejectECE      Requested
//	Establish      Responded; with its queue pair in RTS
//	Disconnect     Connected, Disconnected
//	JoinMulticast  BoundDevice, AddrResolved; UDP, IPoIB
//	SetLocalECE    Idle, BoundDevice, Requested, AddrResolved, RouteResolved
//	Migrate        all but Listening, Resolving, Removed, Poisoned, Destroyed
//
// In any other state the call is ErrState and changes nothing; while a step is
// under way ErrConcurrent, and once the id is over what has ended it: ErrDisconnected,
// [ibv.ErrDeviceRemoved], ErrPoisoned (after a failed step of the kernel),
// ErrClosed. Close may be called in every state, at any moment, by anybody.
//
// A Listener accepts until Close, or until its device is removed; each Request is
// answered once, and what comes after Close is ErrClosed. A Conn sends and receives
// until either end closes, the device goes or its queue pair fails: Recv then
// still gives what had arrived, all others say what has ended it, as Conn.Err does.
//
// # What the rule costs
//
// The rule costs look-ups, because what it says must hold at every step: on a
// host with two RDMA devices a bound dial makes 36 netlink requests and an
// unbound one 13, a few milliseconds of a connection that takes several round
// trips of the connection manager. They are made before the connection is there
// and never after.
//
// The rule itself is package cm/policy, pure Go and testable without RDMA; its
// [Decision] says which device and path a connection will use and why.
package cm
