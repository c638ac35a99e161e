package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// receive stores what is sent in a folder until ctx ends.
func receive(ctx context.Context, folder string, local netip.AddrPort, stdout io.Writer) error {
	root, err := os.OpenRoot(folder) // no name leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	l, err := cm.Listen(local, cm.ListenConfig{})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(stdout, "listening on", l.Addr())
	for {
		r, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			if err := store(ctx, r, root, stdout); err != nil && !errors.Is(err, cm.ErrDisconnected) {
				log.Print(err)
			}
		}()
	}
}

func store(ctx context.Context, r *cm.Request, root *os.Root, stdout io.Writer) (err error) {
	c, err := r.Accept(ctx, cm.AcceptConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	ring, err := c.PD().AllocMR(pieces*piece, ibv.LocalWrite|ibv.RemoteWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ring.Close()) }()
	there, err := ring.RemoteBuffer(0, ring.Len())
	if err != nil {
		return err
	}
	hello, err := there.MarshalBinary()
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Recv(ctx, buf)
		if err != nil {
			return err
		}
		o, err := parseOffer(buf[:n])
		if err != nil {
			return err
		}
		if err := c.Send(ctx, hello); err != nil {
			return err
		}
		if err := storeFile(ctx, c, ring, root, o); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		fmt.Fprintf(stdout, "%s: %d bytes from %v\n", o.name, o.size, c.RemoteAddr())
	}
}

func storeFile(ctx context.Context, c *cm.Conn, ring *ibv.MR, root *os.Root, o offer) (err error) {
	f, err := root.Create(o.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	word := make([]byte, 1)
	for at, i := uint64(0), 0; at < o.size; i++ {
		if _, err := c.Recv(ctx, word); err != nil {
			return err
		}
		n := min(o.size-at, piece)
		data := ring.Bytes()[i%pieces*piece:][:n]
		if _, err := io.MultiWriter(f, sum).Write(data); err != nil {
			return err
		}
		if err := c.Send(ctx, word); err != nil {
			return err
		}
		at += n
	}
	return c.Send(ctx, sum.Sum(nil))
}
