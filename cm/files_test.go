//go:build linux

package cm

import (
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// TestPairFewFiles: a process that has no room for files when it begins is told
// so, and not that there is no RDMA; and with room it works.
func TestPairFewFiles(t *testing.T) {
	needTopo(t, "pair")
	for _, room := range []int{0, 1, 4, 5, 6, 7, 8, 9, 11} { // a dial on either rail needs 12 here
		child(t, "few files", strconv.Itoa(room))
	}
}

// childFewFiles has room for a number of descriptors only, and then for more.
func childFewFiles(t *testing.T, args []string) {
	room, err := strconv.Atoi(args[0])
	require.NoError(t, err)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	next, err := os.Open("/dev/null")
	require.NoError(t, err)
	few := syscall.Rlimit{Cur: uint64(next.Fd()) + uint64(room), Max: limit.Max}
	require.NoError(t, next.Close())

	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	short := useRDMA()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	for what, err := range short {
		if err == nil {
			continue
		}
		require.ErrorIs(t, err, syscall.EMFILE, what)
		for _, wrong := range []error{ibv.ErrNoRDMA, ibv.ErrNoDevice, ibv.ErrDeviceNotAccessible, ErrNotRDMA} {
			require.NotErrorIs(t, err, wrong, what)
		}
	}
	for what, err := range useRDMA() {
		require.NoError(t, err, what)
	}
}

// useRDMA does what a program does first, and tells how that ended.
func useRDMA() map[string]error {
	ended := map[string]error{}
	_, ended["list the devices"] = ibv.Devices()
	c, err := ibv.Open(dev("rxe0"))
	ended["open a device"] = errors.Join(err, c.Close())
	listen := func(rail string) {
		l, err := Listen(ap(rail+":0"), ListenConfig{})
		ended["listen on "+rail] = errors.Join(err, l.Close())
	}
	dial := func(rail string) {
		_, err := (&Dialer{LocalAddr: ap(rail + ":0")}).DialAddr(context.Background(), ap(rail+":9"))
		if errors.Is(err, ErrConnRefused) { // as nobody listens there
			err = nil
		}
		ended["dial "+rail] = err
	}
	dial("10.1.0.1")
	listen("10.1.0.1")
	listen("10.2.0.1")
	dial("10.2.0.1")
	return ended
}
