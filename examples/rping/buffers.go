package main

import (
	"errors"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// queues are what one end needs: one message under way each way, and room to
// see that a wrong one is too long.
var queues = cm.QueueConfig{SendDepth: 4, RecvDepth: 4, MaxMessage: 64}

// hangUp ends a connection and frees its buffers. A request that the end of the
// connection interrupted holds its buffer until the queue pair is closed, and
// the protection domain waits for the buffers.
func hangUp(c *cm.Conn, buffers ...*ibv.MR) error {
	err := c.Close()
	if len(buffers) == 0 {
		return err
	}
	err = nil
	for _, mr := range buffers {
		err = errors.Join(err, mr.Close())
	}
	return errors.Join(err, c.Close())
}
