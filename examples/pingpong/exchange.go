package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// The ends tell each other where their queue pairs are over a TCP connection, as
// text with a zero byte behind it:
//
//	lid:qpn:psn:gid    hexadecimal, of 4, 6, 6 and 32 digits
//
// The client tells first, the server then; when it has read that, the client says
// "done", and both are ready.

const (
	destLen = len("0000:000000:000000:00000000000000000000000000000000") + 1
	done    = "done\x00"
)

// dest is where a queue pair is.
type dest struct {
	lid      uint16
	qpn, psn uint32
	gid      ibv.GID
}

func (d dest) encode() []byte {
	return fmt.Appendf(nil, "%04x:%06x:%06x:%x\x00", d.lid, d.qpn, d.psn, d.gid[:])
}

func decode(b []byte) (d dest, err error) {
	bad := fmt.Errorf("%w: it told %q instead of lid:qpn:psn:gid", peer.ErrProtocol, b)
	parts := strings.Split(strings.TrimRight(string(b), "\x00"), ":")
	if len(parts) != 4 {
		return d, bad
	}
	lid, err1 := strconv.ParseUint(parts[0], 16, 16)
	qpn, err2 := strconv.ParseUint(parts[1], 16, 24)
	psn, err3 := strconv.ParseUint(parts[2], 16, 24)
	gid, err4 := hex.DecodeString(parts[3])
	if errors.Join(err1, err2, err3, err4) != nil || len(gid) != len(d.gid) {
		return d, bad
	}
	return dest{uint16(lid), uint32(qpn), uint32(psn), ibv.GID(gid)}, nil
}

// line is the TCP connection.
type line struct {
	net.Conn
	o *options
}

// newLine bounds what is said on the connection.
func newLine(c net.Conn, o *options) (*line, error) {
	return &line{c, o}, c.SetDeadline(time.Now().Add(o.Timeout))
}

func (l *line) local() netip.Addr { return l.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap() }

// exchange tells ours, has the queue pairs connected to theirs, and returns when
// both ends are ready.
func (l *line) exchange(ours []dest, connect func(theirs []dest) error) error {
	for _, step := range l.steps(ours, connect) {
		if err := step(); err != nil {
			return fmt.Errorf("telling %v of the queue pairs: %w", l.RemoteAddr(), l.o.Late(err))
		}
	}
	return nil
}

func (l *line) steps(ours []dest, connect func(theirs []dest) error) []func() error {
	read := func() error {
		theirs, err := l.read()
		if err != nil {
			return err
		}
		return connect(theirs)
	}
	write := func() error { return l.write(ours) }
	if l.o.Host == "" {
		return []func() error{read, write, l.readDone}
	}
	return []func() error{write, read, func() error { _, err := io.WriteString(l, done); return err }}
}

func (l *line) write(ours []dest) error {
	var b []byte
	for i := range l.o.told {
		var d dest
		if i < len(ours) {
			d = ours[i]
		}
		b = append(b, d.encode()...)
	}
	_, err := l.Write(b)
	return err
}

func (l *line) read() (theirs []dest, err error) {
	b := make([]byte, l.o.told*destLen)
	if _, err := io.ReadFull(l, b); err != nil {
		return nil, err
	}
	for ; len(b) > 0; b = b[destLen:] {
		d, err := decode(b[:destLen])
		if err != nil {
			return nil, err
		}
		if d.qpn != 0 {
			theirs = append(theirs, d)
		}
	}
	if len(theirs) != l.o.qps {
		return nil, fmt.Errorf("%w: it has %d queue pairs, this end %d (-q)", peer.ErrProtocol, len(theirs), l.o.qps)
	}
	return theirs, nil
}

func (l *line) readDone() error {
	b := make([]byte, len(done))
	if _, err := io.ReadFull(l, b); err != nil {
		return err
	}
	if string(b) != done {
		return fmt.Errorf("%w: it said %q instead of %q", peer.ErrProtocol, b, done)
	}
	return nil
}
