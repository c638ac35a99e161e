//go:build linux && cgo

package cgo

// #include "rb_comp_cntr.h"
import "C"

// CompCounter is a completion counter.
type CompCounter struct{ p *C.struct_ibv_comp_cntr }

// IsNil reports whether the handle names no object.
func (n CompCounter) IsNil() bool { return n.p == nil }

// compCounterSince is the rdma-core that brought completion counters.
const compCounterSince = 65

// QueryCompCounterCaps asks what completion counters the device has; ops is of
// enum ibv_qp_attach_comp_cntr_op.
//
// Implements: static inline int ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps)
func (c Context) QueryCompCounterCaps() (most uint64, counters, ops uint32, err error) {
	var a C.struct_rb_comp_cntr_caps
	err = checkNewer("ibv_query_comp_cntr_caps", compCounterSince, int(C.rb_query_comp_cntr_caps(c.p, &a)))
	return uint64(a.max_value), uint32(a.max_counters), uint32(a.attach_ops), err
}

// CreateCompCounter makes a counter of a kind (enum ibv_comp_cntr_type).
//
// Implements: struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *cc_attr)
func (c Context) CreateCompCounter(kind uint32) (CompCounter, error) {
	enter()
	defer leave()
	r := C.rb_create_comp_cntr(c.p, C.int(kind))
	return CompCounter{r.p}, checkNewer("ibv_create_comp_cntr", compCounterSince, int(r.err))
}

// Destroy destroys the counter, which no queue pair may have any more.
//
// Implements: int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr)
func (n CompCounter) Destroy() error {
	enter()
	defer leave()
	return checkNewer("ibv_destroy_comp_cntr", compCounterSince, int(C.rb_destroy_comp_cntr(n.p)))
}

// Set sets the number of successes.
//
// Implements: int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
func (n CompCounter) Set(v uint64) error {
	return checkNewer("ibv_set_comp_cntr", compCounterSince, int(C.rb_set_comp_cntr(n.p, C.uint64_t(v))))
}

// SetErrors sets the number of failures.
//
// Implements: int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
func (n CompCounter) SetErrors(v uint64) error {
	return checkNewer("ibv_set_err_comp_cntr", compCounterSince, int(C.rb_set_err_comp_cntr(n.p, C.uint64_t(v))))
}

// Add adds to the number of successes.
//
// Implements: int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
func (n CompCounter) Add(v uint64) error {
	return checkNewer("ibv_inc_comp_cntr", compCounterSince, int(C.rb_inc_comp_cntr(n.p, C.uint64_t(v))))
}

// AddErrors adds to the number of failures.
//
// Implements: int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
func (n CompCounter) AddErrors(v uint64) error {
	return checkNewer("ibv_inc_err_comp_cntr", compCounterSince, int(C.rb_inc_err_comp_cntr(n.p, C.uint64_t(v))))
}

// Read reads the number of successes.
//
// Implements: int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
func (n CompCounter) Read() (uint64, error) {
	var v C.uint64_t
	err := checkNewer("ibv_read_comp_cntr", compCounterSince, int(C.rb_read_comp_cntr(n.p, &v)))
	return uint64(v), err
}

// ReadErrors reads the number of failures.
//
// Implements: int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
func (n CompCounter) ReadErrors() (uint64, error) {
	var v C.uint64_t
	err := checkNewer("ibv_read_err_comp_cntr", compCounterSince, int(C.rb_read_err_comp_cntr(n.p, &v)))
	return uint64(v), err
}

// AttachCompCounter lets the counter count completions of ops, of enum
// ibv_qp_attach_comp_cntr_op.
//
// Implements: int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr, struct ibv_qp_attach_comp_cntr_attr *attr)
func (q QP) AttachCompCounter(n CompCounter, ops uint32) error {
	enter()
	defer leave()
	r := C.rb_qp_attach_comp_cntr(q.p, n.p, C.uint32_t(ops))
	return checkNewer("ibv_qp_attach_comp_cntr", compCounterSince, int(r))
}
