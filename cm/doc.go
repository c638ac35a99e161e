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
//	Bind             Idle
//	Listen           BoundWildcard, BoundDevice
//	GetRequest       Listening
//	ResolveAddr      Idle, BoundWildcard, BoundDevice
//	ResolveRoute     AddrResolved
//	ResolveAddrInfo  Idle, BoundWildcard, BoundDevice
//	ResolveService   BoundDevice
//	CreateQP         BoundDevice, Requested, AddrResolved, RouteResolved
//	Connect          RouteResolved; TCP: with a queue pair
//	Accept           Requested; TCP: with a queue pair
//	StartAccept      Requested; TCP: with a queue pair
//	FinishAccept     Connecting
//	Reject           Requested
//	RejectECE        Requested
//	Establish        Responded; with its queue pair in RTS
//	Disconnect       Connected, Disconnected
//	JoinMulticast    BoundDevice, AddrResolved; UDP, IPoIB
//	SetLocalECE      Idle, BoundDevice, Requested, AddrResolved, RouteResolved
//	Migrate          all but Listening, Resolving, Removed, Poisoned, Destroyed
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
// # What is there
//
// What rdma/rdma_cma.h offers, and what pyverbs (its CMID, as of rdma-core 65) and
// rust-ibverbs (its feature rdmacm, as of its repository in 2026) make of it; what
// is "raw" there is reached by unsafe calls on the C object:
//
//	                                   railbind     pyverbs      rust-ibverbs  rdma_cma.h
//	a bound id keeps its device        or an error  no           no            no
//	port spaces TCP and IB             yes          yes          yes           yes
//	UDP and IPoIB, multicast           yes          yes          no groups     yes
//	queue pairs made by the id         yes          yes          no            yes
//	queue pairs of one's own           yes          yes          yes           yes
//	options of an id                   yes          of one byte  raw           yes
//	ECE                                yes          yes          raw           yes
//	Migrate, Notify                    yes          no           raw           yes
//	rdma_getaddrinfo                   beside Go's  yes          no            yes
//	several ids on a channel           yes          yes          no            yes
//	a context or deadline ends a step  yes          no           its helpers   no
//	waiting without a thread each      yes          no           own loop      own loop
//	private data that is too long      an error     cut          an error      EINVAL
//	why a peer rejected                an error     no           a number      a number
//	events are acknowledged            always       on close     on drop       by the caller
//	a call in the wrong state          an error     errno        errno         errno
//
// # What the rule costs
//
// The rule costs look-ups, because what it says must hold at every step: on a
// host with two RDMA devices a bound dial makes up to 36 netlink requests and an
// unbound one 13, a few milliseconds of a connection that takes several round
// trips of the connection manager. They are made before the connection is there
// and never after. While the kernel tells of no change (a socket that is read
// before each look-up), an answer of the last 100 ms is as good as a new one, and
// many dials at once share them; a route through a gateway is looked up each time.
//
// The rule itself is package cm/policy, pure Go and testable without RDMA; its
// [Decision] says which device and path a connection will use and why.
package cm
