package ibv_test

import (
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/railbind/railbind/ibv"
)

// A datagram to a peer whose GID, queue pair and key are known, and the answer to
// whoever sent one.
func ExampleAH() {
	send := func(pd *ibv.PD, qp *ibv.QP, peer netip.Addr, num, key uint32) error {
		own, err := pd.Context().FindGID(netip.MustParseAddr("10.1.0.1"))
		if err != nil {
			return err
		}
		ah, err := pd.CreateAH(ibv.AHAttr{Global: true, DGID: ibv.GIDOf(peer), SGIDIndex: own.Index, Port: 1, HopLimit: 64})
		if err != nil {
			return err
		}
		return qp.PostSend(ibv.SendWR{Inline: []byte("hello"), Dest: ibv.Dest{AH: ah, QPNum: num, QKey: key}})
	}
	answer := func(pd *ibv.PD, qp *ibv.QP, wc ibv.WC, received []byte, key uint32) error {
		fmt.Printf("%s\n", received[ibv.GRHSize:wc.Len()])
		ah, err := pd.CreateAHFromWC(wc, received, 1)
		if err != nil {
			return err
		}
		return qp.PostSend(ibv.SendWR{Inline: []byte("and you"), Dest: ibv.Dest{AH: ah, QPNum: wc.SrcQP(), QKey: key}})
	}
	_, _ = send, answer
}

// Many queue pairs that take their receives from one queue.
func ExampleSRQ() {
	serve := func(pd *ibv.PD, cq *ibv.CQ, mr *ibv.MR, clients int) ([]*ibv.QP, error) {
		srq, err := pd.CreateSRQ(ibv.SRQConfig{MaxRecv: 1024, Limit: 128}) // EventSRQLimitReached below 128
		if err != nil {
			return nil, err
		}
		b, err := srq.NewRecvBatch(ibv.BatchConfig{Requests: 1024})
		if err != nil {
			return nil, err
		}
		for i := range b.Len() {
			if err := b.Recv(i, mr.SGE(i*4096, 4096)); err != nil {
				return nil, err
			}
			b.SetID(i, uint64(i))
		}
		if _, err := b.Post(); err != nil {
			return nil, err
		}
		qps := make([]*ibv.QP, clients)
		for i := range qps {
			if qps[i], err = pd.CreateQP(ibv.QPConfig{SendCQ: cq, RecvCQ: cq, SRQ: srq}); err != nil {
				return nil, err
			}
		}
		return qps, nil
	}
	_ = serve
}

// A domain into whose SRQs a peer sends over one connection.
func ExampleXRCD() {
	open := func(c *ibv.Context, pd *ibv.PD, cq *ibv.CQ) error {
		x, err := c.OpenXRCD(nil)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil // the device has no XRC
		} else if err != nil {
			return err
		}
		srq, err := pd.CreateSRQ(ibv.SRQConfig{XRCD: x, CQ: cq})
		if err != nil {
			return err
		}
		target, err := pd.CreateQP(ibv.QPConfig{Type: ibv.XRCRecv, XRCD: x})
		if err != nil {
			return err
		}
		num, err := srq.Number()
		log.Println("connect to", target.Num(), "and send to", num)
		return err
	}
	_ = open
}

// A piece of memory, opened to the peer and closed again without a registration.
func ExampleSendBatch_BindMW() {
	open := func(qp *ibv.QP, w *ibv.MW, mr *ibv.MR) (ibv.Remote, error) {
		err := qp.PostSend(ibv.SendWR{Op: ibv.OpBindMW, MW: w,
			Bind: ibv.Bind{MR: mr, Offset: 4096, Length: 4096, Access: ibv.RemoteWrite}})
		return ibv.Remote{Addr: mr.Addr() + 4096, RKey: w.RKey()}, err // good once the request has completed
	}
	shut := func(qp *ibv.QP, w *ibv.MW) error {
		return qp.PostSend(ibv.SendWR{Op: ibv.OpLocalInv, RKey: w.RKey()})
	}
	_, _ = open, shut
}

// Completions with the device's time.
func ExampleCQ_PollEx() {
	poll := func(c *ibv.Context) error {
		cq, err := c.CreateCQ(ibv.CQConfig{Extended: true, Fields: ibv.WithTimestamp})
		if err != nil {
			return err // errors.ErrUnsupported where the device has no clock
		}
		wcs, extra := make([]ibv.WC, 16), make([]ibv.WCExtra, 16)
		n, err := cq.PollEx(wcs, extra)
		for i := range n {
			fmt.Println(wcs[i].ID(), extra[i].Timestamp())
		}
		return err
	}
	_ = poll
}

// Frames of one UDP port, counted.
func ExampleFlow() {
	steer := func(c *ibv.Context, qp *ibv.QP) (*ibv.Flow, *ibv.Counters, error) {
		n, err := c.CreateCounters()
		if err != nil {
			return nil, nil, err
		}
		if err := n.Attach(ibv.CountPackets, 0); err != nil {
			return nil, nil, err
		}
		f, err := qp.CreateFlow(ibv.FlowConfig{Specs: []ibv.FlowSpec{
			ibv.FlowEth(ibv.EthFilter{EtherType: 0x0800}, ibv.EthFilter{EtherType: 0xffff}),
			ibv.FlowIPv4(netip.Prefix{}, netip.MustParsePrefix("10.1.0.1/32")),
			ibv.FlowUDP(0, 7471), ibv.FlowCount(n),
		}})
		return f, n, err
	}
	_ = steer
}

// What a flow has counted.
func ExampleCounters() {
	read := func(n *ibv.Counters) (packets uint64, err error) {
		var v [1]uint64
		err = n.Read(v[:], false)
		return v[0], err
	}
	_ = read
}

// Frames spread over two queues, each with a CQ and a goroutine of its own.
func ExampleRSSTable() {
	spread := func(c *ibv.Context, pd *ibv.PD, a, b *ibv.CQ, key []byte) (*ibv.QP, error) {
		var wqs []*ibv.WQ
		for _, cq := range []*ibv.CQ{a, b} {
			wq, err := pd.CreateWQ(cq, 512, 1)
			if err != nil {
				return nil, err // errors.ErrUnsupported on software devices
			}
			if err := wq.Modify(ibv.WQReady); err != nil {
				return nil, err
			}
			wqs = append(wqs, wq)
		}
		t, err := c.CreateRSSTable(wqs...)
		if err != nil {
			return nil, err
		}
		return t.CreateQP(pd, ibv.RSSConfig{Key: key, Fields: 1<<0 | 1<<1}) // IPv4 source and destination
	}
	_ = spread
}

// What a transport lacks is known before it is asked for.
func ExampleContext_Can() {
	imm := func(c *ibv.Context) bool { return c.Can(ibv.RC, ibv.OpWriteImm) == nil } // false on iWARP
	_ = imm
}
