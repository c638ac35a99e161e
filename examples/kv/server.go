package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// serve runs a server until ctx ends.
func serve(ctx context.Context, local netip.AddrPort, stdout io.Writer) (err error) {
	memory, err := ibv.NewBuffer(slots*slotSize, ibv.BufferConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	l, err := cm.Listen(local, cm.ListenConfig{})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(stdout, "listening on", l.Addr())
	t := &table{memory: memory.Bytes()}
	for {
		r, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			if err := answer(ctx, r, t, memory); err != nil && !errors.Is(err, cm.ErrDisconnected) {
				log.Print(err)
			}
		}()
	}
}

// answer tells a client where the table is, read-only, and stores what it sends.
func answer(ctx context.Context, r *cm.Request, t *table, memory *ibv.Buffer) (err error) {
	c, err := r.Accept(ctx, cm.AcceptConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	mr, err := c.PD().RegisterBuffer(memory, ibv.RemoteRead)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mr.Close()) }()
	there, err := mr.RemoteBuffer(0, mr.Len())
	if err != nil {
		return err
	}
	hello, err := there.MarshalBinary()
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for first := true; ; first = false {
		n, err := c.Recv(ctx, buf)
		if err != nil {
			return err
		}
		reply := hello
		if !first { // which only says that the client is there: iWARP wants it to begin
			reply = store(t, buf[:n])
		}
		if err := c.Send(ctx, reply); err != nil {
			return err
		}
	}
}

// store puts "length of key | key | value" and answers with the version, or with
// what is wrong.
func store(t *table, m []byte) []byte {
	err := errors.New("not a request")
	if len(m) >= 2 {
		if k := int(binary.BigEndian.Uint16(m)); k <= len(m)-2 {
			var version uint64
			if version, err = t.put(m[2:2+k], m[2+k:]); err == nil {
				return binary.BigEndian.AppendUint64(nil, version)
			}
		}
	}
	return append(make([]byte, 8), err.Error()...) // there is no version 0
}
