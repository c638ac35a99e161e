// Command serve answers each message with the same message, on all RDMA devices
// or, given an address, on the one that has it: serve [ADDR:PORT].
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"

	"github.com/railbind/railbind/cm"
)

func main() {
	addr := "0.0.0.0:7471"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	local, err := netip.ParseAddrPort(addr)
	if err != nil {
		log.Fatalf("usage: serve [ADDR:PORT]; %q is not that", addr)
	}
	l, err := cm.Listen(local, cm.ListenConfig{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", l.Addr())
	for {
		r, err := l.Accept(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			if err := echo(r); err != nil {
				log.Print(err)
			}
		}()
	}
}

func echo(r *cm.Request) error {
	ctx := context.Background()
	c, err := r.Accept(ctx, cm.AcceptConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(c.RemoteAddr(), "on", c.Binding().Device, "via", c.Binding().Netdev)
	buf := make([]byte, 4096)
	for {
		n, err := c.Recv(ctx, buf)
		if errors.Is(err, cm.ErrDisconnected) {
			return nil
		}
		if err == nil {
			err = c.Send(ctx, buf[:n])
		}
		if err != nil {
			return err
		}
	}
}
