//go:build !linux || !cgo

package cgo

func (ID) CreateSRQ(PD, *SRQInitAttr) (SRQ, error) { return SRQ{}, unsupported("rdma_create_srq") }
func (ID) DestroySRQ()                             {}
func CMEventString(uint32) string                  { return "" }
