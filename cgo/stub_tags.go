//go:build !linux || !cgo

package cgo

func (*SRQRecord) AddTag(*TagOp) (uint32, error) { return 0, unsupported("ibv_post_srq_ops") }
func (*SRQRecord) DeleteTag(*TagOp) error        { return unsupported("ibv_post_srq_ops") }
func (*SRQRecord) SyncTags(*TagOp) error         { return unsupported("ibv_post_srq_ops") }
