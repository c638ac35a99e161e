//go:build linux

package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// What iWARP has not is refused before the kernel is asked, with what there is
// instead; the id stays what it was.
func TestSiwRefuses(t *testing.T) {
	needTopo(t, "pair")
	require.True(t, iwarp(), "this test is for -transport siw")
	refused := func(t *testing.T, id *ID, err error, instead string) {
		t.Helper()
		require.ErrorIs(t, err, ErrTransport)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		var op *OpError
		require.ErrorAs(t, err, &op)
		require.ErrorContains(t, err, "siw0 is iWARP")
		require.ErrorContains(t, err, instead)
		require.NoError(t, id.Err())
	}
	ctx := within(t, time.Minute)
	for _, space := range []PortSpace{PortSpaceUDP, PortSpaceIPoIB} {
		for _, at := range []struct{ src, dst, group netip.AddrPort }{
			{ap("10.1.0.1:0"), ap("10.1.0.2:7"), ap("239.0.0.1:0")},
			{ap("[fd01::1]:0"), ap("[fd01::2]:7"), ap("[ff0e::1]:0")},
		} {
			t.Run(space.String()+"/"+at.src.Addr().String(), func(t *testing.T) {
				asked := resolveCalls.Load()
				id := newTestID(t, IDConfig{PortSpace: space})
				const instead = "use the port space TCP"
				refused(t, id, id.Bind(at.src), instead)
				refused(t, id, id.ResolveAddr(ctx, at.src, at.dst), instead)
				refused(t, id, id.ResolveAddr(ctx, netip.AddrPort{}, at.dst), instead)
				refused(t, id, id.ResolveAddr(ctx, at.src, at.group), instead)
				require.Equal(t, asked, resolveCalls.Load())
				require.Equal(t, StateIdle, id.State())
			})
		}
	}

	t.Run("connections", func(t *testing.T) {
		const instead = "CreateQP"
		var q queues
		client, request, asked := asking(t, "10.1.0.1:0", func(id *ID) error {
			q = newQueues(t, id.Context())
			own, err := q.pd.CreateQP(q.config(0))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, own.Close()) })
			refused(t, id, id.Move(own, ibv.QPInit), instead)
			refused(t, id, id.SetLocalECE(ECE{Vendor: 1}), instead)
			refused(t, id, id.Connect(ctx, ConnParam{QP: own}), instead)
			_, err = id.CreateQP(q.pd, q.config(ibv.UD))
			require.ErrorIs(t, err, errors.ErrUnsupported)
			_, err = id.CreateQP(q.pd, q.config(0))
			return errors.Join(err, id.Connect(ctx, ConnParam{}))
		})
		require.NoError(t, request.Reject(nil))
		require.ErrorIs(t, <-asked, ErrRejected)
		require.NoError(t, client.QP().Close())
	})
}

// A message that siw leaves unread at the accepting side is read with the next data:
// the side that dialled sends some, unasked.
func TestSiwNudge(t *testing.T) {
	needTopo(t, "pair")
	require.True(t, iwarp(), "this test is for -transport siw")
	client, server := pairUp(t, "10.1.0.1:0", Dialer{LocalAddr: ap("10.1.0.1:0")}, AcceptConfig{})
	received := func() string {
		socket := run(t, fmt.Sprintf("ss -HtinO src %v and dst %v", server.LocalAddr(), client.LocalAddr()))
		_, rest, _ := strings.Cut(socket, " bytes_received:")
		bytes, _, _ := strings.Cut(rest, " ")
		require.NotEmpty(t, bytes, socket)
		return bytes
	}
	before := received() // the request of the connection
	require.Eventually(t, func() bool { return received() != before }, time.Minute, 100*time.Millisecond)

	// Nobody sees it: messages and WRITEs pass as ever.
	ctx := within(t, time.Minute)
	require.NoError(t, client.Send(ctx, []byte("hello")))
	buf := make([]byte, 10)
	n, err := server.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf[:n]))
	require.NoError(t, server.Send(ctx, buf[:n]))
	_, err = client.Recv(ctx, buf)
	require.NoError(t, err)
}

// A host that answers no TCP keeps the kernel within rdma_connect for two minutes, and
// nobody else.
func TestSiwSilentHost(t *testing.T) {
	needTopo(t, "pair")
	require.True(t, iwarp(), "this test is for -transport siw")
	ip(t, "neighbour replace 10.1.0.99 lladdr 52:54:00:99:99:99 nud permanent dev a0")
	t.Cleanup(func() { ip(t, "neighbour del 10.1.0.99 dev a0") })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err := (&Dialer{LocalAddr: ap("10.1.0.1:0")}).DialAddr(ctx, ap("10.1.0.99:7471"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var timeout *TimeoutError
	require.ErrorAs(t, err, &timeout)
	require.Equal(t, "connect", timeout.Phase)
	require.Less(t, time.Since(began), 30*time.Second)
}

// What siw would answer with other bytes, or send so: short pieces across a page.
func TestSiwShortAcrossPage(t *testing.T) {
	needTopo(t, "pair")
	require.True(t, iwarp(), "this test is for -transport siw")
	client, server := pairUp(t, "10.1.0.1:0",
		Dialer{LocalAddr: ap("10.1.0.1:0"), Queues: QueueConfig{MaxMessage: 100}},
		AcceptConfig{Queues: QueueConfig{MaxMessage: 100}})
	ctx := within(t, time.Minute)
	memory := func(c *Conn) *ibv.MR {
		mr, err := c.PD().AllocMR(3*siwPage, ibv.LocalWrite|ibv.RemoteRead|ibv.RemoteWrite)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, mr.Close()) })
		return mr
	}
	here, there := memory(client), memory(server)
	for i := range there.Bytes() {
		there.Bytes()[i], here.Bytes()[i] = byte(i*7), byte(i*11)
	}
	for _, n := range []int{2, 9, 31, siwShort} {
		for first := 1; first < n; first++ { // before the page's end
			from := siwPage - first
			require.NoError(t, client.Read(ctx, here.SGE(2*siwPage, n), there.Remote(from)))
			require.Equal(t, there.Bytes()[from:from+n], here.Bytes()[2*siwPage:2*siwPage+n], "READ of %d, %d before", n, first)

			require.NoError(t, client.Write(ctx, here.SGE(from, n), there.Remote(2*siwPage)))
			require.NoError(t, client.Send(ctx, here.Bytes()[from:from+n])) // and so the WRITE is there
			buf := make([]byte, 100)
			got, err := server.Recv(ctx, buf)
			require.NoError(t, err)
			require.Equal(t, here.Bytes()[from:from+n], buf[:got], "SEND of %d", n)
			require.Equal(t, here.Bytes()[from:from+n], there.Bytes()[2*siwPage:2*siwPage+n], "WRITE of %d, %d before", n, first)
		}
	}
}
