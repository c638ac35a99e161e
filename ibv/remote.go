package ibv

import (
	"encoding/binary"
	"fmt"
)

// Remote is memory of the peer, from an address on.
type Remote struct {
	Addr uint64
	RKey uint32
}

// Remote names the region's memory from offset on, for the peer's READs, WRITEs
// and atomics. How it gets to the peer is the program's business; a RemoteBuffer
// goes there with its length.
func (m *MR) Remote(offset int) Remote {
	return Remote{Addr: m.Addr() + uint64(offset), RKey: m.RKey()}
}

// RemoteBuffer is a piece of the peer's memory whose end is known, so that
// nothing outside it is asked for. It has a binary form to be sent in.
type RemoteBuffer struct {
	Addr uint64
	Len  uint64
	RKey uint32
}

// RemoteBuffer names length bytes of the region from offset on.
func (m *MR) RemoteBuffer(offset, length int) (RemoteBuffer, error) {
	const op = "name memory for the peer"
	if err := m.life().enter(op); err != nil {
		return RemoteBuffer{}, err
	}
	defer m.node.leave()
	if m.access&(RemoteRead|RemoteWrite|RemoteAtomic) == 0 {
		return RemoteBuffer{}, invalid(op, m.node.name, ErrAccess, "it has %v, which lets no peer in", m.access)
	}
	if !inside(offset, length, m.size) {
		return RemoteBuffer{}, invalid(op, m.node.name, ErrOutOfRange, "%d bytes at offset %d", length, offset)
	}
	return RemoteBuffer{Addr: m.addr + uint64(offset), Len: uint64(length), RKey: m.rkey}, nil
}

// At names length bytes from offset on, for a request; the error matches
// ErrOutOfRange where they leave the buffer.
func (b RemoteBuffer) At(offset, length uint64) (Remote, error) {
	s, err := b.Slice(offset, length)
	return Remote{Addr: s.Addr, RKey: s.RKey}, err
}

// Slice is the part of the buffer of length bytes from offset on.
func (b RemoteBuffer) Slice(offset, length uint64) (RemoteBuffer, error) {
	if offset > b.Len || length > b.Len-offset {
		return RemoteBuffer{}, invalid("name memory of the peer", b.String(), ErrOutOfRange, "%d bytes at offset %d", length, offset)
	}
	return RemoteBuffer{Addr: b.Addr + offset, Len: length, RKey: b.RKey}, nil
}

func (b RemoteBuffer) String() string {
	return fmt.Sprintf("remote memory of %d bytes at %#x (rkey %#x)", b.Len, b.Addr, b.RKey)
}

// The binary form: a version, three zeros, rkey, address, length; big endian.
const (
	remoteBufferSize    = 24
	remoteBufferVersion = 1
)

// AppendBinary appends the binary form, 24 bytes.
func (b RemoteBuffer) AppendBinary(to []byte) ([]byte, error) {
	if b.Addr+b.Len < b.Addr {
		return to, invalid("encode", b.String(), ErrOutOfRange, "it wraps around the end of the address space")
	}
	to = append(to, remoteBufferVersion, 0, 0, 0)
	to = binary.BigEndian.AppendUint32(to, b.RKey)
	to = binary.BigEndian.AppendUint64(to, b.Addr)
	return binary.BigEndian.AppendUint64(to, b.Len), nil
}

// MarshalBinary is the binary form.
func (b RemoteBuffer) MarshalBinary() ([]byte, error) {
	return b.AppendBinary(make([]byte, 0, remoteBufferSize))
}

// UnmarshalBinary reads the binary form, and nothing else: what a peer has sent
// that is none is ErrInvalid.
func (b *RemoteBuffer) UnmarshalBinary(from []byte) error {
	const op = "decode remote memory"
	if len(from) != remoteBufferSize {
		return invalid(op, "", ErrInvalid, "%d bytes, not %d", len(from), remoteBufferSize)
	}
	if binary.BigEndian.Uint32(from) != remoteBufferVersion<<24 {
		return invalid(op, "", ErrInvalid, "it begins with %x", from[:4])
	}
	v := RemoteBuffer{RKey: binary.BigEndian.Uint32(from[4:]), Addr: binary.BigEndian.Uint64(from[8:]),
		Len: binary.BigEndian.Uint64(from[16:])}
	if v.Addr+v.Len < v.Addr {
		return invalid(op, v.String(), ErrOutOfRange, "it wraps around the end of the address space")
	}
	*b = v
	return nil
}
