package cm

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// Options are an id's rarer settings. The zero value is the kernel's defaults.
// An id from a listener takes those of the listener that count for it.
type Options struct {
	// TypeOfService is the IPv4 type of service or IPv6 traffic class, all 8
	// bits; RoCE derives its service level from it. 0: the device's default
	// (configfs: default_roce_tos).
	TypeOfService uint8
	// ReuseAddr lets several ids bind one address and port, as SO_REUSEADDR does;
	// each of them must ask for it. None can listen there while others are bound.
	ReuseAddr bool
	// AFOnly keeps IPv4 peers away from an id bound to the IPv6 wildcard address.
	AFOnly bool
	// AckTimeout is how long the device waits for an acknowledgment before it
	// sends again: 4.096 us * 2^AckTimeout, 1 to 31; 14 is 67 ms. 0: what the
	// kernel chooses. The peer's own may differ.
	AckTimeout uint8
}

// The names of rdma_set_option at level RDMA_OPTION_ID.
const (
	levelID      = 0
	optTOS       = 0
	optReuseAddr = 1
	optAFOnly    = 2
	optAckTime   = 3
)

// set hands the options that are given to the kernel's id.
//
// Implements: int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
func (o Options) set(h cgo.ID) error {
	if o.AckTimeout > 31 {
		return fmt.Errorf("AckTimeout is %d, at most 31 is possible: %w", o.AckTimeout, syscall.EINVAL)
	}
	on := binary.NativeEndian.AppendUint32(nil, 1) // a C int
	for _, opt := range []struct {
		given bool
		name  int
		value []byte
	}{
		{o.TypeOfService != 0, optTOS, []byte{o.TypeOfService}},
		{o.ReuseAddr, optReuseAddr, on},
		{o.AFOnly, optAFOnly, on},
		{o.AckTimeout != 0, optAckTime, []byte{o.AckTimeout}},
	} {
		if !opt.given {
			continue
		}
		if err := h.SetOption(levelID, opt.name, opt.value); err != nil {
			return err
		}
	}
	return nil
}

// ofChild leaves out what only counts before a request is there.
func (o Options) ofChild() Options {
	o.ReuseAddr, o.AFOnly = false, false
	return o
}
