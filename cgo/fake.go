//go:build linux && cgo

package cgo

// #include <infiniband/verbs.h>
// #include "rb_newer.h"
import "C"

import "unsafe"

// The functions in this file are for package fakeverbs: C types differ from
// package to package, so that its objects come as bare pointers.

// ContextAt makes a handle of a struct ibv_context.
func ContextAt(p unsafe.Pointer) Context { return Context{(*C.struct_ibv_context)(p)} }

// PDAt makes a handle of a struct ibv_pd.
func PDAt(p unsafe.Pointer) PD { return PD{(*C.struct_ibv_pd)(p)} }

// CQAt makes a handle of a struct ibv_cq.
func CQAt(p unsafe.Pointer) CQ { return CQ{(*C.struct_ibv_cq)(p)} }

// QPAt makes a handle of a struct ibv_qp.
func QPAt(p unsafe.Pointer) QP { return QP{(*C.struct_ibv_qp)(p)} }

// MWAt makes a handle of a struct ibv_mw.
func MWAt(p unsafe.Pointer) MW { return MW{(*C.struct_ibv_mw)(p)} }

// Pointer is the struct ibv_mr.
func (h MR) Pointer() unsafe.Pointer { return unsafe.Pointer(h.p) }

// Pointer is the struct ibv_srq.
func (h SRQ) Pointer() unsafe.Pointer { return unsafe.Pointer(h.p) }

// Pointer is the struct ibv_pd.
func (h PD) Pointer() unsafe.Pointer { return unsafe.Pointer(h.p) }

// Pointer is the struct ibv_td.
func (t TD) Pointer() unsafe.Pointer { return unsafe.Pointer(t.p) }

// SymbolsFrom lets find, a C function void *find(const char *name), answer for the
// functions that are looked up by name, whatever the libraries here have; nil ends
// that.
func SymbolsFrom(find unsafe.Pointer) { C.rb_symbols_from((*[0]byte)(find)) }
