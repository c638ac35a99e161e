// Package ibv is the verbs API: devices, protection domains, memory regions,
// completion queues and queue pairs, without a connection manager. Package cm
// builds on it; address exchange by hand works too.
//
// # Ownership
//
// Objects form a tree: a Context owns PDs, completion channels and CQs, a PD
// owns memory regions and queue pairs, and a queue pair also hangs on its CQs. A
// child holds its parents. Close is idempotent, safe on nil and for concurrent
// use, and waits for the calls in flight; where children are left it refuses
// with a *BusyError that names them. Calls on an object that is nil, zero or
// closed return an error that matches ErrClosed, also while another goroutine
// closes it.
//
// Nothing is freed behind the program's back: an object that is dropped without
// Close stays, and with it the memory that a device may write. Objects and
// TraceObjects help to find such leaks.
//
// # Memory in flight
//
// A memory region that a posted request uses cannot be closed (ErrBusy) until
// the request's completion was polled, or its queue pair was closed. Receives
// complete in order; a send's completion also retires the unsignalled sends
// before it. After an error of the queue pair, sends whose success nobody
// reported keep their regions busy until the queue pair is closed.
//
// # What a queue pair does in which state
//
//	state   PostSend, SendBatch.Post   PostRecv, RecvBatch.Post   leads to
//	RESET   ErrQPState                 ErrQPState                 INIT
//	INIT    ErrQPState                 waits for the peer         RTR
//	RTR     ErrQPState                 yes                        RTS
//	RTS     yes                        yes                        SQD
//	SQD     waits for RTS              yes                        RTS
//	SQE     flushed at once            yes                        RTS (UC, UD)
//	ERR     flushed at once            flushed at once            RESET
//
// Every state leads to RESET and ERR too. A Modify that no transition allows, or
// that lacks an attribute, is refused with the attribute's name.
//
// # What is there
//
// The verbs of infiniband/verbs.h, beside the two bindings that are used most,
// as far as their documentation tells (make api-coverage counts ours function by
// function, with what shows that it works):
//
//	                                              railbind  pyverbs  rust-ibverbs
//	devices, ports, GID table, extended attributes   yes      yes      in part
//	memory regions, on-demand paging, advice         yes      yes      regions
//	memory windows, device memory, dma-buf           yes      yes      no
//	parent and thread domains                        yes      yes      no
//	RC, UC, UD queue pairs, address handles          yes      yes      RC, UC, UD
//	XRC, raw packets, SRQ                            yes      yes      no
//	extended CQs and queue pairs (ibv_wr_*)          yes      yes      no
//	flow steering, WQs and RSS, counters             yes      yes      no
//	tag matching                                     yes      yes      no
//	provider-specific verbs (mlx5dv, efadv)          no       yes      no
//	connection manager                               cm       yes      no
//	waiting on the runtime's poller, with a context  yes      no       no
//	memory in flight cannot be freed                 yes      no       no
//	one crossing for a batch, none for a list        yes      no       no crossing
//	a bound id keeps its device                      cm       no       no
//
// # Errors
//
// Errors match, with errors.Is, a sentinel of this package where there is one
// and the errno that a C program would have seen.
package ibv
