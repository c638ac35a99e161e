package ibv_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/railbind/railbind/ibv"
)

// The device that has an address of this host, and not just the first one.
func ExampleSelector() {
	open := func() (*ibv.Context, error) {
		return ibv.Selector{Addr: netip.MustParseAddr("10.1.0.1")}.Open()
	}
	_ = open
}

// What a device can do, before it is asked to.
func ExampleContext() {
	limits := func(name string) error {
		c, err := ibv.Open(name)
		if err != nil {
			return err // ErrNoRDMA, ErrNoDevice, ErrDeviceNotAccessible: each says what to do
		}
		defer c.Close()
		dev, err := c.QueryDevice()
		if err != nil {
			return err
		}
		port, err := c.QueryPort(1)
		if err != nil {
			return err
		}
		fmt.Println(dev.MaxQPWR, "requests in a queue,", port.ActiveMTU, "in a packet")
		return nil
	}
	_ = limits
}

// Memory of the library's own, and a slice of the program's.
func ExamplePD() {
	register := func(c *ibv.Context, mine []byte) (own, slice *ibv.MR, err error) {
		pd, err := c.AllocPD()
		if err != nil {
			return nil, nil, err
		}
		if own, err = pd.AllocMR(1<<20, ibv.LocalWrite|ibv.RemoteRead); err != nil {
			return nil, nil, err // ErrMemlock: the limit, and how to raise it
		}
		slice, err = pd.Register(mine, ibv.LocalWrite) // pinned until it is closed
		return own, slice, err
	}
	_ = register
}

// A region cannot be closed under the device's hands.
func ExampleMR() {
	free := func(mr *ibv.MR) {
		if err := mr.Close(); errors.Is(err, ibv.ErrBusy) {
			fmt.Println("first poll the completions of what uses it:", err)
		}
	}
	_ = free
}

// Huge pages for a large region, near the device.
func ExampleBuffer() {
	make := func(pd *ibv.PD) (*ibv.MR, error) {
		b, err := ibv.NewBuffer(1<<30, ibv.BufferConfig{HugePages: true})
		if err != nil {
			return nil, err
		}
		return pd.RegisterBuffer(b, ibv.LocalWrite|ibv.RemoteWrite)
	}
	_ = make
}

// A page of a region that one peer may write, and no more once it has been closed.
func ExampleMW() {
	lend := func(pd *ibv.PD, qp *ibv.QP, mr *ibv.MR) (*ibv.MW, error) { // mr allows MWBind
		w, err := pd.AllocMW(ibv.MWType2)
		if err != nil {
			return nil, err
		}
		err = qp.PostSend(ibv.SendWR{Op: ibv.OpBindMW, MW: w,
			Bind: ibv.Bind{MR: mr, Length: 4096, Access: ibv.RemoteWrite}})
		return w, err // w.RKey is good once the request has completed
	}
	_ = lend
}

// Two queue pairs connected without a connection manager; the peer's numbers come
// some other way.
func ExampleQP() {
	connect := func(pd *ibv.PD, cq *ibv.CQ, own ibv.GIDEntry, peer ibv.GID, number, psn uint32) (*ibv.QP, error) {
		qp, err := pd.CreateQP(ibv.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 128, MaxRecv: 128})
		if err != nil {
			return nil, err
		}
		cfg := ibv.ConnectConfig{GIDIndex: own.Index, DestGID: peer, DestQPNum: number, DestPSN: psn, Access: ibv.RemoteWrite}
		if err := qp.ToInit(cfg); err != nil {
			return nil, errors.Join(err, qp.Close())
		}
		// Receives are posted here: the peer may send as soon as it is connected.
		if err := qp.Connect(cfg); err != nil {
			return nil, errors.Join(err, qp.Close())
		}
		return qp, nil
	}
	_ = connect
}

// Waiting for completions costs no thread, and ends with the context.
func ExampleCQ() {
	wait := func(ctx context.Context, cq *ibv.CQ) error { // with a completion channel
		var wcs [16]ibv.WC
		for {
			n, err := cq.Wait(ctx, wcs[:])
			if err != nil {
				return err
			}
			for _, wc := range wcs[:n] {
				if err := wc.Err(); err != nil {
					return err // a *WCError: what it means, and what to look at
				}
				fmt.Println("request", wc.ID(), "is done")
			}
		}
	}
	_ = wait
}

// One channel for many CQs.
func ExampleCompChannel() {
	create := func(c *ibv.Context, n int) (cqs []*ibv.CQ, err error) {
		ch, err := c.NewCompChannel()
		if err != nil {
			return nil, err
		}
		for range n {
			cq, err := c.CreateCQ(ibv.CQConfig{Size: 256, Channel: ch})
			if err != nil {
				return nil, err
			}
			cqs = append(cqs, cq)
		}
		return cqs, nil
	}
	_ = create
}

// A thread in C polls the CQs, and Go reads without a crossing.
func ExampleCompletionRing() {
	serve := func(ctx context.Context, c *ibv.Context, handle func(ibv.WC)) error {
		ring, err := c.NewCompletionRing(ibv.RingConfig{Size: 1 << 14})
		if err != nil {
			return err
		}
		if _, err := c.CreateCQ(ibv.CQConfig{Size: 4096, Ring: ring}); err != nil { // and others
			return err
		}
		var wcs [256]ibv.WC
		for {
			n, err := ring.Wait(ctx, wcs[:])
			if err != nil {
				return err
			}
			for _, wc := range wcs[:n] {
				handle(wc)
			}
		}
	}
	_ = serve
}

// Requests that are prepared once, and posted and polled in one crossing for all.
func ExampleSendBatch() {
	writes := func(qp *ibv.QP, cq *ibv.CQ, mr *ibv.MR, there ibv.RemoteBuffer, rounds int) error {
		const n, size = 64, 4096
		b, err := qp.NewSendBatch(ibv.BatchConfig{Requests: n})
		if err != nil {
			return err
		}
		for i := range n {
			to, err := there.At(uint64(i*size), size)
			if err != nil {
				return err
			}
			if err := b.Write(i, to, mr.SGE(i*size, size)); err != nil {
				return err
			}
		}
		var wcs [n]ibv.WC
		for range rounds {
			b.SetIDs(0, n, 0)
			accepted, polled, err := b.PostPoll(cq, wcs[:])
			if err != nil {
				return err
			}
			for polled < accepted {
				more, err := cq.Poll(wcs[:])
				if err != nil {
					return err
				}
				polled += more
			}
		}
		return nil
	}
	_ = writes
}

// A transfer of any length, cut and kept going by C until it is done. The queue pair
// was made with a SendCQ of its own, which is not its RecvCQ.
func ExampleSendBatch_Run() {
	transfer := func(ctx context.Context, qp *ibv.QP, mr *ibv.MR, there ibv.Remote) error {
		t, err := qp.NewTransfer(mr.SGE(0, mr.Len()), there, ibv.TransferConfig{})
		if err != nil {
			return err
		}
		_, err = t.Run(ctx, ibv.RunConfig{})
		return err
	}
	_ = transfer
}

// Memory on the device, where it has some.
func ExampleDeviceMemory() {
	onDevice := func(pd *ibv.PD) (*ibv.MR, error) {
		dm, err := pd.Context().AllocDM(4096, 0)
		if errors.Is(err, errors.ErrUnsupported) {
			return pd.AllocMR(4096, ibv.LocalWrite) // as good, a little slower
		}
		if err != nil {
			return nil, err
		}
		return pd.RegisterDM(dm, 0, 4096, ibv.LocalWrite)
	}
	_ = onDevice
}

// A domain whose queue pairs are used by one goroutine at a time need no locks of
// the provider's.
func ExampleThreadDomain() {
	alone := func(pd *ibv.PD) (*ibv.PD, error) {
		td, err := pd.Context().AllocThreadDomain()
		if err != nil {
			return nil, err
		}
		return pd.Parent(td) // create the queue pairs on this one
	}
	_ = alone
}

// Is this host ready?
func ExampleFinding() {
	check := func() {
		for _, f := range ibv.Diagnose() {
			fmt.Println(f.Severity, f.Object, f.What)
			for _, command := range f.Do {
				fmt.Println("   ", command)
			}
		}
	}
	_ = check
}

// What a peer may reach, in a form to send it; nothing outside can be named.
func ExampleRemoteBuffer() {
	lent := ibv.RemoteBuffer{Addr: 0x10000, Len: 8192, RKey: 7}
	message, _ := lent.MarshalBinary()

	var there ibv.RemoteBuffer
	fmt.Println(there.UnmarshalBinary(message), there == lent)
	_, err := there.At(8000, 200)
	fmt.Println(errors.Is(err, ibv.ErrOutOfRange))
	// Output:
	// <nil> true
	// true
}
