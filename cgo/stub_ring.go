//go:build !linux || !cgo

package cgo

// Ring is of a build without the libraries: there is none.
type Ring struct{}

// NewRing is unsupported here.
func NewRing(int, uint64, CompChannel) (*Ring, error) { return nil, unsupported("ibv_poll_cq") }

// Add is unsupported here.
func (*Ring) Add(*CQRecord) error { return unsupported("ibv_poll_cq") }

// Remove does nothing here.
func (*Ring) Remove(*CQRecord) {}

// Stop does nothing here.
func (*Ring) Stop() {}

// DupBell is unsupported here.
func (*Ring) DupBell() (uintptr, error) { return 0, unsupported("fcntl") }

// Take finds nothing here.
func (*Ring) Take(*WC, int) int { return 0 }

// Sleep does nothing here.
func (*Ring) Sleep() {}

// Stalls is 0 here.
func (*Ring) Stalls() uint64 { return 0 }

// Failed is false here.
func (*Ring) Failed() bool { return false }
