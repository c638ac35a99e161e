package ibv

import "github.com/railbind/railbind/cgo"

// AHAttrOf is for package cm: the way that a connection manager's event tells.
func AHAttrOf(c cgo.AHAttr) AHAttr { return ahAttrOf(c) }

// QPAttrOf is for package cm: the attributes that a connection manager gives for
// a queue pair of the caller's own.
func QPAttrOf(c cgo.QPAttr) QPAttr { return qpAttr(c) }
