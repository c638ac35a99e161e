//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

const port = 7480

// listening is what the server prints when both listeners stand.
const listening = "listening"

// serve takes connections of both families until ctx ends. On SIGHUP it closes
// its listeners and listens anew; connections stay.
func serve(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	for ctx.Err() == nil {
		again, stop := context.WithCancel(ctx)
		go func() {
			select {
			case <-hup:
			case <-again.Done():
			}
			stop()
		}()
		var both sync.WaitGroup
		ready := make(chan struct{}, 2)
		for i, address := range []string{"0.0.0.0", "::"} {
			local := netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port+i))
			both.Go(func() { listen(ctx, again, local, ready) })
		}
		go func() {
			<-ready
			<-ready
			fmt.Println(listening)
		}()
		both.Wait()
		stop()
	}
	return nil
}

// listen keeps a listener until again ends, whatever becomes of its device.
func listen(ctx, again context.Context, local netip.AddrPort, ready chan<- struct{}) {
	stands := false
	for again.Err() == nil {
		l, err := cm.Listen(local, cm.ListenConfig{})
		if err == nil {
			if !stands {
				ready <- struct{}{}
				stands = true
			}
			err = accept(ctx, again, l)
			err = errors.Join(err, l.Close())
		}
		if again.Err() == nil {
			fmt.Println("listener:", err)
			pause(again, 100*time.Millisecond)
		}
	}
}

func accept(ctx, again context.Context, l *cm.Listener) error {
	for {
		r, err := l.Accept(again)
		if err != nil {
			return err
		}
		go func() {
			err := answer(ctx, r)
			if errors.Is(err, errWrong) {
				fmt.Println("server:", err)
			}
		}()
	}
}

// answer serves one connection to its end.
func answer(ctx context.Context, r *cm.Request) (err error) {
	step, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	c, err := r.Accept(step, cm.AcceptConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	mr, err := c.PD().AllocMR(memory, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mr.Close()) }()
	all, err := mr.RemoteBuffer(0, memory)
	if err != nil {
		return err
	}
	hello, err := all.MarshalBinary()
	if err != nil {
		return err
	}
	in, out := make([]byte, mostLen), make([]byte, 0, mostLen)
	// The initiator speaks first: iWARP wants that.
	if _, err := c.Recv(step, in); err != nil {
		return err
	}
	if err := c.Send(step, hello); err != nil {
		return err
	}
	data := make([]byte, mostAnswer)
	for {
		// A client that has vanished without a word is not waited for.
		idle, cancel := context.WithTimeout(ctx, 4*deadline)
		n, err := c.Recv(idle, in)
		cancel()
		if err != nil {
			return err
		}
		m, _, err := parse(in[:n])
		if err == nil && uint64(m.offset)+uint64(m.length) > memory {
			err = errWrong
		}
		if err == nil && sum(mr.Bytes()[m.offset:m.offset+m.length]) != m.sum {
			err = errWrong
		}
		reply := message{seq: m.seq}
		if err == nil {
			data = data[:rand.IntN(mostAnswer)]
			noise(data)
			reply.length, reply.sum = uint32(len(data)), sum(data)
		} else {
			reply.offset = 1 // tell the client, who counts
		}
		step, cancel := context.WithTimeout(ctx, deadline)
		sendErr := c.Send(step, append(reply.appendTo(out[:0]), data[:reply.length]...))
		cancel()
		if err = errors.Join(err, sendErr); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
