package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/railbind/railbind/ibv"
)

var group = netip.MustParseAddr("239.82.66.1")

// What the first byte of a message says that it is.
const (
	question = '?' // then the GID of who asks: a multicast's own header names the group
	answer   = '!' // then what is offered
)

// again is when a question is repeated, as a datagram may be lost.
const again = 200 * time.Millisecond

// offer answers those who ask.
func (n *node) offer(ctx context.Context, text string, stdout io.Writer) error {
	fmt.Fprintf(stdout, "offering %s to %v\n", text, group)
	return n.each(ctx, func(from uint32, m []byte) error {
		if len(m) != 1+len(ibv.GID{}) || m[0] != question {
			return nil
		}
		// As the group is reached, but for who is meant. All members have its QKey.
		to := n.group.Peer()
		to.AH.DGID, to.QPNum = ibv.GID(m[1:]), from
		dest, err := to.Dest(n.pd)
		if err != nil {
			return nil //nolint:nilerr // it named a place that is none
		}
		return n.send(dest, append([]byte{answer}, text...))
	})
}

// find asks the group, and prints each answer once, until ctx ends or there are
// most of them (0: any number).
func (n *node) find(ctx context.Context, most int, stdout io.Writer) error {
	own := n.id.Binding().GID
	known := map[string]bool{}
	enough := errors.New("enough")
	for ctx.Err() == nil {
		to, err := n.group.Peer().Dest(n.pd)
		if err != nil {
			return err
		}
		if err := n.send(to, append([]byte{question}, own[:]...)); err != nil {
			return err
		}
		turn, cancel := context.WithTimeout(ctx, again)
		err = n.each(turn, func(_ uint32, m []byte) error {
			text := string(m[1:])
			if m[0] != answer || known[text] { // questions come back, too
				return nil
			}
			known[text] = true
			fmt.Fprintf(stdout, "%q\n", text)
			if len(known) == most {
				return enough
			}
			return nil
		})
		cancel()
		switch {
		case errors.Is(err, enough):
			return nil
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
	if len(known) == 0 {
		return errors.New("nobody has answered")
	}
	return nil
}
