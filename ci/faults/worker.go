//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

// worker keeps one connection with traffic, and dials again when it ends.
type worker struct {
	rail          int
	local, remote netip.AddrPort
	churn         int // rounds of a connection before the next one; 0: no end
	wrong         func(error)

	mu      sync.Mutex
	rounds  int
	dials   int
	failed  map[string]int // by kind
	example map[string]error
	longest time.Duration
	slowest string    // the operation that took it
	served  time.Time // when the last completed round began
	op      string    // under way
	since   time.Time
}

// workers are those of every rail and family: 10.10.R.1 to 10.10.R.2, and so on.
// Half of them connect again and again.
func workers(n int, wrong func(error)) []*worker {
	var all []*worker
	for rail := range 2 {
		for i, network := range []string{"10.10.%d.%d", "fd10:%d::%d"} {
			address := func(host int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(network, rail, host)) }
			for k := range n {
				all = append(all, &worker{
					rail:   rail,
					local:  netip.AddrPortFrom(address(1), 0),
					remote: netip.AddrPortFrom(address(2), uint16(port+i)),
					churn:  k % 2 * 5,
					wrong:  wrong,
					failed: map[string]int{}, example: map[string]error{},
				})
			}
		}
	}
	return all
}

func (w *worker) String() string { return fmt.Sprintf("%v -> %v", w.local.Addr(), w.remote) }

// run goes on until ctx ends.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.connection(ctx); err != nil && ctx.Err() == nil {
			w.note(err)
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// connection dials, and makes rounds until an error, or as many as churn says.
func (w *worker) connection(ctx context.Context) (err error) {
	began := time.Now()
	d := cm.Dialer{LocalAddr: w.local}
	var c *cm.Conn
	err = w.do(ctx, "dial", func(ctx context.Context) error {
		c, err = d.DialAddr(ctx, w.remote)
		return err
	})
	if err != nil {
		return err
	}
	var regions []*ibv.MR
	defer func() {
		// What a write still reads can be closed when the connection has ended.
		_ = w.do(context.Background(), "close", func(context.Context) error {
			_ = c.Close()
			for _, mr := range regions {
				err = errors.Join(err, mr.Close())
			}
			err = errors.Join(err, c.Close())
			return nil
		})
	}()
	for range 2 {
		mr, err := c.PD().AllocMR(mostBlock, ibv.LocalWrite)
		if err != nil {
			return err
		}
		regions = append(regions, mr)
	}
	in := make([]byte, mostLen)
	var remote ibv.RemoteBuffer
	err = w.do(ctx, "hello", func(ctx context.Context) error {
		if err := c.Send(ctx, []byte("hello")); err != nil {
			return err
		}
		n, err := c.Recv(ctx, in)
		if err != nil {
			return err
		}
		return remote.UnmarshalBinary(in[:n])
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.dials++
	w.mu.Unlock()
	for seq := uint64(1); ctx.Err() == nil; seq++ {
		if err := w.round(ctx, c, regions[0], regions[1], remote, in, seq); err != nil {
			return err
		}
		w.mu.Lock()
		w.rounds++
		w.served = began
		w.mu.Unlock()
		if w.churn > 0 && seq >= uint64(w.churn) {
			return nil
		}
		began = time.Now()
	}
	return nil
}

func (w *worker) round(ctx context.Context, c *cm.Conn, block, back *ibv.MR, remote ibv.RemoteBuffer, in []byte, seq uint64) error {
	length := 1 + rand.IntN(mostBlock)
	offset := rand.IntN(memory - length)
	data := block.Bytes()[:length]
	noise(data)
	there, err := remote.At(uint64(offset), uint64(length))
	if err != nil {
		return err
	}
	if err := w.do(ctx, "write", func(ctx context.Context) error { return c.Write(ctx, block.SGE(0, length), there) }); err != nil {
		return err
	}
	m := message{seq: seq, offset: uint32(offset), length: uint32(length), sum: sum(data)}
	if err := w.do(ctx, "send", func(ctx context.Context) error { return c.Send(ctx, m.appendTo(nil)) }); err != nil {
		return err
	}
	n := 0
	err = w.do(ctx, "receive", func(ctx context.Context) error { n, err = c.Recv(ctx, in); return err })
	if err != nil {
		return err
	}
	reply, rest, err := parse(in[:n])
	if err != nil || reply.offset != 0 || reply.seq != seq || int(reply.length) != len(rest) || sum(rest) != reply.sum {
		w.wrong(fmt.Errorf("%v: message %d: %w", w, seq, errWrong))
		return errWrong
	}
	clear(back.Bytes())
	if err := w.do(ctx, "read", func(ctx context.Context) error { return c.Read(ctx, back.SGE(0, length), there) }); err != nil {
		return err
	}
	if got := back.Bytes()[:length]; !bytes.Equal(got, data) {
		if notRead(got, data) {
			return fmt.Errorf("%v: read %d: %w: %s", w, seq, errNotRead, difference(got, data))
		}
		w.wrong(fmt.Errorf("%v: read %d: %w: %s", w, seq, errWrong, difference(got, data)))
		return errWrong
	}
	return nil
}

// difference says where got is not as wanted, and whether nothing came there.
func difference(got, want []byte) string {
	first, last, n, zeros := -1, 0, 0, 0
	for i := range want {
		if got[i] != want[i] {
			if first < 0 {
				first = i
			}
			last = i
			n++
			if got[i] == 0 {
				zeros++
			}
		}
	}
	return fmt.Sprintf("%d of %d bytes, from %d to %d, %d of them zero", n, len(want), first, last, zeros)
}

// do makes one operation with its deadline, under the eyes of stuck.
func (w *worker) do(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	began := time.Now()
	w.mu.Lock()
	w.op, w.since = op, began
	w.mu.Unlock()
	err := f(ctx)
	w.mu.Lock()
	w.op = ""
	if took := time.Since(began); took > w.longest {
		w.longest, w.slowest = took, op
	}
	w.mu.Unlock()
	return err
}

// stuck says what has been going on for too long.
func (w *worker) stuck() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.op != "" && time.Since(w.since) > late {
		return fmt.Errorf("%v: %s HANGS for %v", w, w.op, time.Since(w.since).Round(time.Second))
	}
	return nil
}

func (w *worker) note(err error) {
	k := kind(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[k]++
	w.example[k] = err
}

// servedSince tells whether a round that began after t is complete.
func (w *worker) servedSince(t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served.After(t)
}

func (w *worker) hasFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failed) > 0
}

// kinds are the errors that a user would tell apart, the most telling first.
var kinds = []struct {
	name string
	err  error
}{
	{"memlock", ibv.ErrMemlock}, {"exhausted", ibv.ErrExhausted}, {"device removed", ibv.ErrDeviceRemoved}, {"route mismatch", cm.ErrRouteMismatch},
	{"device split", cm.ErrDeviceSplit}, {"changed", cm.ErrChanged}, {"no route", cm.ErrNoRoute},
	{"binding lost", cm.ErrBindingLost}, {"not local", cm.ErrNotLocal}, {"not RDMA", cm.ErrNotRDMA},
	{"look-up", cm.ErrLookup}, {"no listener", cm.ErrConnRefused}, {"stale", cm.ErrStale}, {"rejected", cm.ErrRejected},
	{"unreachable", cm.ErrUnreachable}, {"disconnected", cm.ErrDisconnected}, {"deadline", context.DeadlineExceeded},
	{"busy", ibv.ErrBusy}, {"closed", cm.ErrClosed}, {"READ not done", errNotRead}, {"WRONG BYTES", errWrong},
}

func kind(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "other: " + err.Error()
}
