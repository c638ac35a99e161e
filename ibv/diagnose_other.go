//go:build !linux

package ibv

import "net/netip"

func hostVRFs() []vrf             { return nil }
func ruleSources() []netip.Prefix { return nil }
