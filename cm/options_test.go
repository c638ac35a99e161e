package cm

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The options come to be on the queue pairs of both ends.
func TestPairOptions(t *testing.T) {
	needTopo(t, "pair")
	want := Options{TypeOfService: 96, AckTimeout: 17}
	l := listen(t, "[fd01::1]:0", ListenConfig{Options: want})
	client, server := meet(t, l, Dialer{LocalAddr: ap("[fd01::1]:0"), Options: want}, AcceptConfig{})
	for name, c := range map[string]*Conn{"client": client, "server": server} {
		a, err := c.QP().Query()
		require.NoError(t, err)
		if !iwarp() { // whose queue pairs have neither: that is TCP's
			require.Equal(t, want.AckTimeout, a.Timeout, name)
			require.Equal(t, want.TypeOfService, a.AH.TrafficClass, name)
		}
		require.NoError(t, c.Close())
	}
	_, err := NewID(IDConfig{Options: Options{AckTimeout: 32}})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "31")
}

func TestPairReuseAddr(t *testing.T) {
	needTopo(t, "pair")
	for _, reuse := range []bool{false, true} {
		cfg := IDConfig{Options: Options{ReuseAddr: reuse}}
		one, two := newTestID(t, cfg), newTestID(t, cfg)
		require.NoError(t, one.Bind(ap(home)))
		err := two.Bind(one.LocalAddr())
		if !reuse {
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			continue
		}
		require.NoError(t, err)
		require.ErrorIs(t, one.Listen(0), syscall.EADDRINUSE)
		require.NoError(t, two.ResolveAddr(within(t, time.Minute), ap(""), ap("10.1.0.2:1")))
	}
}

// A listener on :: takes IPv4 peers unless it is told not to.
func TestPairAFOnly(t *testing.T) {
	needTopo(t, "pair")
	ctx := within(t, time.Minute)
	for _, only := range []bool{false, true} {
		t.Run(fmt.Sprint(only), func(t *testing.T) {
			l := listen(t, "[::]:0", ListenConfig{Options: Options{AFOnly: only}})
			asked := make(chan bool, 1)
			go func() {
				r, err := l.Accept(ctx)
				asked <- err == nil
				r.Close()
			}()
			_, err := (&Dialer{LocalAddr: ap(home)}).Dial(ctx, fmt.Sprintf("10.1.0.1:%d", l.Addr().Port()))
			if only && iwarp() { // TCP itself refuses; without the option its listener does, all the same
				require.ErrorIs(t, err, ErrConnRefused)
			} else {
				require.ErrorIs(t, err, ErrRejected, "the kernel's own word, where it finds no listener of the family")
			}
			require.NoError(t, l.Close())
			require.Equal(t, !only && !iwarp(), <-asked)
		})
	}
}
