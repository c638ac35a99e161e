package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// keys are what an end tells of its queue pair and memory. Over TCP they are text
// with a zero byte behind it, the GID's bytes one by one, and only where GIDs are used:
//
//	lid:reads:qpn:psn:rkey:addr[:gid...]:srqn[:]
//
// and over a connection of the connection manager a C structure whose numbers
// are in network order.
type keys struct {
	lid            uint16
	reads          uint16 // READs and atomics that it serves at once
	qpn, psn, rkey uint32
	addr           uint64
	gid            ibv.GID
}

const (
	textLen    = len("0000:0000:000000:000000:00000000:0000000000000000:00000000") + 1
	textGIDLen = textLen + 16*len("00:") + len(":")
	binaryLen  = 56
)

func (k keys) text(withGID bool) []byte {
	b := fmt.Appendf(nil, "%04x:%04x:%06x:%06x:%08x:%016x:", k.lid, k.reads, k.qpn, k.psn, k.rkey, k.addr)
	if !withGID {
		return append(b, "00000000\x00"...)
	}
	for _, c := range k.gid {
		b = fmt.Appendf(b, "%02x:", c)
	}
	return append(b, "00000000:\x00"...)
}

func parseText(b []byte) (k keys, err error) {
	bad := fmt.Errorf("%w: it told %q instead of its keys", peer.ErrProtocol, b)
	f := strings.Split(strings.TrimRight(string(b), ":\x00"), ":")
	if len(f) != 7 && len(f) != 7+len(k.gid) {
		return k, bad
	}
	var n [6]uint64
	var errs []error
	for i, bits := range []int{16, 16, 24, 24, 32, 64} {
		n[i], err = strconv.ParseUint(f[i], 16, bits)
		errs = append(errs, err)
	}
	if len(f) > 7 {
		gid, err := hex.DecodeString(strings.Join(f[6:6+len(k.gid)], ""))
		if err != nil || len(gid) != len(k.gid) {
			return k, bad
		}
		k.gid = ibv.GID(gid)
	}
	if errors.Join(errs...) != nil {
		return k, bad
	}
	k.lid, k.reads, k.qpn, k.psn, k.rkey, k.addr = uint16(n[0]), uint16(n[1]), uint32(n[2]), uint32(n[3]), uint32(n[4]), n[5]
	return k, nil
}

func (k keys) binary() []byte {
	b := make([]byte, 0, binaryLen)
	for _, n := range []uint32{uint32(k.lid), uint32(k.reads), k.qpn, k.psn, k.rkey, 0} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = binary.BigEndian.AppendUint64(b, k.addr)
	return append(b, k.gid[:]...)[:binaryLen] // and the numbers of a shared receive queue and of a GID
}

func parseBinary(b []byte) (k keys, err error) {
	if len(b) < binaryLen {
		return k, fmt.Errorf("%w: it told %d bytes instead of its keys", peer.ErrProtocol, len(b))
	}
	n := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	return keys{
		lid: uint16(n(0)), reads: uint16(n(1)), qpn: n(2), psn: n(3), rkey: n(4),
		addr: binary.BigEndian.Uint64(b[24:]), gid: ibv.GID(b[32:48]),
	}, nil
}

// agreement is what the ends tell each other first, as far as it matters.
type agreement struct {
	cycle int // bytes that small messages of a stream go through, before they begin again
	line  int // a small message takes so many bytes of those
	mtu   ibv.MTU
}

const version = "6.06"

// agree tells ours, and settles with the peer.
func (a *agreement) agree(swap func([]byte) ([]byte, error)) error {
	ours := make([]byte, 16)
	copy(ours, version)
	b, err := swap(ours)
	if err != nil {
		return err
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	if v, err := strconv.ParseFloat(text, 64); err != nil || v < 5.7 {
		return fmt.Errorf("%w: it is of version %q: want perftest 5.70 or newer", peer.ErrProtocol, text)
	}
	for _, n := range []*int{&a.cycle, &a.line} {
		if b, err = swap(binary.BigEndian.AppendUint32(nil, uint32(*n))); err != nil {
			return err
		}
		theirs := binary.BigEndian.Uint32(b)
		if theirs > maxSize {
			return fmt.Errorf("%w: a buffer of %d bytes", peer.ErrProtocol, theirs)
		}
		*n = max(*n, int(theirs))
	}
	if b, err = swap(fmt.Appendf(nil, "%d\x00", a.mtu)); err != nil {
		return err
	}
	if m := ibv.MTU(b[0] - '0'); m.Bytes() > 0 {
		a.mtu = min(a.mtu, m)
	}
	return nil
}
