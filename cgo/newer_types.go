package cgo

// DMAHandleAttr is struct ibv_dmah_init_attr; Mask says which fields count.
type DMAHandleAttr struct {
	Mask, CPU  uint32
	Hint, Kind uint8
}
