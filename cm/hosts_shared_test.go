//go:build linux

package cm

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two RDMA devices on one network device, in the topology `shared`: an address of
// it is behind both, and which one the kernel takes was decided when they were
// registered. So the rule refuses, and says so before anything is asked, unless
// something tells them apart.
func TestSharedDevices(t *testing.T) {
	needTopo(t, "shared")
	for _, c := range []struct{ local, peer, netdev, first, other string }{
		{"10.1.0.1", "10.1.0.2", "a0", "rxe0", "siw0"},
		{"fd01::1", "fd01::2", "a0", "rxe0", "siw0"},
		{"10.2.0.1", "10.2.0.2", "b0", "siw1", "rxe1"},
		{"fd02::1", "fd02::2", "b0", "siw1", "rxe1"},
	} {
		local := netip.AddrPortFrom(netip.MustParseAddr(c.local), 0)
		peer := netip.AddrPortFrom(netip.MustParseAddr(c.peer), 7471)
		t.Run(c.local, func(t *testing.T) {
			t.Run("kernel alone", func(t *testing.T) {
				for _, bind := range []string{local.String(), ""} {
					kernel := alone(t, bind, "", peer.String(), 5*time.Second)
					require.Equal(t, c.first+" from "+c.local, kernel)
				}
			})
			places := []string{c.first + "/1 on " + c.netdev, c.other + "/1 on " + c.netdev}
			both := func(t *testing.T, err error) {
				t.Helper()
				require.ErrorIs(t, err, ErrAmbiguousDevice)
				require.ErrorIs(t, err, syscall.ENOTUNIQ)
				for _, p := range places {
					require.ErrorContains(t, err, p)
				}
				t.Log(err)
			}
			t.Run("bind", func(t *testing.T) {
				id := newTestID(t, IDConfig{})
				both(t, id.Bind(local))
				require.Equal(t, StatePoisoned, id.State())
			})
			t.Run("idle", func(t *testing.T) {
				id := newTestID(t, IDConfig{})
				calls := resolveCalls.Load()
				err := id.ResolveAddr(within(t, time.Minute), ap(""), peer)
				ambiguous.check(t, id, err, resolveCalls.Load()-calls)
				both(t, err)
			})
			t.Run("listen", func(t *testing.T) {
				l, err := Listen(local, ListenConfig{})
				if err == nil {
					l.Close()
				}
				both(t, err)
			})
			for _, device := range []string{c.first, c.other, c.netdev} {
				t.Run("dial from "+device, func(t *testing.T) {
					d := Dialer{LocalDevice: device}
					calls := resolveCalls.Load()
					_, err := d.DialAddr(within(t, time.Minute), peer)
					require.Equal(t, calls, resolveCalls.Load())
					both(t, err)
				})
			}
		})
	}
}

// Where something tells the two apart, data goes: a VLAN's addresses are those of
// rxe's device only, and where one device is alone there is nothing to tell.
func TestSharedData(t *testing.T) {
	needTopo(t, "shared")
	for _, c := range []struct{ local, device, place string }{
		{"10.4.0.1", "rxe0", "rxe0@v0"},
		{"fd04::1", "rxe0", "rxe0@v0"},
		{"10.3.0.1", "siw2", "siw2@c0"},
		{"fd03::1", "siw2", "siw2@c0"},
	} {
		t.Run(c.place+" "+c.local, func(t *testing.T) {
			loopData(t, c.local, c.place)
			id, err := (&Dialer{LocalDevice: c.place[5:]}).resolve(within(t, time.Minute), netip.AddrPortFrom(netip.MustParseAddr(c.local), 7471))
			require.NoError(t, err)
			require.Equal(t, c.device, id.Binding().Device)
			require.NoError(t, id.Close())
		})
	}
}

// A listener on any address hears both devices, and each request is told where it
// came in.
func TestSharedListener(t *testing.T) {
	needTopo(t, "shared")
	l := listen(t, "0.0.0.0:0", ListenConfig{})
	for _, c := range []struct{ local, place string }{{"10.4.0.1", "rxe0@v0"}, {"10.3.0.1", "siw2@c0"}} {
		local := netip.MustParseAddr(c.local)
		ctx := within(t, time.Minute)
		done := make(chan *Conn, 1)
		go func() {
			defer close(done)
			r, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			s, err := r.Accept(ctx, AcceptConfig{})
			if err != nil {
				t.Error(err)
				return
			}
			done <- s
		}()
		d := Dialer{LocalAddr: netip.AddrPortFrom(local, 0)}
		client, err := d.DialAddr(ctx, netip.AddrPortFrom(local, l.Addr().Port()))
		require.NoError(t, err)
		server := <-done
		require.NotNil(t, server)
		for _, end := range []*Conn{client, server} {
			require.Equal(t, c.place, end.Binding().Device+"@"+end.Binding().Netdev)
			require.NoError(t, end.Close())
		}
	}
}
