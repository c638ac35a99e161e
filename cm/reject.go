package cm

import (
	"fmt"
	"strconv"
	"syscall"
)

// RejectReason is the code of a rejection, as InfiniBand's communication manager
// numbers them.
type RejectReason int

// Reasons that a program may want to tell apart. Others are printed by name.
const (
	RejectNoQP            RejectReason = 1
	RejectNoResources     RejectReason = 3
	RejectTimeout         RejectReason = 4
	RejectUnsupported     RejectReason = 5
	RejectInvalidService  RejectReason = 8 // nobody listens
	RejectStale           RejectReason = 10
	RejectInvalidGID      RejectReason = 12
	RejectInvalidMTU      RejectReason = 26
	RejectNoReadResources RejectReason = 27
	RejectConsumer        RejectReason = 28 // the peer's program
	RejectECE             RejectReason = 35 // the peer's program, because of the ECE
)

var rejectNames = map[RejectReason]string{
	1: "no queue pair", 2: "no end-to-end context", 3: "no resources", 4: "timeout", 5: "unsupported request",
	6: "invalid communication id", 7: "invalid communication instance", 8: "invalid service id: nobody listens",
	9: "invalid transport type", 10: "stale connection", 11: "no such reliable datagram channel", 12: "invalid GID",
	13: "invalid LID", 14: "invalid service level", 15: "invalid traffic class", 16: "invalid hop limit",
	17: "invalid packet rate", 18: "invalid alternate GID", 19: "invalid alternate LID",
	20: "invalid alternate service level", 21: "invalid alternate traffic class", 22: "invalid alternate hop limit",
	23: "invalid alternate packet rate", 24: "redirected to another manager", 25: "redirected to another port",
	26: "invalid path MTU", 27: "too few responder resources", 28: "by the peer's program", 29: "RNR retry count",
	30: "duplicate communication id", 31: "invalid class version", 32: "invalid flow label",
	33: "invalid alternate flow label", 35: "vendor's options (ECE) not supported",
}

func (r RejectReason) String() string {
	if s := rejectNames[r]; s != "" {
		return s
	}
	return "reason " + strconv.Itoa(int(r))
}

// Answers to a request for a service of datagrams that say no.
const (
	serviceUnsupported = 1
	serviceRejected    = 2
)

var serviceNames = map[int]string{
	serviceUnsupported: "nobody listens", serviceRejected: "by the peer's program", 3: "no queue pair",
	4: "redirected", 5: "unsupported version",
}

// ErrECE says that the peer does not take the ECE of this end; reject status 35
// (ECONNREFUSED). It matches ErrRejected too.
var ErrECE error = &rejectedBecause{"the peer does not support the vendor's options (ECE)"}

type rejectedBecause struct{ text string }

func (r *rejectedBecause) Error() string { return r.text }

// Unwrap makes it match ErrRejected, and by that ECONNREFUSED.
func (r *rejectedBecause) Unwrap() error { return ErrRejected }

// RejectError is the peer's refusal with its reason code and private data. It
// matches ErrConnRefused, ErrRejected, ErrECE or ErrStale by its code.
type RejectError struct {
	// Status is the reason code of the CM's REJ message, see Reason; for iWARP an
	// errno; and where Datagram is set, the status of a service's answer.
	Status   int
	Datagram bool
	// PrivateData is the field as the wire has it: padded with zeros.
	PrivateData []byte
}

// Reason is the code of a connection's rejection, 0 where Status is none.
func (e *RejectError) Reason() RejectReason {
	if e.Datagram || e.Status < 0 {
		return 0
	}
	return RejectReason(e.Status)
}

func (e *RejectError) Error() string {
	why := ""
	switch {
	case e.Datagram:
		why = serviceNames[e.Status]
	case e.Status >= 0:
		why = rejectNames[RejectReason(e.Status)]
	}
	if why != "" {
		why = ", " + why
	}
	return fmt.Sprintf("rejected: %v (status %d%s)", e.sentinel(), e.Status, why)
}

// Unwrap gives the sentinel of the reason code, and iWARP's errno.
func (e *RejectError) Unwrap() []error {
	if e.Status < 0 {
		return []error{e.sentinel(), syscall.Errno(-e.Status)}
	}
	return []error{e.sentinel()}
}

func (e *RejectError) sentinel() error {
	if e.Datagram {
		if e.Status == serviceUnsupported {
			return ErrConnRefused
		}
		return ErrRejected
	}
	switch RejectReason(e.Status) {
	case RejectInvalidService, RejectReason(-int(syscall.ECONNREFUSED)):
		return ErrConnRefused
	case RejectStale:
		return ErrStale
	case RejectECE:
		return ErrECE
	}
	return ErrRejected
}
