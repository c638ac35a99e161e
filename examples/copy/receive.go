package main

import (
	"context"
	"crypto/rand"
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
			if err := store(ctx, r, root, stdout); err != nil {
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
		if errors.Is(err, cm.ErrDisconnected) {
			return nil // behind its last file
		}
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
			return fmt.Errorf("%q from %v: %w", o.name, c.RemoteAddr(), err)
		}
		fmt.Fprintf(stdout, "%q: %d bytes from %v\n", o.name, o.size, c.RemoteAddr())
	}
}

// storeFile gives the file its name when all of it is there: until then, what was
// there under this name stays.
func storeFile(ctx context.Context, c *cm.Conn, ring *ibv.MR, root *os.Root, o offer) error {
	part := ".copy-" + rand.Text()
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	sum, err := storeData(ctx, c, ring, f, o.size)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(part, o.name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return c.Send(ctx, sum)
}

// storeData takes the pieces, and gives their checksum.
func storeData(ctx context.Context, c *cm.Conn, ring *ibv.MR, f io.Writer, size uint64) ([]byte, error) {
	sum := sha256.New()
	word := make([]byte, 1)
	for at, i := uint64(0), 0; at < size; i++ {
		if _, err := c.Recv(ctx, word); err != nil {
			return nil, err
		}
		n := min(size-at, piece)
		data := ring.Bytes()[i%pieces*piece:][:n]
		if _, err := io.MultiWriter(f, sum).Write(data); err != nil {
			return nil, err
		}
		if err := c.Send(ctx, word); err != nil {
			return nil, err
		}
		at += n
	}
	return sum.Sum(nil), nil
}
