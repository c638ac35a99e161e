//go:build linux && cgo

package cgo

// #include <infiniband/verbs.h>
import "C"

// Handles are comparable; the zero value is no object.
type (
	// Context is an open device.
	Context struct{ p *C.struct_ibv_context }
	// PD is a protection domain.
	PD struct{ p *C.struct_ibv_pd }
	// MR is a memory region.
	MR struct{ p *C.struct_ibv_mr }
	// CompChannel is a completion channel.
	CompChannel struct{ p *C.struct_ibv_comp_channel }
	// CQ is a completion queue.
	CQ struct{ p *C.struct_ibv_cq }
	// QP is a queue pair.
	QP struct{ p *C.struct_ibv_qp }
)

// IsNil reports whether the handle names no object.
func (h Context) IsNil() bool { return h.p == nil }

// IsNil reports whether the handle names no object.
func (h PD) IsNil() bool { return h.p == nil }

// IsNil reports whether the handle names no object.
func (h MR) IsNil() bool { return h.p == nil }

// IsNil reports whether the handle names no object.
func (h CompChannel) IsNil() bool { return h.p == nil }

// IsNil reports whether the handle names no object.
func (h CQ) IsNil() bool { return h.p == nil }

// IsNil reports whether the handle names no object.
func (h QP) IsNil() bool { return h.p == nil }
