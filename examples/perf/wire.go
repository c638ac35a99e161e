package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
)

// A session is a connection for control, on which the client asks and the server
// answers in JSON, and beside it the connections that are measured. What a
// connection is for stands in its private data: a magic word, and the session's
// token, which is 0 for control.

const magic = 0x72622d7065726631 // rb-perf1

func privateData(token uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, magic)
	return binary.BigEndian.AppendUint64(b, token)
}

// tokenOf reads private data, which comes padded with zeros.
func tokenOf(b []byte) (uint64, bool) {
	if len(b) < 16 || binary.BigEndian.Uint64(b) != magic {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[8:]), true
}

// verb is what the client asks for.
type verb string

const (
	askPlan   verb = "plan"   // follow this plan; then the connections are made
	askRegion verb = "region" // exchange the memory
	askStart  verb = "start"  // be ready for a run
	askWait   verb = "wait"   // the run goes on
	askEnd    verb = "end"    // the run is over: how was it?
)

type question struct {
	Verb verb    `json:"verb"`
	Plan *plan   `json:"plan,omitempty"`
	At   *region `json:"at,omitempty"`
	Run  *job    `json:"run,omitempty"`
	// Count is how many messages or connections the run had.
	Count int `json:"count,omitempty"`
}

// job is one run.
type job struct {
	Size int `json:"size"`
	// Seed is of the data, where it is checked, else 0.
	Seed uint64 `json:"seed,omitempty"`
}

// region is memory that the peer may use.
type region struct {
	Addr uint64 `json:"addr"`
	RKey uint32 `json:"rkey"`
}

type answer struct {
	Error string        `json:"error,omitempty"`
	Token uint64        `json:"token,omitempty"`
	At    *region       `json:"at,omitempty"`
	CPU   time.Duration `json:"cpu,omitempty"` // of the server's process in the run
}

// control is the queues of the connection for control.
var control = cm.QueueConfig{SendDepth: 4, RecvDepth: 4, MaxMessage: 8192}

var (
	errProtocol = errors.New("the peer does not speak rb-perf's protocol")
	errRefused  = errors.New("the server refuses")
)

func send(ctx context.Context, c *cm.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Send(ctx, b)
}

func receive(ctx context.Context, c *cm.Conn, v any) error {
	b := make([]byte, control.MaxMessage)
	n, err := c.Recv(ctx, b)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b[:n], v); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	return nil
}

// ask is one question and its answer, within the time limit.
func ask(ctx context.Context, c *cm.Conn, limit time.Duration, q question) (a answer, err error) {
	err = peer.WithLimit(ctx, limit, func(ctx context.Context) error {
		if err := send(ctx, c, q); err != nil {
			return err
		}
		return receive(ctx, c, &a)
	})
	if err == nil && a.Error != "" {
		err = fmt.Errorf("%w: %s", errRefused, a.Error)
	}
	return a, err
}
