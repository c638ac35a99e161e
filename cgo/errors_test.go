package cgo

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheck: C helpers return a negative errno, and that is all errors are made of.
func TestCheck(t *testing.T) {
	require.NoError(t, check("op", 0))
	require.NoError(t, check("op", 7))
	err := check("ibv_open_device", -int(syscall.EACCES))
	require.ErrorIs(t, err, syscall.EACCES)
	require.ErrorIs(t, err, os.ErrPermission)
	require.NotErrorIs(t, err, syscall.EPERM)
	require.EqualError(t, err, "ibv_open_device: permission denied")
	for _, e := range []syscall.Errno{syscall.ENOSYS, syscall.EOPNOTSUPP} {
		require.ErrorIs(t, check("op", -int(e)), errors.ErrUnsupported)
	}
}

// TestCheckNewer: what the library here lacks is unsupported, and says since when
// it is there.
func TestCheckNewer(t *testing.T) {
	require.NoError(t, checkNewer("op", 62, 0))
	err := checkNewer("ibv_query_port_speed", 62, notThere)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "needs rdma-core 62 or later")
	require.EqualError(t, checkNewer("ibv_query_port_speed", 62, -int(syscall.EINVAL)), "ibv_query_port_speed: invalid argument")
}

// TestUnavailable: a build without the libraries fails politely everywhere.
func TestUnavailable(t *testing.T) {
	if Available {
		t.Skip("this build has the libraries; CGO_ENABLED=0 has not")
	}
	for name, err := range map[string]error{
		"devices": second(Devices()),
		"open":    second(Open("rxe0")),
		"PD":      second(Context{}.AllocPD()),
		"CQ":      second(Context{}.CreateCQ(1, 0, CompChannel{}, 0)),
		"QP":      second(PD{}.CreateQP(nil)),
		"memory":  second(Alloc(1)),
	} {
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
	}
	require.Equal(t, -int(syscall.ENOSYS), (*CQRecord)(nil).Poll(nil, 0))
	require.Equal(t, int32(syscall.ENOSYS), PostSend(nil).Errno)
}

func second[A any](_ A, err error) error { return err }

// TestGate: no more than gateWidth calls are in the kernel at once.
func TestGate(t *testing.T) {
	for range gateWidth {
		enter()
	}
	in := make(chan struct{})
	go func() { enter(); close(in) }()
	select {
	case <-in:
		t.Fatal("one too many came in")
	default:
	}
	leave()
	<-in
	for range gateWidth {
		leave()
	}
	require.Empty(t, gate)
}
