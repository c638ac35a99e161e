package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// send sends files over one connection, from a bound address where one is given.
func send(ctx context.Context, bind netip.Addr, files []string, receiver string, stdout io.Writer) (err error) {
	d := cm.Dialer{LocalAddr: netip.AddrPortFrom(bind, 0)}
	c, err := d.Dial(ctx, receiver)
	if err != nil {
		return err
	}
	defer c.Close()
	ring, err := c.PD().AllocMR(pieces*piece, ibv.LocalWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ring.Close()) }()
	for _, name := range files {
		if err := sendFile(ctx, c, ring, name, stdout); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func sendFile(ctx context.Context, c *cm.Conn, ring *ibv.MR, name string, stdout io.Writer) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	base, size := filepath.Base(name), info.Size()
	if err := c.Send(ctx, offer{uint64(size), base}.bytes()); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, err := c.Recv(ctx, answer)
	if err != nil {
		return err
	}
	var there ibv.RemoteBuffer
	if err := there.UnmarshalBinary(answer[:n]); err != nil {
		return err
	}

	sum := sha256.New()
	under := 0 // pieces that the receiver has not given back
	free := func() error {
		_, err := c.Recv(ctx, answer)
		under--
		return err
	}
	for at, i := int64(0), 0; at < size; i++ {
		progress(stdout, base, at, size)
		if under == pieces {
			if err := free(); err != nil {
				return err
			}
		}
		n := int(min(size-at, piece))
		place := i % pieces * piece
		data := ring.Bytes()[place:][:n]
		if _, err := io.ReadFull(f, data); err != nil {
			return fmt.Errorf("it has become shorter: %w", err)
		}
		_, _ = sum.Write(data)
		to, err := there.At(uint64(place), uint64(n))
		if err == nil {
			err = c.Write(ctx, ring.SGE(place, n), to)
		}
		if err == nil {
			err = c.Send(ctx, []byte{0})
		}
		if err != nil {
			return err
		}
		under++
		at += int64(n)
	}
	for under > 0 {
		if err := free(); err != nil {
			return err
		}
	}
	if n, err = c.Recv(ctx, answer); err != nil {
		return err
	}
	if !bytes.Equal(answer[:n], sum.Sum(nil)) {
		return fmt.Errorf("the receiver has stored something else: checksum %x, sent %x", answer[:n], sum.Sum(nil))
	}
	progress(stdout, base, size, size)
	return nil
}
