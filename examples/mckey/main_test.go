package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/examples/internal/peer"
)

func TestMain(m *testing.M) { guest.Main(m, main) }

func TestMisuse(t *testing.T) {
	guest.WantMisuse(t, run, "rb-mckey", "", "-s", "-m 10.0.0.1", "-m all", "-m 239.1.1.1 more", "-m 239.1.1.1 -o", "-m 239.1.1.1 -c 0",
		"-m 239.1.1.1 -b eth0", "-m 239.1.1.1 -pause -1s", "-m 239.1.1.1 -p 1")
	guest.WantHelp(t, run, usage)
}

func TestNoRDMA(t *testing.T) {
	guest.WantNoRDMA(t, run, "-m 239.1.1.1", "-m 239.1.1.1 -s -b 192.0.2.1")
}
func TestBareNoRDMA(t *testing.T) {
	guest.WantNoRDMA(t, run, "-m 239.1.1.1", "-m 239.1.1.1 -s -b 192.0.2.1")
}

// Either role, with rdma-core's program and with itself.
func TestPairPeers(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for i, c := range []struct {
		receiver, sender, addr, device, args string
		members, count, size, verified       int
	}{
		{"theirs", "ours", "10.1.0.1", "rxe0", "-o", 1, 10, 100, 0},
		{"ours", "theirs", "10.2.0.1", "rxe1", "-C 3 -S 1000", 1, 3, 1000, 0},
		{"ours", "ours", "10.2.0.1", "rxe1", "-o -c 2 -C 5 -S 1500", 2, 5, 1500, 1500},
	} {
		t.Run(fmt.Sprintf("%s %s, %s %s", c.receiver, c.sender, c.addr, c.args), func(t *testing.T) {
			group := fmt.Sprintf("239.1.2.%d", i+1)
			base := fmt.Sprintf("-m %s -b %s -C %d -S %d", group, c.addr, c.count, c.size)
			var rcv *guest.Process
			if c.receiver == "ours" {
				// Every member hears every sender.
				rcv = guest.Inside(t, run, fmt.Sprintf("%s -C %d -json", base, c.members*c.count))
			} else {
				rcv = guest.Theirs(t, "stdbuf", "-oL mckey "+base)
			}
			rcv.Says("joined")
			var snd *guest.Process
			if c.sender == "ours" {
				snd = guest.Inside(t, run, base+" -s -json -pause 0s "+c.args)
			} else {
				snd = guest.Theirs(t, "mckey", base+" -s")
			}
			snd.WantStatus(0)
			rcv.WantStatus(0)
			if c.sender == "ours" {
				r := guest.Result[peer.Traffic](t, snd)
				require.Equal(t, c.members, r.Connections)
				require.Equal(t, c.members*c.count, r.Sent)
				require.Equal(t, c.device, r.Device)
			}
			if c.receiver == "ours" {
				r := guest.Result[peer.Traffic](t, rcv)
				require.Equal(t, group, r.Remote)
				require.Equal(t, c.members*c.count, r.Received)
				require.Equal(t, int64(c.members*c.count*c.verified), r.Bytes)
			}
		})
	}
}

func TestPairRefusals(t *testing.T) {
	guest.NeedTopo(t, "pair")
	for _, c := range []struct {
		args    string
		status  int
		message string
	}{
		{"-m 239.1.1.1 -b 10.3.0.1", peer.Refused, "no usable RDMA device"},
		{"-m ff0e::1 -b fd01::1", peer.NoRDMA, "RoCE v2"},
		{"-m 239.1.1.1 -b 10.1.0.1 -S 5000", peer.Failed, "at most 4096 bytes"},
	} {
		p := guest.Inside(t, run, c.args+" -json")
		p.WantStatus(c.status)
		require.Contains(t, guest.Result[peer.Traffic](t, p).Message, c.message)
	}
	// Nobody sends.
	p := guest.Ours(t, "-m 239.1.1.1 -b 10.1.0.1")
	p.Says("joined")
	p.Signal(syscall.SIGINT)
	p.WantStatus(peer.Interrupted)
}
