//go:build linux && cgo

package cgo

// #include <infiniband/verbs.h>
import "C"

import "unsafe"

// ContextAt and its like make handles of C objects that another package made:
// C types differ from package to package. For package fakeverbs.
func ContextAt(p unsafe.Pointer) Context { return Context{(*C.struct_ibv_context)(p)} }
func PDAt(p unsafe.Pointer) PD           { return PD{(*C.struct_ibv_pd)(p)} }
func CQAt(p unsafe.Pointer) CQ           { return CQ{(*C.struct_ibv_cq)(p)} }
func QPAt(p unsafe.Pointer) QP           { return QP{(*C.struct_ibv_qp)(p)} }
