package ibv

import (
	"encoding/binary"
	"fmt"

	"github.com/railbind/railbind/cgo"
)

// WC is a work completion, as the device reported it. Slices of it are what
// Poll fills; its values may be copied.
type WC struct{ w cgo.WC }

// ID is the request's: the 64 bits are the program's own.
func (w *WC) ID() uint64 { return w.w.ID }

// Status is WCSuccess, or what went wrong.
func (w *WC) Status() WCStatus { return WCStatus(w.w.Status) }

// OK reports whether the request succeeded.
func (w *WC) OK() bool { return w.w.Status == 0 }

// QPNum is the number of the queue pair, also in an error.
func (w *WC) QPNum() uint32 { return w.w.QPNum }

// Err is nil for a request that succeeded, and a *WCError otherwise. Nothing but
// ID, QPNum, Queue and the error means anything then.
func (w *WC) Err() error {
	if w.OK() {
		return nil
	}
	return &WCError{Status: w.Status(), VendorErr: w.w.VendorErr, QPNum: w.w.QPNum, ID: w.w.ID, Queue: w.Queue()}
}

// Opcode tells what completed; WCInvalid in an error, where the device leaves it
// undefined.
func (w *WC) Opcode() WCOpcode {
	if !w.OK() {
		return WCInvalid
	}
	return WCOpcode(w.w.Opcode)
}

// Len is how many bytes were received, or read; 0 in an error. It is undefined
// for the other send opcodes.
func (w *WC) Len() int {
	if !w.OK() {
		return 0
	}
	return int(w.w.ByteLen)
}

// Imm is the immediate data that came with a received message, in host order,
// and whether there was any.
func (w *WC) Imm() (uint32, bool) {
	const withImm = 1 << 1
	if !w.OK() || w.w.Flags&withImm == 0 {
		return 0, false
	}
	return binary.BigEndian.Uint32(w.w.Imm[:]), true
}

// SrcQP is the number of the queue pair that sent a datagram.
func (w *WC) SrcQP() uint32 { return w.w.SrcQP }

// GRH reports whether the first GRHSize bytes of a datagram's receive buffer tell
// where it came from.
func (w *WC) GRH() bool { return w.OK() && w.w.Flags&(1<<0) != 0 }

// Invalidated is the key that a SEND with invalidate of the peer's made invalid
// here, and whether it was one. Soft-iWARP does not tell.
func (w *WC) Invalidated() (rkey uint32, ok bool) {
	const withInv = 1 << 3
	if !w.OK() || w.w.Flags&withInv == 0 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(w.w.Imm[:]), true
}

// PKeyIndex is, like SLID, SL and DLIDPathBits, what InfiniBand tells of a
// datagram's way here.
func (w *WC) PKeyIndex() uint16 { return w.w.PKeyIndex }

// SLID is the sender's LID; see PKeyIndex.
func (w *WC) SLID() uint16 { return w.w.SLID }

// SL is the service level; see PKeyIndex.
func (w *WC) SL() uint8 { return w.w.SL }

// DLIDPathBits are the low bits of the own LID that it was sent to; see PKeyIndex.
func (w *WC) DLIDPathBits() uint8 { return w.w.DLIDPathBits }

// Queue tells which queue the request was on. In an error it is known where the
// CQ serves one queue of the QP, or the other one was empty.
func (w *WC) Queue() Queue {
	switch {
	case w.w.Opcode == cgo.OpcodeUnknown:
		return UnknownQueue
	case w.w.Opcode&cgo.OpcodeRecv != 0:
		return RecvQueue
	}
	return SendQueue
}

// Queue is one of the two work queues of a queue pair.
type Queue uint8

// Queues.
const (
	UnknownQueue Queue = iota
	SendQueue
	RecvQueue
)

func (q Queue) String() string {
	return name("Queue", map[Queue]string{UnknownQueue: "unknown queue", SendQueue: "send queue", RecvQueue: "receive queue"}, q)
}

// WCOpcode is what a completed request did.
type WCOpcode uint32

// Opcodes of completions.
const (
	WCSend        WCOpcode = 0
	WCWrite       WCOpcode = 1
	WCRead        WCOpcode = 2
	WCCompSwap    WCOpcode = 3
	WCFetchAdd    WCOpcode = 4
	WCBindMW      WCOpcode = 5
	WCLocalInv    WCOpcode = 6
	WCTSO         WCOpcode = 7
	WCFlush       WCOpcode = 8
	WCAtomicWrite WCOpcode = 9
	WCRecv        WCOpcode = 128
	WCRecvWithImm WCOpcode = 129 // the peer's WRITE with immediate data
	WCInvalid     WCOpcode = 0xffffffff
)

func (o WCOpcode) String() string {
	return name("WCOpcode", map[WCOpcode]string{WCSend: "SEND", WCWrite: "WRITE", WCRead: "READ",
		WCCompSwap: "COMP_SWAP", WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV",
		WCTSO: "TSO", WCFlush: "FLUSH", WCAtomicWrite: "ATOMIC_WRITE",
		WCRecv: "RECV", WCRecvWithImm: "RECV_WITH_IMM", WCInvalid: "invalid"}, o)
}

// WCStatus is the outcome of a request. As an error it is the sentinel that a
// *WCError matches: errors.Is(err, ibv.WCFlushErr).
type WCStatus uint32

// Outcomes of a request.
const (
	WCSuccess          WCStatus = 0
	WCLocLenErr        WCStatus = 1  // message longer than the receive buffer, or than allowed
	WCLocQPOpErr       WCStatus = 2  // the request contradicts the QP
	WCLocEECOpErr      WCStatus = 3  // reliable datagram only
	WCLocProtErr       WCStatus = 4  // an SGE without a region, or without the right
	WCFlushErr         WCStatus = 5  // the QP went to ERR before the request was done
	WCMWBindErr        WCStatus = 6  // memory window refused
	WCBadRespErr       WCStatus = 7  // the peer answered what nobody asked
	WCLocAccessErr     WCStatus = 8  // a WRITE with immediate data was not allowed here
	WCRemInvReqErr     WCStatus = 9  // the peer refused the request as invalid; rxe: also what Access forbids
	WCRemAccessErr     WCStatus = 10 // the peer refused the memory, key or right
	WCRemOpErr         WCStatus = 11 // the peer failed
	WCRetryExcErr      WCStatus = 12 // the peer never acknowledged
	WCRNRRetryExcErr   WCStatus = 13 // the peer had no receive posted
	WCLocRDDViolErr    WCStatus = 14 // reliable datagram only
	WCRemInvRDReqErr   WCStatus = 15 // reliable datagram only
	WCRemAbortErr      WCStatus = 16 // the peer aborted
	WCInvEECNErr       WCStatus = 17 // reliable datagram only
	WCInvEECStateErr   WCStatus = 18 // reliable datagram only
	WCFatalErr         WCStatus = 19 // the device failed
	WCRespTimeoutErr   WCStatus = 20 // the peer did not respond
	WCGeneralErr       WCStatus = 21 // anything else
	WCTMErr            WCStatus = 22 // tag matching
	WCTMRndvIncomplete WCStatus = 23 // tag matching: rendezvous left to software
)

var statusText = map[WCStatus]string{
	WCSuccess:          "success",
	WCLocLenErr:        "local length error: a message did not fit its receive buffer, or was longer than allowed",
	WCLocQPOpErr:       "local QP operation error: the request contradicts the queue pair's set-up",
	WCLocEECOpErr:      "local EE context operation error",
	WCLocProtErr:       "local protection error: an SGE is outside its region, or the region lacks the right",
	WCFlushErr:         "flushed: the queue pair went to the error state first",
	WCMWBindErr:        "memory window bind error",
	WCBadRespErr:       "bad response from the peer",
	WCLocAccessErr:     "local access error",
	WCRemInvReqErr:     "remote invalid request: the peer took the request for malformed, or had no room for it, or its queue pair's Access does not allow it (ConnectConfig.Access)",
	WCRemAccessErr:     "remote access error: the peer's region, key or rights do not allow it",
	WCRemOpErr:         "remote operation error: the peer could not complete the request",
	WCRetryExcErr:      "retries exceeded: the peer does not acknowledge",
	WCRNRRetryExcErr:   "RNR retries exceeded: the peer had no receive posted",
	WCLocRDDViolErr:    "local RDD violation",
	WCRemInvRDReqErr:   "remote invalid RD request",
	WCRemAbortErr:      "aborted by the peer",
	WCInvEECNErr:       "invalid EE context number",
	WCInvEECStateErr:   "invalid EE context state",
	WCFatalErr:         "fatal device error",
	WCRespTimeoutErr:   "response timeout",
	WCGeneralErr:       "general error",
	WCTMErr:            "tag matching error",
	WCTMRndvIncomplete: "tag matching: rendezvous incomplete",
}

func (s WCStatus) String() string { return name("WCStatus", statusText, s) }

// Error makes a status a sentinel for errors.Is.
func (s WCStatus) Error() string { return s.String() }

// WCError is a request that failed. It matches its Status.
type WCError struct {
	Status    WCStatus
	VendorErr uint32 // the device's own code
	QPNum     uint32
	ID        uint64 // the request's
	Queue     Queue
}

func (e *WCError) Error() string {
	return fmt.Sprintf("ibv: request %#x of QP %d (%v): %v (vendor error %#x)", e.ID, e.QPNum, e.Queue, e.Status, e.VendorErr)
}

// Unwrap returns the status.
func (e *WCError) Unwrap() error { return e.Status }
