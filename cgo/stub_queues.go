//go:build !linux || !cgo

package cgo

// AH is a handle of a build without the libraries: the zero value is the only one.
type AH struct{}

// IsNil reports whether the handle names no object: always, here.
func (AH) IsNil() bool { return true }

func (AH) Addr() uintptr                { return 0 }
func (AH) Destroy() error               { return unsupported("ibv_destroy_ah") }
func (PD) CreateAH(*AHAttr) (AH, error) { return AH{}, unsupported("ibv_create_ah") }
func (PD) CreateAHFromWC(*WC, *[40]byte, uint8) (AH, error) {
	return AH{}, unsupported("ibv_create_ah_from_wc")
}
func (Context) InitAHFromWC(*WC, *[40]byte, uint8) (AHAttr, error) {
	return AHAttr{}, unsupported("ibv_init_ah_from_wc")
}
func (QP) AttachMcast(*[16]byte, uint16) error { return unsupported("ibv_attach_mcast") }
func (QP) DetachMcast(*[16]byte, uint16) error { return unsupported("ibv_detach_mcast") }
