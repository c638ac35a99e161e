package cm

import (
	"fmt"

	"github.com/railbind/railbind/cgo"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// None stands for zero in the fields of ConnParam whose zero value means a
// default.
const None = 0xFF

// ConnParam are the parameters of a connection; each end has its own. The zero
// value gives sane defaults, unlike librdmacm's, whose zeros allow no RDMA READ
// and kill the connection at the first receive that is posted late.
type ConnParam struct {
	// PrivateData goes with the message, at most MaxPrivateData bytes. The peer
	// sees it padded with zeros to the full field.
	PrivateData []byte
	// QP is a queue pair of the caller's own making, on the id's context, that
	// stands for one of CreateQP: see ID.QPAttr. nil: the id's.
	QP *ibv.QP
	// ResponderResources is how many READs and atomics of the peer this end
	// serves at once. 0: the smaller of the device's maximum and 16, and when
	// accepting no more than the peer asks for. None: none.
	ResponderResources uint8
	// InitiatorDepth is how many READs and atomics this end has under way at
	// once, with the same defaults.
	InitiatorDepth uint8
	// FlowControl asks the transport for end-to-end flow control.
	FlowControl bool
	// RetryCount, 1 to 7, is how often a lost packet is sent again before the
	// connection fails; the end that connects decides for both. 0: 6, because
	// Soft-RoCE takes 7 for "without end", and never notices that a peer has
	// vanished. None: never.
	RetryCount uint8
	// RNRRetryCount, 1 to 7, is how often the peer shall send a message again that
	// met no posted receive here; 7 means without end. 0: 7. None: never. How often
	// this end does is for the peer to say, and so no protection against it.
	RNRRetryCount uint8
}

// Most private data, in bytes, that a message carries over RoCE and InfiniBand
// in the TCP port space.
const (
	MaxConnectData = 56
	MaxAcceptData  = 196
	MaxRejectData  = 148
)

// The same for the request and the answers of the UDP port space.
const (
	MaxDatagramConnectData = 180
	MaxDatagramReplyData   = 136
)

// maxIWARPData is what iWARP's messages leave beside the READ depths that go
// with them: siw sends 256 bytes in all, and refuses 252 of ours.
const maxIWARPData = 250

// maxDepth bounds the defaults of ResponderResources and InitiatorDepth.
const maxDepth = 16

// checkPrivate refuses private data that the message cannot carry: a failed
// accept would reject the peer.
func checkPrivate(t policy.Transport, data []byte, most int) error {
	if t == policy.IWARP {
		most = maxIWARPData
	}
	if len(data) > most {
		return &PrivateDataError{Got: len(data), Max: most}
	}
	return nil
}

// resolve fills in the defaults. asked holds what a CONNECT_REQUEST offers, and
// is nil for the end that connects.
func (p ConnParam) resolve(attr ibv.DeviceAttr, asked *cgo.ConnParam) cgo.ConnParam {
	serve, use := uint8(maxDepth), uint8(maxDepth)
	if asked != nil {
		serve, use = min(serve, asked.ResponderResources), min(use, asked.InitiatorDepth)
	}
	return cgo.ConnParam{
		ResponderResources: depth(p.ResponderResources, serve, attr.MaxQPReadAtomic),
		InitiatorDepth:     depth(p.InitiatorDepth, use, attr.MaxQPInitReadAtomic),
		FlowControl:        p.FlowControl,
		RetryCount:         retries(p.RetryCount, 6),
		RNRRetryCount:      retries(p.RNRRetryCount, 7),
	}
}

// check refuses what the device, or the message's field, has no room for.
func (p ConnParam) check(attr ibv.DeviceAttr) error {
	number := func(given uint8) int {
		if given == None {
			return 0
		}
		return int(given)
	}
	return checkBounds(
		bound{"ResponderResources", number(p.ResponderResources), attr.MaxQPReadAtomic},
		bound{"InitiatorDepth", number(p.InitiatorDepth), attr.MaxQPInitReadAtomic},
		bound{"RetryCount", number(p.RetryCount), 7}, bound{"RNRRetryCount", number(p.RNRRetryCount), 7})
}

// bound is a number that was given, and the most that there is room for.
type bound struct {
	field       string
	given, most int
}

// checkBounds names the first field that is out of its bounds.
func checkBounds(bounds ...bound) error {
	for _, b := range bounds {
		if b.given < 0 || b.given > b.most {
			return fmt.Errorf("%w: %s is %d, at most %d here", ibv.ErrInvalid, b.field, b.given, b.most)
		}
	}
	return nil
}

func depth(given, def uint8, most int) uint8 {
	switch given {
	case None:
		return 0
	case 0:
		given = def
	}
	return uint8(min(int(given), most, None-1))
}

func retries(given, def uint8) uint8 {
	switch given {
	case 0:
		return def
	case None:
		return 0
	}
	return given
}
