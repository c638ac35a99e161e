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
// pyverbs as of rdma-core 65 and rust-ibverbs as of its repository in 2026 (make
// api-coverage counts ours function by function, with what shows that it works).
// What is "raw" there is reached by unsafe calls on the C object:
//
//	                                              railbind  pyverbs  rust-ibverbs
//	devices, ports, GID table, extended attributes   yes      yes      yes
//	memory regions, dma-buf, advice                  yes      yes      yes
//	implicit on-demand paging, re-registration       yes      yes      raw
//	memory windows, device memory                    yes      yes      raw
//	parent domains, DMA handles                      yes      yes      raw
//	thread domains, tag matching, counters of flows  yes      no       raw
//	RC, UC, UD queue pairs, address handles, SRQ     yes      yes      yes
//	XRC, raw packets                                 yes      yes      raw
//	extended CQs and queue pairs (ibv_wr_*)          yes      yes      nothing else
//	the classic way of posting, for all providers    yes      yes      raw
//	flow steering, WQs and RSS, completion counters  yes      yes      raw
//	provider-specific verbs                          no       many     EFA's SRD
//	connection manager                               cm       yes      yes
//	a wait that a context or a deadline ends         yes      no       a deadline
//	waiting without a thread each                    yes      no       by a loop of one's own
//	memory in flight cannot be freed                 yes      no       posting is unsafe
//	a long list of requests in one crossing          yes      no       no crossing
//	builds and starts without rdma-core              yes      no       no
//
// # Errors
//
// Errors match, with errors.Is, a sentinel of this package where there is one
// and the errno that a C program would have seen.
package ibv
