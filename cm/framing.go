package cm

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ErrNotFramed is private data that no Frame has made.
var ErrNotFramed = errors.New("private data that is not framed: the peer sends it raw, or none")

// A frame is two bytes that tell it from raw data, the length in network order,
// and the data; the field's zeros follow.
const (
	frameMark     = 0x5242
	FrameOverhead = 4 // bytes that Frame adds
)

// Frame puts private data into a form that Unframe gives back exactly, without
// the zeros that the connection manager pads its fields with. most is what the
// message carries, such as MaxConnectData. Only for peers that Unframe: others
// see FrameOverhead bytes in front. A longer one is a *PrivateDataError.
func Frame(data []byte, most int) ([]byte, error) {
	if room := most - FrameOverhead; len(data) > room {
		return nil, &PrivateDataError{Got: len(data), Max: max(room, 0)}
	}
	out := binary.BigEndian.AppendUint16(make([]byte, 0, FrameOverhead+len(data)), frameMark)
	out = binary.BigEndian.AppendUint16(out, uint16(len(data)))
	return append(out, data...), nil
}

// Unframe gives what the peer gave to Frame. What cannot have come from there is
// ErrNotFramed.
func Unframe(field []byte) ([]byte, error) {
	if len(field) < FrameOverhead || binary.BigEndian.Uint16(field) != frameMark {
		return nil, ErrNotFramed
	}
	n, rest := int(binary.BigEndian.Uint16(field[2:])), field[FrameOverhead:]
	if n > len(rest) || slices.ContainsFunc(rest[n:], func(b byte) bool { return b != 0 }) {
		return nil, ErrNotFramed
	}
	return slices.Clone(rest[:n:n]), nil
}
