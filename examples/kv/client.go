package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

type client struct {
	*cm.Conn
	table ibv.RemoteBuffer
	slot  *ibv.MR // what was read
	buf   []byte
}

// withClient connects, from a bound address where one is given, and calls f.
func withClient(ctx context.Context, bind netip.Addr, server string, f func(*client) error) (err error) {
	d := cm.Dialer{LocalAddr: netip.AddrPortFrom(bind, 0)}
	conn, err := d.Dial(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &client{Conn: conn, buf: make([]byte, 4096)}
	if c.slot, err = conn.PD().AllocMR(slotSize, ibv.LocalWrite); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.slot.Close()) }()
	where, err := c.ask(ctx, nil)
	if err == nil {
		err = c.table.UnmarshalBinary(where)
	}
	if err == nil && c.table.Len != slots*slotSize {
		err = fmt.Errorf("the server's table is not like ours: %v", c.table)
	}
	if err == nil {
		err = f(c)
	}
	return err
}

func (c *client) ask(ctx context.Context, m []byte) ([]byte, error) {
	if err := c.Send(ctx, m); err != nil {
		return nil, err
	}
	n, err := c.Recv(ctx, c.buf)
	return c.buf[:n], err
}

// get reads slots until it has the key's; tries counts those that were torn.
func (c *client) get(ctx context.Context, key []byte) (value []byte, version uint64, torn int, err error) {
	for i := 0; i < probes; {
		there, err := c.table.At(uint64((place(key)+i)%slots*slotSize), slotSize)
		if err == nil {
			err = c.Read(ctx, c.slot.SGE(0, slotSize), there)
		}
		if err != nil {
			return nil, 0, torn, err
		}
		k, v, version, err := parse(c.slot.Bytes())
		switch {
		case errors.Is(err, errTorn):
			torn++
			continue
		case version == 0:
			return nil, 0, torn, errEmpty
		case bytes.Equal(k, key):
			return v, version, torn, nil
		}
		i++
	}
	return nil, 0, torn, errEmpty
}

func (c *client) put(ctx context.Context, key, value []byte) (uint64, error) {
	m := binary.BigEndian.AppendUint16(nil, uint16(len(key)))
	reply, err := c.ask(ctx, append(append(m, key...), value...))
	if err != nil {
		return 0, err
	}
	if len(reply) < 8 {
		return 0, errors.New("the server's answer is none")
	}
	version := binary.BigEndian.Uint64(reply)
	if version == 0 {
		return 0, fmt.Errorf("the server refuses: %s", reply[8:])
	}
	return version, nil
}

func (c *client) putAll(ctx context.Context, pairs []string, stdout io.Writer) error {
	for ; len(pairs) > 0; pairs = pairs[2:] {
		version, err := c.put(ctx, []byte(pairs[0]), []byte(pairs[1]))
		if err != nil {
			return fmt.Errorf("%s: %w", pairs[0], err)
		}
		fmt.Fprintf(stdout, "%s = %s (version %d)\n", pairs[0], pairs[1], version)
	}
	return nil
}

func (c *client) getAll(ctx context.Context, keys []string, stdout io.Writer) error {
	for _, key := range keys {
		value, version, torn, err := c.get(ctx, []byte(key))
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		fmt.Fprintf(stdout, "%s = %s (version %d", key, value, version)
		if torn > 0 {
			fmt.Fprintf(stdout, ", %d torn reads", torn)
		}
		fmt.Fprintln(stdout, ")")
	}
	return nil
}
