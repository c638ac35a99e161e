package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// end is one end of the test. Its memory is as perftest's: what it sends, then
// what the peer reads or writes, each a span long; behind that are slots, for what
// comes by SEND, or is fetched.
type end struct {
	*options
	agreement
	peer.Place
	r      *result
	stderr io.Writer
	talk   talk

	listener *cm.Listener // -R
	conn     *cm.Conn     // -R
	pd       *ibv.PD
	ch       *ibv.CompChannel
	cq       *ibv.CQ
	mr       *ibv.MR
	qp       *ibv.QP
	wcs      []ibv.WC

	mine, theirs keys
	there        content
	sent, came   int
}

// result is what became of the test.
type result struct {
	peer.Outcome
	Test     string  `json:"test"`
	Size     int     `json:"size"` // bytes of a message
	Messages int     `json:"messages"`
	Bytes    int64   `json:"bytes_verified"` // of what came to this end
	Seconds  float64 `json:"seconds"`
}

// Text is the result on one line.
func (r *result) Text() string {
	return fmt.Sprintf("%s: %s: %d messages of %d bytes in %.2f s, %.2f us each, %d bytes verified, %s -> %s on %s/%d (%s)",
		r.Role, r.Test, r.Messages, r.Size, r.Seconds, r.Seconds*1e6/float64(max(1, r.Messages)), r.Bytes, r.Local, r.Remote, r.Device, r.Port, r.Netdev)
}

func play(ctx context.Context, o *options, r *result, stderr io.Writer) (err error) {
	e := &end{options: o, r: r, stderr: stderr, wcs: make([]ibv.WC, 64)}
	defer func() { err = peer.OrEnded(ctx, errors.Join(err, e.close())) }()
	e.agreement = agreement{cycle: 4096, line: 64, mtu: o.MTU}
	return inTurn(
		func() error { return e.meet(ctx) },
		func() error { return e.open() },
		func() error { return e.agree(e.swap) },
		func() error { return e.join(ctx) },
		func() error { return e.tell(e.ready()) },
		func() error { return e.run(ctx) },
		func() error { return e.finish() },
	)
}

// open finds the device, where the connection manager does not.
func (e *end) open() (err error) {
	e.there.from = time.Now()
	if e.cm {
		return nil
	}
	e.Place, err = e.Open(e.talk.local())
	if err == nil {
		e.r.At(e.Place, e.IBPort)
		e.mtu = e.MTU
	}
	return err
}

// join makes the queue pair, tells the peer of it, and connects it.
func (e *end) join(ctx context.Context) error {
	makes, connects := e.make, e.connect
	if e.cm {
		connects = func() error { return nil } // it is, already
		makes = func() error {
			return inTurn(
				func() error { return e.tell(1) },
				func() error { return e.second(ctx, e.talk.(messages).Conn) },
				func() error { return e.tell(1) },
			)
		}
	}
	err := inTurn(
		makes,
		func() error { return e.tell(e.before() + 1) },
		connects,
	)
	if err != nil {
		return err
	}
	e.there.until = time.Now()
	if e.cm {
		e.r.Place(e.conn)
	}
	e.r.Connected = true
	return nil
}

// tell exchanges the keys so often.
func (e *end) tell(n int) error {
	encode := func() []byte { return e.mine.text(!e.GID.GID.IsZero()) }
	decode := parseText
	if e.cm {
		encode, decode = e.mine.binary, parseBinary
	}
	for range n {
		b, err := e.swap(encode())
		if err == nil {
			e.theirs, err = decode(b)
		}
		if err != nil {
			return fmt.Errorf("exchanging keys with the peer: %w", err)
		}
	}
	return nil
}

// span is the length of a part of the memory.
func (e *end) span() int { return max(e.size, e.cycle) }

// slot is where message k goes that this end gets into memory of its choice.
func (e *end) slot(k int) int { return 2*e.span() + k%e.most*e.size }

// at is where message k lies, and goes to, from the beginning of a part.
func (e *end) at(k int) int {
	step := (e.size + e.line - 1) / e.line * e.line
	if !e.stream || e.size > e.cycle/2 {
		return 0
	}
	return k % (e.cycle / step) * step
}

// parts is how many different places the messages have.
func (e *end) parts() int {
	n := 1
	for n < e.n && e.at(n) != 0 {
		n++
	}
	return n
}

// receives is how many are posted.
func (e *end) receives() int {
	if e.sends() {
		return e.most
	}
	return 1
}

// resources makes what the queue pair needs, on the device that is connected.
func (e *end) resources(ctx *ibv.Context) (cm.Resources, error) {
	if ctx.Transport() == ibv.TransportIWARP {
		return cm.Resources{}, fmt.Errorf("%s: %w: on iWARP perftest does otherwise, with credits (rb-perf measures there)", ctx.Name(), errors.ErrUnsupported)
	}
	e.Ctx = ctx
	if e.pd == nil {
		if err := e.lay(); err != nil {
			return cm.Resources{}, err
		}
	}
	return cm.Resources{PD: e.pd, QP: e.config(), Prepare: e.prepare}, nil
}

func (e *end) config() ibv.QPConfig {
	return ibv.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, MaxSend: e.most, MaxRecv: e.receives()}
}

// lay makes the memory and the completion queue.
func (e *end) lay() (err error) {
	if e.pd, err = e.Ctx.AllocPD(); err != nil {
		return err
	}
	if e.ch, err = e.Ctx.NewCompChannel(); err != nil {
		return err
	}
	if e.cq, err = e.Ctx.CreateCQ(ibv.CQConfig{Size: e.most + e.receives(), Channel: e.ch, Spin: time.Millisecond}); err != nil {
		return err
	}
	if e.mr, err = e.pd.AllocMR(e.slot(0)+e.most*e.size, ibv.LocalWrite|e.access()); err != nil {
		return err
	}
	copy(e.mr.Bytes(), peer.Pattern(2*e.span()))
	if e.op == ibv.OpWrite {
		clear(e.mr.Bytes()[e.span():]) // so that what does not come is not there
	}
	return nil
}

// access is what the peer may do.
func (e *end) access() ibv.Access {
	switch {
	case e.atomic():
		return ibv.RemoteAtomic
	case e.op == ibv.OpRead:
		return ibv.RemoteRead
	case e.op == ibv.OpWrite:
		return ibv.RemoteWrite
	}
	return 0
}

// prepare posts the receives, and sets the keys that the peer is told.
func (e *end) prepare(qp *ibv.QP) error {
	e.qp = qp
	attr, err := e.Ctx.QueryDevice()
	if err != nil {
		return err
	}
	e.mine = keys{
		lid: e.LID, reads: uint16(min(16, attr.MaxQPReadAtomic)), qpn: qp.Num(), psn: rand.Uint32() & 0xffffff,
		rkey: e.mr.RKey(), addr: e.mr.Addr() + uint64(e.span()), gid: e.GID.GID,
	}
	for k := range e.receives() {
		if err := e.receive(k); err != nil {
			return err
		}
	}
	return nil
}

// make makes the queue pair, where the connection manager does not.
func (e *end) make() error {
	if err := e.lay(); err != nil {
		return err
	}
	qp, err := e.pd.CreateQP(e.config())
	if err != nil {
		return err
	}
	e.qp = qp
	if err := qp.ToInit(ibv.ConnectConfig{Port: e.IBPort, Access: e.access()}); err != nil {
		return err
	}
	return e.prepare(qp)
}

func (e *end) connect() error {
	k := e.theirs
	e.r.Remote = k.gid.Addr().String()
	err := e.qp.Connect(ibv.ConnectConfig{
		Port: e.IBPort, DestQPNum: k.qpn, DestPSN: k.psn, DestGID: k.gid, DestLID: k.lid,
		GIDIndex: e.GID.Index, PSN: e.mine.psn, MTU: e.mtu,
		MaxRdAtomic: min(int(k.reads), int(e.mine.reads)), MaxDestRdAtomic: int(e.mine.reads),
	})
	if err != nil {
		return fmt.Errorf("to queue pair %#x at %v: %w", k.qpn, k.gid.Addr(), err)
	}
	return nil
}

// run is the test itself.
func (e *end) run(ctx context.Context) (err error) {
	began := time.Now()
	switch {
	case e.rallies():
		err = e.rally(ctx)
	case e.Host != "":
		err = e.source(ctx)
	case e.sends():
		err = e.await(ctx, 0, e.n)
	default: // the client does it all, and tells when it is done
		e.came = e.n
	}
	e.r.Messages, e.r.Seconds, e.r.Bytes = max(e.sent, e.came), time.Since(began).Seconds(), e.there.bytes
	return err
}

// finish waits for the peer's end of the test, and looks at what it has left here.
func (e *end) finish() error {
	if e.rallies() && e.op == ibv.OpWrite {
		return nil
	}
	if err := e.tell(1); err != nil || e.sends() {
		return err
	}
	if e.Host == "" {
		if err := e.left(); err != nil {
			return err
		}
		e.r.Bytes = e.there.bytes
	}
	if !e.stream {
		return nil
	}
	return inTurn(e.report, func() error { return e.tell(1) })
}

// report exchanges what was measured: bytes of a message, their number, then
// bandwidth at its best and on average, and the rate, of which MB/s and millions
// per second.
func (e *end) report() error {
	var mbs, mpps float64
	if e.Host != "" {
		mpps = float64(e.n) / e.r.Seconds / 1e6
		mbs = mpps * 1e6 * float64(e.size) / (1 << 20)
	}
	for i, v := range []uint64{uint64(e.size), uint64(e.n), math.Float64bits(mbs), math.Float64bits(mbs), math.Float64bits(mpps)} {
		b, err := e.swap(binary.BigEndian.AppendUint64(nil, v))
		if err != nil {
			return fmt.Errorf("exchanging reports with the peer: %w", err)
		}
		if theirs := binary.BigEndian.Uint64(b); i < 2 && theirs != v && e.Host == "" {
			return fmt.Errorf("%w: the client has %d messages of %d bytes (-n and -s must be the same at both ends)",
				peer.ErrProtocol, []uint64{uint64(e.n), theirs}[i], e.size)
		}
	}
	return nil
}

func (e *end) close() error {
	var errs []error
	if e.cm {
		errs = append(errs, e.conn.Close())
	} else {
		errs = append(errs, e.qp.Close())
	}
	errs = append(errs, e.mr.Close(), e.cq.Close(), e.ch.Close(), e.pd.Close(), e.listener.Close())
	if !e.cm {
		errs = append(errs, e.Ctx.Close())
	}
	if e.talk != nil {
		_ = e.talk.Close() // the peer may have been first
	}
	return errors.Join(errs...)
}
