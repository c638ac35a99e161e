// Command dial sends a message from a bound address and prints the answer: the
// program of the README. Command serve is the other end.
package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cm"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	d := cm.Dialer{LocalAddr: netip.MustParseAddrPort("10.10.1.1:0")} // rail 1
	c, err := d.Dial(ctx, "10.10.1.2:7471")
	if err != nil {
		log.Fatal(err) // says what was refused, why, and what to do
	}
	defer c.Close()
	fmt.Println("on", c.Binding().Device, "via", c.Binding().Netdev)

	if err := c.Send(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Recv(ctx, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf[:n])
}
