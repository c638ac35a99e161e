//go:build !linux || !cgo

package cgo

// Handles of a build without the libraries: the zero value is the only one.
type (
	Context     struct{}
	PD          struct{}
	MR          struct{}
	CompChannel struct{}
	CQ          struct{}
	QP          struct{}
)

// IsNil reports whether the handle names no object: always, here.
func (Context) IsNil() bool     { return true }
func (PD) IsNil() bool          { return true }
func (MR) IsNil() bool          { return true }
func (CompChannel) IsNil() bool { return true }
func (CQ) IsNil() bool          { return true }
func (QP) IsNil() bool          { return true }

// Available tells whether this build has the libraries at all.
const Available = false
